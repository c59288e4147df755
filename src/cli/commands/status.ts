import { setTimeout as wait } from 'node:timers/promises';
import type { Command } from 'commander';
import { type Config, readConfig } from '../../../config/env.ts';
import { describeError } from '../../core/errors.ts';
import { toVisible } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import type { Database } from '../../db/pool.ts';
import { hasFullDisk } from '../../db/transaction.ts';
import { readOverview } from '../../operate/health/overview.ts';
import { describeProblem, formatWait, type Problem } from '../../operate/health/problem.ts';
import type { Snapshot } from '../../operate/health/state.ts';
import type { JobStatus } from '../../operate/sql/job-status.ts';
import type { OutboxStatus } from '../../operate/sql/outbox-status.ts';
import type { StreamStatus } from '../../operate/sql/stream-status.ts';
import { awaitsAnswer } from '../../service/health/judge-health.ts';
import { clientScope, type StoredHealth } from '../../service/sql/service-health.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  createStopSignal,
  exitWith,
  outputClosed,
  printStyled,
  toJson,
  withDatabase,
} from '../command-line.ts';
import { formatTable } from '../table.ts';

interface StatusOptions extends CommonOptions {
  readonly watch?: boolean;
}

const watchMs = 2_000;
/** Clears a terminal and puts its cursor at the top. */
const clearScreen = '\u001b[2J\u001b[3J\u001b[H';

/**
 * Prints the state and all problems. Returns 1 if there is a problem that a person must deal with.
 */
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
      // If the database cannot be read, the watch continues: an operator often watches during an
      // outage.
      const { text } = await readStatus(db, config, json).catch((error: unknown) =>
        describeOutage(error, json),
      );
      printStyled(`${process.stdout.isTTY ? clearScreen : ''}${text}`);
      // An abort ends the wait; the loop then ends.
      await wait(watchMs, undefined, { signal: stop }).catch(() => undefined);
    }
    return 0;
  });
}

async function readStatus(
  db: Database,
  config: Config,
  json: boolean,
): Promise<{ text: string; problems: readonly Problem[] }> {
  // A worker meets a full disk in its runs. Where it is full, they can often not record it.
  const diskFullSince = (await hasFullDisk(db)) ? new Date() : null;
  const { snapshot, problems } = await readOverview(db, config, diskFullSince);
  const lookbackDays = config.LOOKBACK_DAYS;

  if (!json) return { text: formatStatus(snapshot, problems, lookbackDays), problems };

  const { now: _now, drift: _drift, jobs, streams, outbox, gates, ...rest } = snapshot;
  const clients = rest.clients.map(({ identity: _identity, ...client }) => client);
  const holds = rest.holds.map(toHoldJson);
  const parts = { jobs, streams, outbox, gates };
  const shown = { lookbackDays, problems, ...parts, ...rest, holds, clients };
  return { text: toJson(shown), problems };
}

function formatStatus(
  { now, jobs, streams, outbox, gates, listLags }: Snapshot,
  problems: readonly Problem[],
  lookbackDays: number,
): string {
  const closedGates = gates.filter(({ nextAt }) => nextAt > now);

  const parts = [
    problems.length === 0 ? 'No problems.' : problems.map(describeProblem).join('\n'),
    jobs.length === 0 ? noJobs : formatTable(jobs.map(toJobRow)),
    streams.length === 0
      ? ''
      : formatTable(streams.map((row) => toStreamRow(row, now, lookbackDays))),
    outbox.length === 0 ? '' : formatTable(outbox.map(toOutboxRow)),
    listLags.map(describeListLag).join('\n'),
    closedGates
      .map(
        ({ gate, client, nextAt }) =>
          `${client} ${gate}: may be asked again ${formatWait(nextAt, now)}`,
      )
      .join('\n'),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

function describeListLag({ client, longestMs, longestAt }: Snapshot['listLags'][number]): string {
  const seconds = Math.round(longestMs / 1_000);
  return `${client}: longest lag of a list of orders ${seconds} s, at ${longestAt.toISOString()}`;
}

/** Returns a health as scripts know it: without a kind, it is that of the client. */
const toHoldJson = ({ client, scope, code, cause, ...health }: StoredHealth) => ({
  ...{ client, kind: scope === clientScope ? '' : scope, code, reason: cause.words },
  ...{ since: health.since, failures: health.failures, untilInMs: health.untilInMs },
  sendWindow: awaitsAnswer(health) ? null : health.sendWindow,
});

const noJobs =
  'No job is registered in this database yet; start a worker with: fulfilment-sync worker';

function describeOutage(error: unknown, json: boolean): { text: string } {
  const words = describeError(error);
  return {
    text: json
      ? JSON.stringify({ error: words })
      : toVisible(`The status cannot be read now: ${words}`),
  };
}

const toJobRow = (row: JobStatus) => ({
  client: row.client,
  job: row.job,
  state: describeJobState(row),
  'last run': row.lastStartedAt,
  fetched: row.lastFetched,
  changed: row.lastChanged,
  lag: formatSpan(row.lagSeconds),
  quarantined: row.quarantined,
});

function describeJobState({ running, pausedSince, lastOutcome, dueAt }: JobStatus): string {
  if (running) return 'running';
  if (pausedSince !== null) return 'paused';
  return lastOutcome ?? (dueAt === null ? 'not scheduled' : 'waiting');
}

function toStreamRow(row: StreamStatus, now: Date, lookbackDays: number) {
  const since = (date: Date | null) =>
    formatSpan(date === null ? null : (now.getTime() - date.getTime()) / 1_000);

  return {
    client: row.client,
    stream: row.stream,
    tried: since(row.lastAttemptAt),
    success: since(row.lastSuccessAt),
    change: since(row.lastChangeAt),
    'newest date': row.newestSourceAt,
    'rows 24h': row.changedLastDay,
    'usual a day': row.usualPerDay && Math.round(row.usualPerDay),
    reconciled: since(row.reconciledAt),
    'missing/stale/extra': row.reconciledAt && `${row.missing}/${row.stale}/${row.extra}`,
    [`late p99 (lookback ${lookbackDays}d)`]: formatSpan(row.lateSecondsP99),
  };
}

const toOutboxRow = (row: OutboxStatus) => ({
  client: row.client ?? 'unknown clients',
  'outbox: dead': row.dead,
  unknown: row.unknown,
  pending: row.pending,
  sending: row.sending,
  'done 24h': row.doneLastDay,
  oldest: formatSpan(row.oldestSeconds),
});

/** Adds `status`. */
export function addStatusCommand(cli: Command): void {
  addCommand(cli, {
    name: 'status',
    description: 'show the state of every job of every client, and all problems',
    examples: '--json',
    notes: 'Exits with 1 if a problem needs a person.',
  })
    .option('--watch', 'show it again every two seconds, until stopped')
    .option(...asJson)
    .action(exitWith(statusCommand));
}
