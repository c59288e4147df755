import { setTimeout as wait } from 'node:timers/promises';
import type { Command } from 'commander';
import { type Config, readConfig } from '../../../config/env.ts';
import { describeError } from '../../core/errors.ts';
import { toVisible } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import type { StreamStatus } from '../../erp/reports/stream-status.ts';
import type { KnownClient } from '../../erp/runs/clients.ts';
import type { StoredGate } from '../../erp/runs/gates.ts';
import { assertSchemaFits } from '../../erp/schema/schema-fit.ts';
import { createStopSignal, outputClosed, setExitCode } from '../cli/command-line.ts';
import { connectDatabase } from '../deps/database.ts';
import {
  describeProblem,
  findAlertProblems,
  findClientProblems,
  findJobProblems,
  findParcelProblems,
  findStockProblems,
  findStreamProblems,
  formatWait,
  toPauseProblem,
} from '../health/find-problems.ts';
import { findOutboxProblems } from '../health/outbox-problems.ts';
import { readSnapshot, type Snapshot } from '../health/snapshot.ts';
import { silentLogger } from '../logging/logger.ts';
import { formatTable, toStateLook } from '../terminal/table.ts';

interface StatusOptions {
  readonly json?: boolean;
  readonly watch?: boolean;
}

const watchMs = 2_000;
/** Clears a terminal and puts its cursor at the top. */
const clear = '\u001b[2J\u001b[3J\u001b[H';

async function statusCommand({ json = false, watch = false }: StatusOptions): Promise<number> {
  const config = readConfig({ database: true, clients: false });
  const { db, close } = connectDatabase(config.DATABASE_URL ?? '', silentLogger, 'status', 1);
  try {
    await assertSchemaFits(db);
    if (!watch) {
      process.stdout.write(`${await describeStatus(db, config, json)}\n`);
      return 0;
    }
    const stop = AbortSignal.any([createStopSignal(), outputClosed]);
    while (!stop.aborted) {
      // If the database cannot be read, the watch continues: an operator often watches during an outage.
      const text = await describeStatus(db, config, json).catch((error: unknown) => describeOutage(error, json));
      process.stdout.write(`${process.stdout.isTTY ? clear : ''}${text}\n`);
      // An abort ends the wait; the loop then ends.
      await wait(watchMs, undefined, { signal: stop }).catch(() => undefined);
    }
    return 0;
  } finally {
    await close();
  }
}

async function describeStatus(db: Database, config: Config, json: boolean): Promise<string> {
  const { now, ...snapshot } = await readSnapshot(db);
  const { jobs, streams, clients, gates, pauses, watchedArticles, parcelBacklog, alerts } = snapshot;
  const lookbackDays = config.LOOKBACK_DAYS;
  if (json) return JSON.stringify({ lookbackDays, ...snapshot, clients: clients.map(withoutIdentity) }, null, 2);
  const clientNotes = [
    ...clients.flatMap((row) => findClientProblems(row, now)).map(describeProblem),
    ...findStockProblems(watchedArticles, config.schedules['pull-stock']).map(describeProblem),
    ...findParcelProblems(parcelBacklog, config).map(describeProblem),
    ...findAlertProblems(alerts, now).map(describeProblem),
    ...describeGates(gates, now),
  ];
  return [
    formatStatus(jobs, streams, lookbackDays, now),
    clientNotes.join('\n'),
    pauses.map(toPauseProblem).map(describeProblem).join('\n'),
    formatOutbox(snapshot, now),
  ]
    .filter(Boolean)
    .join('\n\n');
}

function describeOutage(error: unknown, json: boolean): string {
  const words = describeError(error);
  return json ? JSON.stringify({ error: words }) : `The status cannot be read now: ${words}`;
}

const withoutIdentity = ({ identity: _identity, ...client }: KnownClient) => client;

/** Formats the tables for a person: the state of each job, how fresh each stream is, and the problems below. */
function formatStatus(
  jobs: readonly JobStatus[],
  streams: readonly StreamStatus[],
  lookbackDays: number,
  now: Date,
): string {
  if (jobs.length === 0)
    return 'No job is registered in this database yet; start a worker with: fulfilment-sync worker';
  const notes = [
    ...jobs.flatMap((job) => findJobProblems(job, now)),
    ...streams.flatMap((stream) => findStreamProblems(stream, lookbackDays, now)),
  ];
  const parts = [formatJobs(jobs), formatStreams(streams, now, lookbackDays), notes.map(describeProblem).join('\n')];
  return parts.filter((part) => part !== '').join('\n\n');
}

function formatJobs(rows: readonly JobStatus[]): string {
  return formatTable(
    ['client', 'job', 'state', 'last run', 'fetched', 'changed', 'lag', 'quarantined'],
    rows.map((row) => [
      row.client,
      row.job,
      describeJobState(row),
      row.lastStartedAt === null ? '-' : row.lastStartedAt.toISOString().slice(0, 19),
      row.lastFetched,
      row.lastChanged,
      formatSpan(row.lagSeconds),
      row.quarantined,
    ]),
    { look: (text, heading) => (heading === 'state' ? toStateLook(text) : null) },
  );
}

function describeJobState({ running, pausedSince, lastOutcome }: JobStatus): string {
  if (running) return 'running';
  return pausedSince === null ? (lastOutcome ?? 'waiting') : 'paused';
}

function formatStreams(rows: readonly StreamStatus[], now: Date, lookbackDays: number): string {
  if (rows.length === 0) return '';
  const since = (date: Date | null) => formatSpan(date === null ? null : (now.getTime() - date.getTime()) / 1_000);
  const count = (value: number | null) => (value === null ? '-' : Math.round(value));
  return formatTable(
    [
      'client',
      'stream',
      'tried',
      'success',
      'change',
      'newest date',
      'rows 24h',
      'usual a day',
      'reconciled',
      'missing/stale/extra',
      `late p99 (lookback ${lookbackDays}d)`,
    ],
    rows.map((row) => [
      row.client,
      row.stream,
      since(row.lastAttemptAt),
      since(row.lastSuccessAt),
      since(row.lastChangeAt),
      row.newestSourceAt === null ? '-' : row.newestSourceAt.toISOString().slice(0, 16),
      row.changedLastDay,
      count(row.usualPerDay),
      since(row.reconciledAt),
      row.reconciledAt === null ? '-' : `${row.missing}/${row.stale}/${row.extra}`,
      formatSpan(row.lateSecondsP99),
    ]),
  );
}

/** Describes the gates that are closed now. */
const describeGates = (gates: readonly StoredGate[], now: Date) =>
  gates
    .filter(({ nextAt }) => nextAt > now)
    .map(({ gate, client, nextAt }) => `${client} ${gate}: may be asked again ${formatWait(nextAt, now)}`);

/** Adds `status`. */
export function addStatusCommand(cli: Command): void {
  cli
    .command('status')
    .description('show the state of every job of every client, and all problems')
    .option('--watch', 'show it again every two seconds, until stopped')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync status --json')
    .action((options: StatusOptions) => setExitCode(statusCommand(options)));
}

/** Formats the row counts of each client's outbox, and the problems below. Returns '' if there are neither. */
function formatOutbox(
  snapshot: Pick<Snapshot, 'outbox' | 'holds' | 'rates' | 'clients' | 'database'>,
  now: Date,
): string {
  const rows = snapshot.outbox;
  const problems = findOutboxProblems(snapshot, now);
  if (rows.length + problems.length === 0) return '';
  const table = formatTable(
    ['client', 'outbox: dead', 'unknown', 'pending', 'sending', 'done 24h', 'oldest'],
    rows.map((row) => [
      row.client,
      row.dead,
      row.unknown,
      row.pending,
      row.sending,
      row.doneLastDay,
      formatSpan(row.oldestSeconds),
    ]),
    { look: (text, heading) => (/dead|unknown/.test(heading) && text !== '0' ? 'red' : null) },
  );
  const notes = problems.map(describeProblem);
  return [table, toVisible(notes.join('\n'))].filter((part) => part !== '').join('\n\n');
}
