import { type Kysely, sql, type Transaction } from 'kysely';
import { forgetConfirmations } from './confirmations.ts';
import type { Database } from './connect.ts';
import { acquireLease, type Lease, releaseLease } from './leases.ts';
import { assertCodeFits } from './migrate.ts';
import type { DB } from './rows.ts';
import { reviveAbandoned } from './schedule.ts';
import { underLease } from './transaction.ts';

export type Trigger = 'schedule' | 'manual';

export interface RunRequest {
  readonly client: string;
  readonly job: string;
  readonly worker: string;
  readonly trigger: Trigger;
  /** Version of this code. */
  readonly version: string;
  /** When the run after this one is due, from the database's clock; null for never by itself, absent for no change. */
  readonly nextDue?: (now: Date) => Date | null;
  /** A failed run is made again with growing pauses, not when the next one is due. */
  readonly retries?: boolean;
}

export type StartResult =
  | { readonly kind: 'started'; readonly run: Run; readonly afterAbandoned: boolean }
  | { readonly kind: 'skipped'; readonly reason: 'overlap' | 'not_due'; readonly dueAt: Date | null };

/** A run under way; identified in the ledger by its lease's token. */
export interface Run {
  readonly lease: Lease;
  readonly worker: string;
  readonly trigger: Trigger;
  readonly startedAt: Date;
  readonly retries: boolean;
}

/** What a run has done so far. */
export interface Totals {
  pages: number;
  fetched: number;
  created: number;
  updated: number;
  removed: number;
  /** Resources that were as they are. */
  unchanged: number;
  stale: number;
  /** Resources that could not be decoded and were not in quarantine yet. */
  quarantined: number;
  warnings: string[];
}

export type RunEnd =
  | { readonly status: 'done' | 'stopped' }
  | { readonly status: 'failed'; readonly code: string; readonly message: string; readonly retryAfterMs: number };

/** Rows that `totals` changed or put aside: a run without any leaves no row in the ledger. */
export function rowsWritten(totals: Totals): number {
  return totals.created + totals.updated + totals.removed;
}

const isEventful = (totals: Totals) => rowsWritten(totals) + totals.quarantined + totals.stale > 0;

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
    // Run by hand before any worker was there: what it plans comes a day later, not at once beside the first load.
    const tomorrow = request.nextDue === undefined ? await inOneDay(trx) : null;
    await ensureJobs(trx, [{ client, job }], tomorrow);
    const afterAbandoned = (await reviveAbandoned(trx, { client, job })).length > 0;
    const lease = await acquireLease(trx, client, job, worker);
    const { now, due_at: dueAt } = await trx
      .selectFrom('sync.jobs')
      .select(['due_at', sql<Date>`now()`.as('now')])
      .where('client', '=', client)
      .where('job', '=', job)
      .executeTakeFirstOrThrow();
    if (lease === null) {
      await recordSkip(trx, request, 'a run is under way');
      return { kind: 'skipped', reason: 'overlap', dueAt: asDate(dueAt) };
    }
    if (trigger === 'schedule' && !(dueAt <= now)) {
      await releaseLease(trx, lease);
      return { kind: 'skipped', reason: 'not_due', dueAt: asDate(dueAt) };
    }
    const due = request.nextDue === undefined ? sql`due_at` : (request.nextDue(now) ?? sql`'infinity'`);
    await sql`
      update sync.jobs set last_started_at = now(), due_at = ${due}
      where client = ${client} and job = ${job}`.execute(trx);
    return {
      kind: 'started',
      run: { lease, worker, trigger, startedAt: now, retries: request.retries ?? false },
      afterAbandoned,
    };
  });
}

/** Makes sure that every (client, job) has its row; a new one is due at once, unless `due` says otherwise. */
export async function ensureJobs(
  db: Kysely<DB>,
  pairs: readonly { readonly client: string; readonly job: string }[],
  due: Date | null = null,
): Promise<void> {
  await sql`
    insert into sync.jobs (client, job, due_at)
    select p.client, p.job, coalesce(${due}, now()) from unnest(${pairs.map(({ client }) => client)}::text[], ${pairs.map(({ job }) => job)}::text[]) as p (client, job)
    where not exists (select from sync.jobs j where j.client = p.client and j.job = p.job)
    on conflict do nothing`.execute(db);
}

async function inOneDay(db: Kysely<DB>): Promise<Date> {
  const { rows } = await sql<{ at: Date }>`select now() + interval '1 day' as at`.execute(db);
  return rows[0]?.at as Date;
}

/** pg gives 'infinity' as a number. */
function asDate(value: Date): Date | null {
  return value instanceof Date ? value : null;
}

async function recordSkip(trx: Transaction<DB>, { client, job }: RunRequest, reason: string): Promise<void> {
  await sql`
    update sync.jobs set skips = skips + 1, last_skip_at = now(), last_skip_reason = ${reason}
    where client = ${client} and job = ${job}`.execute(trx);
}

/** Writes the ledger's row of a run under way, once it has done something; in the transaction of the page. */
export async function recordProgress(trx: Transaction<DB>, run: Run, totals: Totals): Promise<void> {
  if (isEventful(totals)) await upsertRun(trx, run, totals, { status: 'running' });
}

/** SQL, on the row of a job whose run failed: 10 minutes later, then twice as long each time, at most some 5 hours. */
const retryAt = sql`now() + interval '10 minutes' * power(2, least(consecutive_failures, 5))`;

/** Ends a run: ledger, state of the job and lease in one transaction. */
export async function finishRun(db: Database, run: Run, totals: Totals, end: RunEnd): Promise<void> {
  const { client, name: job } = run.lease;
  await underLease(db, run.lease, async (trx) => {
    const eventful = isEventful(totals) || end.status === 'failed';
    if (eventful) await upsertRun(trx, run, totals, end);
    const failed = end.status === 'failed';
    await sql`
      update sync.jobs set
        last_finished_at = now(), last_outcome = ${end.status}, last_error = ${failed ? end.message : null},
        last_success_at = case when ${end.status === 'done'} then now() else last_success_at end,
        last_change_at = case when ${rowsWritten(totals) > 0} then now() else last_change_at end,
        last_pages = ${totals.pages}, last_fetched = ${totals.fetched}, last_changed = ${rowsWritten(totals)},
        consecutive_failures = case when ${failed} then consecutive_failures + 1
                                    when ${end.status === 'done'} then 0 else consecutive_failures end,
        uneventful_runs = uneventful_runs + ${eventful ? 0 : 1}, warnings = ${totals.warnings},
        due_at = case when ${end.status === 'stopped' && run.trigger === 'schedule'} then now()
                      else greatest(${failed && run.retries ? sql`least(due_at, ${retryAt})` : sql`due_at`},
                                    now() + make_interval(secs => ${failed ? end.retryAfterMs / 1_000 : 0})) end
      where client = ${client} and job = ${job}`.execute(trx);
    await forgetConfirmations(trx, run.lease);
    await releaseLease(trx, run.lease);
  });
}

async function upsertRun(
  trx: Transaction<DB>,
  run: Run,
  totals: Totals,
  end: RunEnd | { readonly status: 'running' },
): Promise<void> {
  const failed = end.status === 'failed';
  const finished = end.status === 'running' ? null : sql`now()`;
  await sql`
    insert into sync.runs as r (client, job, trigger, worker, lease_token, started_at, status, finished_at, pages, fetched,
      created, updated, removed, unchanged, stale, quarantined, warnings, error_code, error)
    values (${run.lease.client}, ${run.lease.name}, ${run.trigger}, ${run.worker}, ${run.lease.token}, ${run.startedAt},
      ${end.status}, ${finished}, ${totals.pages}, ${totals.fetched}, ${totals.created}, ${totals.updated},
      ${totals.removed}, ${totals.unchanged}, ${totals.stale}, ${totals.quarantined}, ${totals.warnings},
      ${failed ? end.code : null}, ${failed ? end.message : null})
    on conflict (client, job, lease_token) do update set
      status = excluded.status, finished_at = excluded.finished_at, pages = excluded.pages, fetched = excluded.fetched,
      created = excluded.created, updated = excluded.updated, removed = excluded.removed, unchanged = excluded.unchanged, stale = excluded.stale,
      quarantined = excluded.quarantined, warnings = excluded.warnings,
      error_code = excluded.error_code, error = excluded.error`.execute(trx);
}
