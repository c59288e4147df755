import { type Kysely, sql, type Transaction } from 'kysely';
import type { Database } from '../connection/pool.ts';
import type { DB } from '../generated/tables.ts';
import { assertCodeFits } from '../schema/schema-fit.ts';
import { type HeldBack, passHold } from './client-holds.ts';
import { type ClientIdentity, holdIdentity, registerClients } from './clients.ts';
import { reviveAbandoned } from './due-jobs.ts';
import { acquireLease, releaseLease } from './leases.ts';
import { type Run, recordRefusal, type Trigger } from './ledger.ts';
import { type Refusal, readStanding, refusalOf, type Standing } from './standing.ts';

export interface RunRequest extends ClientIdentity {
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  readonly worker: string;
  readonly trigger: Trigger;
  /** Version of this code. */
  readonly version: string;
  /** When the run after this one is due, from the database's clock; null for never by itself, absent for no change. */
  readonly nextDue?: (now: Date) => Date | null;
  /** How many runs should have begun between a due time and now, this one not counted. */
  readonly missed?: (due: Date, now: Date) => number;
  /** A failed run is made again with growing pauses, not when the next one is due. */
  readonly retries?: boolean;
  /** It asks nothing of the service, and so is not held back with its client. */
  readonly isLocal?: boolean;
}

/** Why a run did not begin. */
type SkipReason = Refusal['reason'] | 'overlap' | 'not_due' | 'held' | 'not_yet';

export interface Skipped {
  readonly kind: 'skipped';
  readonly reason: SkipReason;
  /** In words, for people. */
  readonly because: string;
  readonly dueAt: Date | null;
}

export type StartResult =
  | { readonly kind: 'started'; readonly run: Run; readonly afterAbandoned: boolean; readonly missed: number }
  | Skipped;

/**
 * Takes the lease and moves the due time. A scheduled run starts only where it is due, so that a tick that was delivered
 * twice runs once. Where the last run's worker was lost, the run is due whatever the schedule says: this may be that very
 * run, delivered again by the queue before the sweeper came by.
 * @throws SchemaError where the database was migrated beyond this code
 */
export async function startRun(db: Database, request: RunRequest): Promise<StartResult> {
  const { client, job, worker, trigger } = request;
  return db.transaction().execute(async (trx): Promise<StartResult> => {
    await assertCodeFits(trx, request.version);
    await holdIdentity(trx, client);
    const { row, afterAbandoned } = await prepare(trx, request);
    const refusal = refusalOf(request, row);
    // By the schedule it was not even to be queued; whoever asks by hand is told, and it is counted.
    if (refusal !== null) return skip(trx, request, row, refusal, trigger === 'manual');
    const lease = await acquireLease(trx, client, job, worker);
    // A copy that the queue delivers beside the run that it is a copy of was wanted by nobody.
    const isWanted = trigger === 'manual' || isDue(row);
    if (lease === null) return skip(trx, request, row, { reason: 'overlap', because: 'a run is under way' }, isWanted);
    if (!isWanted) {
      await releaseLease(trx, lease);
      return { kind: 'skipped', reason: 'not_due', because: 'it is not due', dueAt: row.dueAt };
    }
    const held = row.isHeld && trigger === 'schedule' && !request.isLocal ? await passHold(trx, client) : null;
    if (held !== null && held !== 'probe') {
      await releaseLease(trx, lease);
      return heldBack(held);
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
    };
    return { kind: 'started', run, afterAbandoned, missed };
  });
}

/** Reads how the job stands; first makes up for what it lacks: its rows, or the record of a worker that was lost. */
async function prepare(
  trx: Transaction<DB>,
  request: RunRequest,
): Promise<{ readonly row: Standing; readonly afterAbandoned: boolean }> {
  const { client, job, stream } = request;
  const row = await readStanding(trx, request);
  if (row?.identityFits && row.isPlanned && !row.isAbandoned) return { row, afterAbandoned: false };
  await registerClients(trx, [request]);
  // Run by hand before any worker was there: what it plans comes a day later, not at once beside the first load.
  const tomorrow = request.nextDue === undefined ? await inOneDay(trx) : null;
  await ensureJobs(trx, [{ client, job, stream, due: tomorrow }]);
  const afterAbandoned = (await reviveAbandoned(trx, { client, job })).length > 0;
  return { row: (await readStanding(trx, request)) as Standing, afterAbandoned };
}

const isDue = ({ dueAt, now }: Standing) => dueAt !== null && dueAt <= now;

const heldBack = ({ reason, until }: HeldBack): Skipped => ({
  kind: 'skipped',
  reason: 'held',
  because: reason,
  dueAt: until,
});

async function skip(
  trx: Transaction<DB>,
  request: RunRequest,
  { dueAt }: Standing,
  refusal: Pick<Skipped, 'reason' | 'because'>,
  counts: boolean,
): Promise<Skipped> {
  if (counts) await recordRefusal(trx, request, refusal.because, null);
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
      ...(request.nextDue === undefined ? {} : { due_at: request.nextDue(now) ?? never }),
      ...(missed === 0
        ? {}
        : { skips: eb('skips', '+', missed), last_skip_at: sql<Date>`now()`, last_skip_reason: reason }),
    }))
    .where('client', '=', request.client)
    .where('job', '=', request.job)
    .execute();
}

/** SQL: the due time of a job that never runs by itself. */
const never = sql<Date>`'infinity'::timestamptz`;

/** A row of sync.jobs that there has to be. */
export interface WantedJob {
  readonly client: string;
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  /** When a new one is due first; null: at once, `never`: not by itself. */
  readonly due: Date | 'never' | null;
}

/** Makes sure that every (client, job) has its row. A row that exists keeps its due time. */
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

async function inOneDay(db: Kysely<DB>): Promise<Date> {
  const { at } = await db.selectNoFrom(sql<Date>`sync.clock() + interval '1 day'`.as('at')).executeTakeFirstOrThrow();
  return at;
}
