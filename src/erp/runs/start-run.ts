import { type Kysely, sql, type Transaction } from 'kysely';
import type { Database } from '../connection/pool.ts';
import type { DB } from '../generated/tables.ts';
import { readKnownMigrations } from '../schema/migration-files.ts';
import { assertCodeFits } from '../schema/schema-fit.ts';
import { checkClientHold, type HoldNotice } from './client-holds.ts';
import { lockIdentity, type OfferedAccount, registerClients } from './clients.ts';
import { reviveAbandoned } from './due-jobs.ts';
import { findRefusal, type JobState, readJobState, type StartRefusal } from './job-state.ts';
import { acquireLease, releaseLease } from './leases.ts';
import { type Run, recordSkip, type Trigger } from './ledger.ts';
import { type DueInterval, startDueRun } from './start-due-run.ts';

export interface RunRequest extends OfferedAccount {
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  readonly worker: string;
  readonly trigger: Trigger;
  /**
   * Returns when the next run is due, from the clock of the database; null: never by schedule. Absent: the due time
   * stays.
   */
  readonly nextDue?: (now: Date) => Date | null;
  /** The interval of a scheduled job that has one. `nextDue` then returns the due times of this interval. */
  readonly interval?: DueInterval;
  /** Counts the runs that were missed between a due time and now, without this one. */
  readonly missed?: (due: Date, now: Date) => number;
  /** True if a failed run is repeated with growing pauses, before its next due time. */
  readonly retries?: boolean;
  /** True if the job sends nothing to the service: a client hold does not keep it from beginning. */
  readonly isLocal?: boolean;
}

/** Why a run did not begin. */
type SkipReason = StartRefusal['reason'] | 'overlap' | 'not_due' | 'held' | 'not_yet';

export interface SkippedStart {
  readonly kind: 'skipped';
  readonly reason: SkipReason;
  /** The reason in words, for operators. */
  readonly because: string;
  readonly dueAt: Date | null;
}

export type StartResult =
  | { readonly kind: 'started'; readonly run: Run; readonly afterAbandoned: boolean; readonly missed: number }
  | SkippedStart;

/**
 * Starts a run: acquires the lease and moves the due time. A scheduled run starts only if it is due, so that a job that
 * the queue delivers twice runs once. If the worker of the last run was lost, the job is due at once: the queue may
 * deliver that run again before the sweeper has revived it.
 * @throws SchemaError if the schema is newer than this program
 */
export async function startRun(db: Database, request: RunRequest): Promise<StartResult> {
  const { trigger, interval, retries = false, isLocal = false } = request;
  if (trigger === 'schedule' && interval !== undefined) {
    const newestMigration = (await readKnownMigrations()).at(-1)?.name ?? '';
    const run = await startDueRun(db, { ...request, interval, newestMigration, retries, isLocal });
    if (run !== null) return { kind: 'started', run, afterAbandoned: false, missed: 0 };
  }
  return startStepByStep(db, request);
}

async function startStepByStep(db: Database, request: RunRequest): Promise<StartResult> {
  const { client, job, worker, trigger } = request;
  return db.transaction().execute(async (trx): Promise<StartResult> => {
    await assertCodeFits(trx);
    await lockIdentity(trx, client);
    const { row, afterAbandoned } = await prepareJob(trx, request);
    const refusal = findRefusal(request, row);
    // The scheduler does not queue refused jobs, so only manual runs are counted as skipped.
    if (refusal !== null) return skipRun(trx, request, row, refusal, trigger === 'manual');
    const lease = await acquireLease(trx, client, job, worker);
    // A second delivery of a run that is under way is not counted: nobody asked for it.
    const isWanted = trigger === 'manual' || isDue(row);
    if (lease === null)
      return skipRun(trx, request, row, { reason: 'overlap', because: 'a run is under way' }, isWanted);
    if (!isWanted) {
      await releaseLease(trx, lease);
      return { kind: 'skipped', reason: 'not_due', because: 'it is not due', dueAt: row.dueAt };
    }
    const held = row.isHeld && trigger === 'schedule' && !request.isLocal ? await checkClientHold(trx, client) : null;
    if (held !== null && held !== 'probe') {
      await releaseLease(trx, lease);
      return toHeldSkip(held);
    }
    const missed = trigger === 'schedule' && row.dueAt !== null ? (request.missed?.(row.dueAt, row.now) ?? 0) : 0;
    await markStarted(trx, request, row.now, missed);
    const { startedAt } = row;
    const run = {
      lease,
      worker,
      trigger,
      startedAt,
      retries: request.retries ?? false,
      isLocal: request.isLocal ?? false,
      wasHeld: row.isHeld,
      probing: held === 'probe',
      stored: null,
    };
    return { kind: 'started', run, afterAbandoned, missed };
  });
}

/**
 * Reads the state of a job. If rows of the client or job are missing, or its worker was lost, first inserts the rows
 * and revives the job.
 */
async function prepareJob(
  trx: Transaction<DB>,
  request: RunRequest,
): Promise<{ readonly row: JobState; readonly afterAbandoned: boolean }> {
  const { client, job, stream } = request;
  const row = await readJobState(trx, request);
  if (row?.identityFits && row.isPlanned && !row.isAbandoned) return { row, afterAbandoned: false };
  await registerClients(trx, [request]);
  // If an operator runs the job before any worker has, its schedule begins a day later, not at once beside the first
  // load.
  const tomorrow = request.nextDue === undefined ? await readTomorrow(trx) : null;
  await ensureJobs(trx, [{ client, job, stream, due: tomorrow }]);
  const afterAbandoned = (await reviveAbandoned(trx, { client, job })).length > 0;
  return { row: (await readJobState(trx, request)) as JobState, afterAbandoned };
}

const isDue = ({ dueAt, now }: JobState) => dueAt !== null && dueAt <= now;

const toHeldSkip = ({ reason, until }: HoldNotice): SkippedStart => ({
  kind: 'skipped',
  reason: 'held',
  because: reason,
  dueAt: until,
});

async function skipRun(
  trx: Transaction<DB>,
  request: RunRequest,
  { dueAt }: JobState,
  refusal: Pick<SkippedStart, 'reason' | 'because'>,
  counts: boolean,
): Promise<SkippedStart> {
  if (counts) await recordSkip(trx, request, refusal.because, null);
  return { kind: 'skipped', ...refusal, dueAt };
}

async function markStarted(trx: Transaction<DB>, request: RunRequest, now: Date, missed: number): Promise<void> {
  const reason = sql<string>`case
    when last_finished_at > due_at then ${missed}::int || ' missed: the run before was under way'
    else ${missed}::int || ' missed: paused, parked, held, or no worker was there' end`;
  await trx
    .updateTable('sync.jobs')
    .set((eb) => ({
      last_started_at: sql<Date>`now()`,
      ...(request.nextDue === undefined ? {} : { due_at: request.nextDue(now) ?? neverDue }),
      ...(missed === 0
        ? {}
        : { skips: eb('skips', '+', missed), last_skip_at: sql<Date>`now()`, last_skip_reason: reason }),
    }))
    .where('client', '=', request.client)
    .where('job', '=', request.job)
    .execute();
}

/** SQL: the due time of a job that never runs by schedule. */
const neverDue = sql<Date>`'infinity'::timestamptz`;

/** A job that must have a row in sync.jobs. */
export interface WantedJob {
  readonly client: string;
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  /** First due time of a new row. Null: at once. `never`: not by schedule. */
  readonly due: Date | 'never' | null;
}

/** Inserts a row for each job that has none. Existing rows keep their due times. */
export async function ensureJobs(db: Kysely<DB>, wanted: readonly WantedJob[]): Promise<void> {
  const dues = wanted.map(({ due }) => (due === 'never' ? 'infinity' : (due?.toISOString() ?? null)));
  await sql`
    insert into sync.jobs as j (client, job, stream, due_at)
    select w.client, w.job, w.stream, coalesce(w.due, sync.clock())
    from unnest(${wanted.map(({ client }) => client)}::text[], ${wanted.map(({ job }) => job)}::text[],
      ${wanted.map(({ stream }) => stream)}::text[], ${dues}::timestamptz[]) as w (client, job, stream, due)
    where not exists (
      select from sync.jobs k
      where k.client = w.client and k.job = w.job and k.stream is not distinct from w.stream)
    order by w.client, w.job
    on conflict (client, job) do update set stream = excluded.stream
      where j.stream is distinct from excluded.stream`.execute(db);
}

async function readTomorrow(db: Kysely<DB>): Promise<Date> {
  const { at } = await db.selectNoFrom(sql<Date>`sync.clock() + interval '1 day'`.as('at')).executeTakeFirstOrThrow();
  return at;
}
