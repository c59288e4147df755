import { type Kysely, sql, type Transaction } from 'kysely';
import type { Schedule } from '../../../config/schedules.ts';
import { pauses } from '../../core/backoff.ts';
import { type Failure, LeaseLostError } from '../../core/errors.ts';
import type { DB } from '../../db/generated/tables.ts';
import { readKnownMigrations } from '../../db/migration-files.ts';
import type { Database } from '../../db/pool.ts';
import { assertSchemaFits } from '../../db/schema-fit.ts';
import { repeatAfterConflict } from '../../db/transaction.ts';
import type { ClientHold } from '../../service/health/client-hold.ts';
import {
  type ClientAccount,
  type OfferedAccount,
  registerClients,
} from '../../service/sql/clients.ts';
import { ensureJobs } from './due-jobs.ts';
import { countMissedTimes, findNextDue, type JobKey, toInterval } from './due-times.ts';
import { type Lease, leaseSpan } from './leases.ts';
import { resumeHint } from './pauses.ts';

/** A pass of a stream by date, with a separate cursor. */
export type DatePass = 'placed' | 'processed' | 'completed';

/**
 * A walk with a separate cursor: a pass of a stream (docs/architecture.md lists them), or one part
 * of a first load that is read in parts, with its days: `placed 2026-01-01 2026-02-01`.
 */
export type CursorPass = 'new' | DatePass | `${DatePass} ${string}`;

/**
 * The meaning of `page[cursor]`, as observed at this service (docs/interface.md, 2.6 Not shown).
 */
export type CursorMeaning = 'unknown' | 'id' | 'offset' | 'opaque';

/** The stored place of one walk over a list. */
export interface Cursor {
  /** Query of the last page that held rows. */
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  /** Largest date seen in the walk that is under way, YYYY-MM-DD. */
  readonly largestSeen: string | null;
  /** Largest date seen in a completed walk, YYYY-MM-DD. */
  readonly watermark: string | null;
  readonly completed: boolean;
  /** True if the cursor last moved more than a day ago. */
  readonly stale: boolean;
}

/** What was stored of a stream when a poll of it began. */
export interface StoredStream {
  /** Start of the last complete poll, by the service's clock; null before the first. */
  readonly completeAt: Date | null;
  /**
   * Number of resources that a poll usually reads; null until a poll after the first one has read
   * some.
   */
  readonly usualFetched: number | null;
  /** The stored cursors. A pass that never ran has none. */
  readonly cursors: ReadonlyMap<CursorPass, Cursor>;
  /** True if a resource waits to be reread, or is in quarantine. */
  readonly isWaiting: boolean;
}

export type Trigger = 'schedule' | 'manual';

/** A run that is under way. The ledger identifies it by the key of its lease. */
export interface Run {
  readonly lease: Lease;
  readonly worker: string;
  readonly trigger: Trigger;
  readonly startedAt: Date;
  /**
   * True if the run sends nothing to the service, so that its result says nothing about the
   * service.
   */
  readonly isLocal: boolean;
  /** True if its client was on hold when the run began. */
  readonly wasHeld: boolean;
  /** True if the run is the probe of a client hold. */
  readonly isProbe: boolean;
  /** True if the previous run was abandoned, because its worker was lost. */
  readonly afterAbandoned: boolean;
  /** Number of due times that were missed before this run began. */
  readonly missed: number;
  /** What was stored of its stream when it began; null if its job polls none. */
  readonly stored: StoredStream | null;
}

/** What a run is started for. */
export interface RunRequest extends OfferedAccount {
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  readonly worker: string;
  readonly trigger: Trigger;
  /**
   * The schedule of the job; undefined if this process has none for it: another process may have
   * one.
   */
  readonly schedule?: Schedule | undefined;
  /**
   * True if the job sends nothing to the service: a client hold does not keep it from beginning.
   */
  readonly isLocal?: boolean;
}

/** Why a run of a job may not begin, in a word. */
type RefusalCode = 'identity' | 'paused';

export interface SkippedStart {
  readonly kind: 'skipped';
  readonly reason: RefusalCode | 'overlap' | 'not_due' | 'held' | 'not_yet';
  /** The reason in words, for operators. */
  readonly because: string;
  readonly dueAt: Date | null;
}

export type StartResult = { readonly kind: 'started'; readonly run: Run } | SkippedStart;

/**
 * Starts a run: acquires the lease and moves the due time. A scheduled run starts only if it is
 * due, so that a job that the queue delivers twice runs once. If the worker of the last run was
 * lost, the job is due at once.
 * @throws SchemaError if the schema does not fit this program
 */
export async function startRun(db: Database, request: RunRequest): Promise<StartResult> {
  let answer = await callStartRun(db, request);
  if (answer.refusal === 'schema') await assertSchemaFits(db);
  if (answer.refusal === 'unregistered') await register(db, request);
  if (answer.refusal === 'schema' || answer.refusal === 'unregistered')
    answer = await callStartRun(db, request);
  if (answer.refusal !== null) return skip(db, request, answer, answer.refusal);
  const { client, job, worker, trigger, isLocal = false } = request;
  const { leaseKey, startedAt, wasHeld, isProbe, afterAbandoned, missed } = answer;
  const lease = { client, name: job, key: leaseKey };
  const started = {
    startedAt,
    wasHeld,
    isProbe,
    afterAbandoned,
    missed,
    stored: toStoredStream(answer),
  };
  return { kind: 'started', run: { lease, worker, trigger, isLocal, ...started } };
}

/**
 * Inserts the rows without which no run can start. The first worker with a schedule makes the job
 * due.
 */
async function register(db: Database, request: RunRequest): Promise<void> {
  const { client, job, stream, schedule } = request;
  await registerClients(db, [request]);
  await ensureJobs(db, [
    {
      client,
      job,
      stream,
      due: schedule?.kind === 'every' || schedule?.kind === 'cron' ? null : 'never',
    },
  ]);
}

/**
 * Returns why a run did not begin. Counts it, if somebody asked for it or if the run before was
 * still under way.
 */
async function skip(
  db: Database,
  request: RunRequest,
  answer: StartRow,
  code: string,
): Promise<SkippedStart> {
  const { client, job, trigger } = request;
  const reason = code as SkippedStart['reason'];
  if (reason === 'identity') await registerClients(db, [request]);
  const because = describeRefusal(request, reason, answer);
  // The sweep does not start refused jobs, and a second delivery of a run that is under way is not
  // counted.
  if (trigger === 'manual' || (reason === 'overlap' && answer.isDue))
    await db
      .updateTable('sync.jobs')
      .set((eb) => ({
        skips: eb('skips', '+', 1),
        last_skip_at: sql<Date>`now()`,
        last_skip_reason: because,
      }))
      .where('client', '=', client)
      .where('job', '=', job)
      .execute();
  return {
    kind: 'skipped',
    reason,
    because,
    dueAt: reason === 'held' ? answer.holdUntil : answer.due,
  };
}

/** The facts from which a refusal is put into words. */
interface RefusalFacts {
  readonly baseUrl: string | null;
  readonly pausedSince: Date | null;
  readonly isPausedForAll: boolean | null;
}

function describeRefusal(
  { client, job }: { readonly client: string; readonly job: string },
  reason: SkippedStart['reason'],
  {
    baseUrl,
    pausedSince,
    isPausedForAll,
    holdReason = null,
  }: RefusalFacts & { readonly holdReason?: string | null },
): string {
  switch (reason) {
    case 'identity':
      return (
        `the client is parked: its rows come from another account, at ${baseUrl}; ` +
        `if the new account is right, accept it: fulfilment-sync client accept-identity ${client}`
      );
    case 'paused': {
      const hint = resumeHint({ job, client: isPausedForAll ? null : client });
      return `paused since ${pausedSince?.toISOString()}; resume with: ${hint}`;
    }
    case 'overlap':
      return 'a run is under way';
    case 'held':
      return holdReason ?? 'the client is on hold';
    default:
      return 'it is not due';
  }
}

/** Why a job of a client may not begin at all. */
export interface Refusal {
  readonly reason: RefusalCode;
  /** The reason in words, with what to do. */
  readonly because: string;
}

/** Returns why a job of a client may not begin; null if it may. */
export async function findRefusal(
  db: Kysely<DB>,
  { client, job, identity }: ClientAccount & { readonly job: string },
): Promise<Refusal | null> {
  const { rows } = await sql<RefusalFacts & { readonly refusal: RefusalCode | null }>`
    select refusal, base_url as "baseUrl", paused_since as "pausedSince",
      is_paused_for_all as "isPausedForAll"
    from sync.find_refusal(${client}, ${job}, ${identity})`.execute(db);
  const [facts] = rows;
  if (facts?.refusal == null) return null;
  return { reason: facts.refusal, because: describeRefusal({ client, job }, facts.refusal, facts) };
}

/** The row that sync.start_run returns. */
interface StartRow extends RefusalFacts {
  readonly refusal: string | null;
  readonly due: Date | null;
  readonly isDue: boolean;
  readonly holdReason: string | null;
  readonly holdUntil: Date | null;
  readonly leaseKey: number;
  readonly startedAt: Date;
  readonly afterAbandoned: boolean;
  readonly missed: number;
  readonly wasHeld: boolean;
  readonly isProbe: boolean;
  readonly completeAt: Date | null;
  readonly usualFetched: number | null;
  readonly cursors: readonly (Cursor & { readonly pass: CursorPass })[] | null;
  readonly isWaiting: boolean;
}

async function callStartRun(db: Database, request: RunRequest): Promise<StartRow> {
  const { client, job, stream, identity, worker, trigger, schedule, isLocal = false } = request;
  const newestMigration = (await readKnownMigrations()).at(-1)?.name ?? '';
  const { everyMs, slowMs, phaseMs, gapMs } =
    schedule?.kind === 'every'
      ? toInterval(schedule, request)
      : { everyMs: null, slowMs: null, phaseMs: null, gapMs: null };
  const planned =
    schedule?.kind === 'cron' ? await planCron(db, request, schedule) : { due: null, missed: 0 };
  const movesDue = schedule !== undefined && schedule.kind !== 'off';
  const { rows } = await repeatAfterConflict(() =>
    sql<StartRow>`
      select refusal, base_url as "baseUrl", paused_since as "pausedSince",
        is_paused_for_all as "isPausedForAll",
        hold_reason as "holdReason", hold_until as "holdUntil",
          case when isfinite(due) then due end as due,
        is_due as "isDue", lease_key as "leaseKey", started_at as "startedAt",
        after_abandoned as "afterAbandoned", missed,
        was_held as "wasHeld", is_probe as "isProbe", complete_at as "completeAt",
          usual_fetched as "usualFetched",
        cursors, is_waiting as "isWaiting"
      from sync.start_run(${client}, ${job}, ${stream}, ${identity}, ${worker}, ${newestMigration},
        ${trigger === 'manual'}, ${isLocal}, ${leaseSpan}, ${movesDue},
        ${everyMs}, ${slowMs}, ${phaseMs}, ${gapMs}, ${planned.due}, ${planned.missed})`.execute(
      db,
    ),
  );
  return rows[0] as StartRow;
}

function toStoredStream({
  cursors,
  completeAt,
  usualFetched,
  isWaiting,
}: StartRow): StoredStream | null {
  if (cursors === null) return null;
  const byPass = new Map(cursors.map(({ pass, ...cursor }) => [pass, cursor]));
  return { completeAt, usualFetched, cursors: byPass, isWaiting };
}

/** Computes the next due time of a job with a cron expression, by the clock of the database. */
async function planCron(
  db: Database,
  jobKey: JobKey,
  schedule: Extract<Schedule, { kind: 'cron' }>,
): Promise<{ readonly due: Date | null; readonly missed: number }> {
  const { client, job } = jobKey;
  const { rows } = await sql<{ now: Date; due: Date | null }>`
    select sync.clock() as now, (
      select j.due_at from sync.jobs j
      where j.client = ${client} and j.job = ${job} and isfinite(j.due_at)) as due`.execute(db);
  const { now, due } = rows[0] as { now: Date; due: Date | null };
  return {
    due: findNextDue(schedule, now, jobKey),
    missed: due === null ? 0 : countMissedTimes(schedule, due, now),
  };
}

/** The numbers of a run so far. */
export interface Totals {
  pages: number;
  fetched: number;
  created: number;
  updated: number;
  removed: number;
  /** Resources that were found unchanged. */
  unchanged: number;
  stale: number;
  /** Resources that could not be decoded and were not yet in quarantine. */
  quarantined: number;
  warnings: string[];
}

export type RunEnd = (
  | { readonly status: 'done' | 'stopped' }
  /** The run could not do its work yet. */
  | { readonly status: 'skipped'; readonly reason: string; readonly opensAt: Date }
  | {
      readonly status: 'failed';
      readonly failure: Failure;
      readonly retryAfterMs: number;
      /** The hold that the failure places on the client; null if it places none. */
      readonly hold: ClientHold | null;
    }
) & {
  /** When the next run is due, if the run itself decides that. */
  readonly dueAt?: Date | null;
  /** The poll that the run has completed; it counts only if the run is done. */
  readonly poll?: CompletedPoll | null;
};

/** A complete poll of a stream. */
export interface CompletedPoll {
  readonly stream: string;
  /** Start of the poll, by the service's clock. */
  readonly beganAt: Date;
  /** Newest date on any resource that it received; null if there was none. */
  readonly newestSource: Date | null;
  /**
   * A span of days that the service no longer lists and that no poll had read; null if there is
   * none.
   */
  readonly gap: { readonly from: Date; readonly to: Date } | null;
}

/** Jobs other than polls that read streams. */
export const rescanJobs = ['reconcile', 'backfill', 'refetch', 'replay'];

/** The share of one poll in the moving average of fetched resources. */
const averageShare = 0.1;

/**
 * Returns true if the run wrote or quarantined anything, or found stale readings. Other runs get no
 * row in the ledger.
 */
const isEventful = ({ created, updated, removed, quarantined, stale }: Totals) =>
  created + updated + removed + quarantined + stale > 0;

/**
 * Writes the ledger row of a run under way, if the run has done something. Call it in the
 * transaction of a page.
 */
export async function recordProgress(
  { trx, run }: { readonly trx: Transaction<DB>; readonly run: Run },
  totals: Totals,
): Promise<void> {
  if (!isEventful(totals)) return;
  const { client, name: job, key } = run.lease;
  await sql`
    select sync.record_run(${client}, ${job}, ${key}, ${run.trigger}, ${run.worker},
      ${run.startedAt}, 'running',
      ${JSON.stringify(totals)})`.execute(trx);
}

/**
 * Ends a run, whatever its end: ledger, state of the job, freshness of the stream, client hold and
 * lease, in one statement.
 * @throws LeaseLostError if the run no longer holds its lease
 */
export async function endRun(db: Database, run: Run, totals: Totals, end: RunEnd): Promise<void> {
  const { client, name: job, key } = run.lease;
  const { rows } = await repeatAfterConflict(() =>
    sql<{ ended: boolean }>`
      select sync.end_run(${client}, ${job}, ${key}, ${JSON.stringify(toEndFacts(run, end))},
        ${JSON.stringify(totals)}) as ended`.execute(db),
  );
  if (rows[0]?.ended !== true) throw new LeaseLostError(client, job);
}

/** Returns the parameter `run_end` of sync.end_run. */
function toEndFacts(
  { trigger, worker, startedAt, isLocal, wasHeld, isProbe }: Run,
  end: RunEnd,
): object {
  const { status, dueAt, poll } = end;
  const run = {
    trigger,
    worker,
    started_at: startedAt,
    is_local: isLocal,
    was_held: wasHeld,
    is_probe: isProbe,
  };
  const facts = { ...run, status, due: dueAt, rescan_jobs: rescanJobs };
  if (status === 'skipped') return { ...facts, reason: end.reason };
  if (status === 'failed') {
    const { failure, retryAfterMs, hold } = end;
    const { code, httpStatus, operation, words } = failure;
    const retry = { retry_ms: pauses.failedRun.firstMs, max_retry_ms: pauses.failedRun.longestMs };
    return {
      ...{ ...facts, ...retry, retry_after_ms: retryAfterMs },
      ...{ error_code: code, http_status: httpStatus, operation, error: words },
      ...{
        hold_code: hold?.code,
        hold_ms: hold?.pause.firstMs,
        max_hold_ms: hold?.pause.longestMs,
      },
    };
  }
  if (poll == null) return facts;
  const { stream, beganAt, newestSource, gap } = poll;
  const read = {
    stream,
    poll_began_at: beganAt,
    newest_source: newestSource,
    average_share: averageShare,
  };
  return { ...facts, ...read, gap_from: gap?.from, gap_to: gap?.to };
}
