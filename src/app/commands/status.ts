import { setTimeout as wait } from 'node:timers/promises';
import { readConfig } from '../../../config/env.ts';
import { describeError } from '../../core/errors.ts';
import { type KnownClient, readClients } from '../../erp/clients.ts';
import type { Database } from '../../erp/connect.ts';
import { readGates, type StoredGate } from '../../erp/gates.ts';
import { assertSchemaFits } from '../../erp/migrate.ts';
import { readOutboxStatus } from '../../erp/outbox-admin.ts';
import { type Pause, readPauses, resumeHint } from '../../erp/pauses.ts';
import { readHolds } from '../../erp/push-holds.ts';
import { type JobStatus, readJobStatus } from '../../erp/status.ts';
import { readStreamStatus, type StreamStatus } from '../../erp/stream-status.ts';
import { connectDatabase } from '../deps.ts';
import { createLogger } from '../log.ts';
import { formatOutbox } from '../outbox-view.ts';
import { stopSignal } from '../stop-signal.ts';
import { formatSpan, formatTable } from '../table.ts';
import { version } from '../version.ts';

export interface StatusOptions {
  readonly json?: boolean;
  readonly watch?: boolean;
}

const watchMs = 2_000;
/** Clears a terminal and puts its cursor at the top. */
const clear = '\u001b[2J\u001b[3J\u001b[H';

const dayMs = 86_400_000;
/** A stream that usually changes so many rows a day and changed none is worth a word. */
const worthAWord = 5;

export async function statusCommand({ json = false, watch = false }: StatusOptions): Promise<number> {
  const config = readConfig({ database: true, clients: false });
  const log = createLogger({ level: 'silent', pretty: false });
  const { db, close } = connectDatabase(config.DATABASE_URL ?? '', log, 'status', 1);
  try {
    await assertSchemaFits(db, version);
    if (!watch) {
      process.stdout.write(`${await describe(db, config.LOOKBACK_DAYS, json)}\n`);
      return 0;
    }
    const stop = stopSignal();
    while (!stop.aborted) {
      // An outage is when one watches.
      const text = await describe(db, config.LOOKBACK_DAYS, json).catch((error: unknown) => outage(error, json));
      process.stdout.write(`${process.stdout.isTTY ? clear : ''}${text}\n`);
      // Stopped in the middle of the wait: the loop sees it.
      await wait(watchMs, undefined, { signal: stop }).catch(() => undefined);
    }
    return 0;
  } finally {
    await close();
  }
}

async function describe(db: Database, lookbackDays: number, json: boolean): Promise<string> {
  const [jobs, streams] = [await readJobStatus(db), await readStreamStatus(db)];
  const [outbox, holds] = [await readOutboxStatus(db), await readHolds(db, null)];
  const [clients, gates, pauses] = [await readClients(db), await readGates(db), await readPauses(db)];
  const now = new Date();
  return json
    ? JSON.stringify(
        { lookbackDays, jobs, streams, outbox, holds, clients: clients.map(withoutIdentity), gates, pauses },
        null,
        2,
      )
    : [
        formatStatus(jobs, streams, lookbackDays, now),
        formatClients(clients, gates, now),
        pauses.map(describePause).join('\n'),
        formatOutbox(outbox, holds),
      ]
        .filter(Boolean)
        .join('\n\n');
}

function outage(error: unknown, json: boolean): string {
  const words = describeError(error);
  return json ? JSON.stringify({ error: words }) : `It cannot be read at present: ${words}`;
}

const withoutIdentity = ({ identity: _identity, ...client }: KnownClient) => client;

/** The tables a person reads: how each job stands, how fresh each stream is, and below them what is wrong. */
export function formatStatus(
  jobs: readonly JobStatus[],
  streams: readonly StreamStatus[],
  lookbackDays: number,
  now: Date,
): string {
  if (jobs.length === 0) return 'No job was ever registered here; start a worker with: fulfilment-sync worker';
  const notes = [
    ...jobs.flatMap((job) => notesOfJob(job, now)),
    ...streams.flatMap((stream) => notesOfStream(stream, lookbackDays, now)),
  ];
  const parts = [formatJobs(jobs), formatStreams(streams, now, lookbackDays), notes.join('\n')];
  return parts.filter((part) => part !== '').join('\n\n');
}

function formatJobs(rows: readonly JobStatus[]): string {
  return formatTable(
    ['client', 'job', 'state', 'last run', 'fetched', 'changed', 'lag', 'quarantined'],
    rows.map((row) => [
      row.client,
      row.job,
      stateOf(row),
      row.lastStartedAt === null ? '-' : row.lastStartedAt.toISOString().slice(0, 19),
      row.lastFetched,
      row.lastChanged,
      formatSpan(row.lagSeconds),
      row.quarantined,
    ]),
  );
}

function stateOf({ running, pausedSince, lastOutcome }: JobStatus): string {
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

function notesOfJob(row: JobStatus, now: Date): string[] {
  const { client, job, lastError, consecutiveFailures, warnings, lastSkipAt, lastSkipReason, skips } = row;
  const notes = warnings.map((warning) => `${client} ${job}: ${warning}`);
  if (lastError !== null) notes.unshift(`${client} ${job}: failed ${consecutiveFailures} times: ${lastError}`);
  if (lastSkipAt !== null && now.getTime() - lastSkipAt.getTime() < dayMs)
    notes.push(
      `${client} ${job}: ${skips} runs refused or missed so far, last ${lastSkipAt.toISOString()}: ${lastSkipReason}`,
    );
  return notes;
}

function describePause(pause: Pause): string {
  const { client, job, since, by } = pause;
  return `${client ?? 'every client'} ${job}: paused since ${since.toISOString()} by ${by}; go on with: ${resumeHint(pause)}`;
}

/** What keeps whole clients from being read, and the gates that calls wait for. */
function formatClients(clients: readonly KnownClient[], gates: readonly StoredGate[], now: Date): string {
  const notes = clients.flatMap(({ client, baseUrl, offeredBaseUrl, holdCode, holdReason, holdSince, holdUntil }) => [
    ...(offeredBaseUrl === null
      ? []
      : [
          `${client}: parked: a worker or command came with ${offeredBaseUrl}, its rows come from ${baseUrl}; see: fulfilment-sync client list`,
        ]),
    ...(holdCode === null
      ? []
      : [
          `${client}: nothing is pulled since ${holdSince?.toISOString()}: ${holdReason}; tried again ${inWords(holdUntil, now)}, or at once with: fulfilment-sync run <job> --client ${client}`,
        ]),
  ]);
  const waits = gates
    .filter(({ nextAt }) => nextAt > now)
    .map(({ gate, client, nextAt }) => `${client} ${gate}: may be asked again ${inWords(nextAt, now)}`);
  return [...notes, ...waits].join('\n');
}

function inWords(at: Date | null, now: Date): string {
  const seconds = ((at ?? now).getTime() - now.getTime()) / 1_000;
  return seconds <= 0 ? 'now' : `in ${formatSpan(seconds)}`;
}

function notesOfStream(row: StreamStatus, lookbackDays: number, now: Date): string[] {
  const name = `${row.client} ${row.stream}`;
  const notes: string[] = [];
  if (row.firstLoad) {
    const soFar = row.fetchedSoFar === null ? 'no run is under way' : `${row.fetchedSoFar} read by the run under way`;
    notes.push(`${name}: the first load is not done; ${soFar}`);
  }
  const sinceSuccessMs = row.lastSuccessAt === null ? null : now.getTime() - row.lastSuccessAt.getTime();
  if (sinceSuccessMs !== null && sinceSuccessMs > dayMs)
    notes.push(`${name}: nothing was read for ${formatSpan(sinceSuccessMs / 1_000)}; is a worker running?`);
  else if (row.changedLastDay === 0 && (row.usualPerDay ?? 0) >= worthAWord)
    notes.push(`${name}: ran, and changed no row in 24 hours; usual are ${Math.round(row.usualPerDay ?? 0)} a day`);
  for (const { from, to } of row.gaps)
    notes.push(`${name}: nobody read from ${from} to ${to}; that can no longer be listed; refetch single ids you miss`);
  for (const { id, kind, background, fetched, expected, from, to } of row.openRescans) {
    const span = [from === null ? '' : ` --from ${from}`, to === null ? '' : ` --to ${to}`].join('');
    const share = expected === null ? '' : ` of about ${expected}`;
    const who = background ? 'workers go on with it' : `go on with: ${kind} ${row.stream}${span}`;
    notes.push(`${name}: ${kind} ${id} is not done: ${fetched}${share} read; ${who}`);
  }
  const lateDays = (row.lateSecondsP99 ?? 0) / 86_400;
  if (row.readByDay && lateDays > lookbackDays)
    notes.push(
      `${name}: changes were healed up to ${formatSpan(row.lateSecondsP99)} late, beyond LOOKBACK_DAYS ${lookbackDays}`,
    );
  return notes;
}
