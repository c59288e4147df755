import { setTimeout as wait } from 'node:timers/promises';
import type { Command } from 'commander';
import { type Config, readConfig } from '../../../config/env.ts';
import { describeError } from '../../core/errors.ts';
import { toVisible } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import type { OutboxStatus } from '../../erp/reports/outbox-status.ts';
import type { StreamStatus } from '../../erp/reports/stream-status.ts';
import { readSchemaDrift } from '../../erp/schema/drift.ts';
import { createStopSignal, outputClosed, printStyled, setExitCode, toJson, withDatabase } from '../cli/command-line.ts';
import {
  createProblem,
  describeProblem,
  findProblems,
  formatWait,
  type Problem,
  sortBySeverity,
} from '../health/problems.ts';
import { readSnapshot } from '../health/snapshot.ts';
import { formatTable, toStateLook } from '../terminal/table.ts';

interface StatusOptions {
  readonly json?: boolean;
  readonly watch?: boolean;
}

const watchMs = 2_000;
/** Clears a terminal and puts its cursor at the top. */
const clear = '\u001b[2J\u001b[3J\u001b[H';

/** Prints the state and all problems. Returns 1 if there is a problem that a person must deal with. */
async function statusCommand({ json = false, watch = false }: StatusOptions): Promise<number> {
  const config = readConfig({ database: true, clients: false });
  return withDatabase('status', async (db) => {
    if (!watch) {
      const { text, problems } = await readStatus(db, config, json);
      printStyled(text);
      return problems.some(({ severity }) => severity === 'bad') ? 1 : 0;
    }
    const stop = AbortSignal.any([createStopSignal(), outputClosed]);
    while (!stop.aborted) {
      // If the database cannot be read, the watch continues: an operator often watches during an outage.
      const { text } = await readStatus(db, config, json).catch((error: unknown) => describeOutage(error, json));
      printStyled(`${process.stdout.isTTY ? clear : ''}${text}`);
      // An abort ends the wait; the loop then ends.
      await wait(watchMs, undefined, { signal: stop }).catch(() => undefined);
    }
    return 0;
  });
}

async function readStatus(db: Database, config: Config, json: boolean): Promise<{ text: string; problems: Problem[] }> {
  const [snapshot, { missing }] = await Promise.all([readSnapshot(db), readSchemaDrift(db)]);
  const drift =
    missing.length === 0
      ? []
      : [
          createProblem(
            'schema_drift',
            { client: null },
            `missing in the schema: ${missing.join('; ')}`,
            'see: fulfilment-sync doctor',
          ),
        ];
  const problems = sortBySeverity([...drift, ...findProblems(snapshot, config)]);
  const { now, jobs, streams, outbox, gates, ...rest } = snapshot;
  const lookbackDays = config.LOOKBACK_DAYS;
  if (json) {
    const clients = rest.clients.map(({ identity: _identity, ...client }) => client);
    const text = toJson({ lookbackDays, problems, jobs, streams, outbox, gates, ...rest, clients });
    return { text, problems };
  }
  const closedGates = gates.filter(({ nextAt }) => nextAt > now);
  const parts = [
    jobs.length === 0 ? noJobs : formatJobs(jobs),
    streams.length === 0 ? '' : formatStreams(streams, now, lookbackDays),
    outbox.length === 0 ? '' : formatOutbox(outbox),
    problems.map(describeProblem).join('\n'),
    closedGates
      .map(({ gate, client, nextAt }) => `${client} ${gate}: may be asked again ${formatWait(nextAt, now)}`)
      .join('\n'),
  ];
  return { text: parts.filter((part) => part !== '').join('\n\n'), problems };
}

const noJobs = 'No job is registered in this database yet; start a worker with: fulfilment-sync worker';

function describeOutage(error: unknown, json: boolean): { text: string } {
  const words = describeError(error);
  return { text: json ? JSON.stringify({ error: words }) : toVisible(`The status cannot be read now: ${words}`) };
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

/** Adds `status`. */
export function addStatusCommand(cli: Command): void {
  cli
    .command('status')
    .description('show the state of every job of every client, and all problems')
    .option('--watch', 'show it again every two seconds, until stopped')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExits with 1 if a problem needs a person.\n\nExample:\n  fulfilment-sync status --json')
    .action((options: StatusOptions) => setExitCode(statusCommand(options)));
}

/** Formats the row counts of each client's outbox. */
function formatOutbox(rows: readonly OutboxStatus[]): string {
  return formatTable(
    ['client', 'outbox: dead', 'unknown', 'pending', 'sending', 'done 24h', 'oldest'],
    rows.map((row) => [
      ...[row.client, row.dead, row.unknown, row.pending, row.sending, row.doneLastDay],
      formatSpan(row.oldestSeconds),
    ]),
    { look: (text, heading) => (/dead|unknown/.test(heading) && text !== '0' ? 'red' : null) },
  );
}
