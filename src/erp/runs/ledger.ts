import { sql, type Transaction } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import type { ClientHold } from '../../core/client-hold.ts';
import { LeaseLostError } from '../../core/errors.ts';
import type { Database } from '../connection/pool.ts';
import { inTransaction } from '../connection/transaction.ts';
import { toPauseSpan } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import { endClientHold, placeClientHold, returnClientProbe } from './client-holds.ts';
import { forgetConfirmations } from './confirmations.ts';
import type { JobKey } from './due-jobs.ts';
import { type Lease, releaseLease } from './leases.ts';
import type { StoredStream } from './stored-stream.ts';

export type Trigger = 'schedule' | 'manual';

/** A run that is under way. The ledger identifies it by the token of its lease. */
export interface Run {
  readonly lease: Lease;
  readonly worker: string;
  readonly trigger: Trigger;
  readonly startedAt: Date;
  /** True if a failed run is repeated with growing pauses, before its next due time. */
  readonly retries: boolean;
  /** True if the run sends nothing to the service, so that its result says nothing about the service. */
  readonly isLocal: boolean;
  /** True if its client was on hold when the run began. */
  readonly wasHeld: boolean;
  /** True if the run is the probe of a client hold. */
  readonly probing: boolean;
  /** What was stored of its stream when it began; null if that was not read with the start. */
  readonly stored: StoredStream | null;
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
      readonly code: string;
      readonly message: string;
      readonly retryAfterMs: number;
      /** The hold that the failure places on the client; null if it places none. */
      readonly hold: ClientHold | null;
    }
) & {
  /** When the next run is due, if the run itself decides that. */
  readonly dueAt?: Date | null;
};

/** Counts the rows that a run wrote. */
function countWrittenRows(totals: Totals): number {
  return totals.created + totals.updated + totals.removed;
}

/**
 * Returns true if the run wrote or quarantined anything, or found stale readings. Other runs get no row in the ledger.
 */
export const isEventful = (totals: Totals) => countWrittenRows(totals) + totals.quarantined + totals.stale > 0;

/** Writes the ledger row of a run under way, if the run has done something. Call it in the transaction of a page. */
export async function recordProgress(trx: Transaction<DB>, run: Run, totals: Totals): Promise<void> {
  if (isEventful(totals)) await upsertRun(trx, run, totals, { status: 'running' });
}

/** SQL on sync.jobs: the retry time of a failed run. */
const retryAt = sql`sync.clock() + ${toPauseSpan(pauses.failedRun, sql`consecutive_failures + 1`)}`;

/**
 * Ends a run: writes the ledger, the state of the job and the client hold, and releases the lease, all in one
 * transaction.
 * @param record writes more in this transaction, if the run is done
 * @throws LeaseLostError if the run no longer holds its lease
 */
export async function finishRun(
  db: Database,
  run: Run,
  totals: Totals,
  end: RunEnd,
  record: ((trx: Transaction<DB>) => Promise<void>) | null = null,
): Promise<void> {
  await inTransaction(db, async (trx) => {
    if (!(await releaseLease(trx, run.lease))) throw new LeaseLostError(run.lease.client, run.lease.name);
    if (end.status === 'skipped')
      await recordSkip(trx, { client: run.lease.client, job: run.lease.name }, end.reason, end.dueAt ?? null);
    else await recordRunEnd(trx, run, totals, end);
    if (end.status === 'done') await record?.(trx);
    await updateClientHold(trx, run, end);
    await forgetConfirmations(trx, run.lease);
  });
}

async function recordRunEnd(
  trx: Transaction<DB>,
  run: Run,
  totals: Totals,
  end: Exclude<RunEnd, { status: 'skipped' }>,
): Promise<void> {
  const { client, name: job } = run.lease;
  const eventful = isEventful(totals) || end.status === 'failed';
  if (eventful) await upsertRun(trx, run, totals, end);
  const failed = end.status === 'failed';
  const now = sql<Date>`now()`;
  await trx
    .updateTable('sync.jobs')
    .set((eb) => ({
      last_finished_at: now,
      last_outcome: end.status,
      last_error: failed ? end.message : null,
      ...(end.status === 'done' ? { last_success_at: now, consecutive_failures: 0 } : {}),
      ...(failed ? { consecutive_failures: eb('consecutive_failures', '+', 1) } : {}),
      ...(countWrittenRows(totals) > 0 ? { last_change_at: now } : {}),
      last_pages: totals.pages,
      last_fetched: totals.fetched,
      last_changed: countWrittenRows(totals),
      uneventful_runs: eb('uneventful_runs', '+', eventful ? 0 : 1),
      warnings: totals.warnings,
      due_at: nextDueTime(run, end),
    }))
    .where('client', '=', client)
    .where('job', '=', job)
    .execute();
}

/** SQL: the due time of the job after this run. After a failed run, the job is not due before its pause is over. */
function nextDueTime(run: Run, end: Exclude<RunEnd, { status: 'skipped' }>) {
  const planned = sql<Date>`coalesce(${end.dueAt ?? null}::timestamptz, due_at)`;
  if (end.status === 'stopped' && run.trigger === 'schedule' && end.dueAt == null) return sql<Date>`sync.clock()`;
  if (end.status !== 'failed') return sql<Date>`greatest(${planned}, sync.clock())`;
  const retriesSoon = run.retries && end.dueAt == null;
  const due = retriesSoon ? sql<Date>`least(${planned}, ${retryAt})` : planned;
  return sql<Date>`greatest(${due}, sync.clock() + make_interval(secs => ${end.retryAfterMs / 1_000}))`;
}

/** Counts a skipped run and records the reason. If `dueAt` is null, the due time stays as it is. */
export async function recordSkip(
  trx: Transaction<DB>,
  { client, job }: JobKey,
  reason: string,
  dueAt: Date | null,
): Promise<void> {
  await trx
    .updateTable('sync.jobs')
    .set((eb) => ({
      skips: eb('skips', '+', 1),
      last_skip_at: sql<Date>`now()`,
      last_skip_reason: reason,
      ...(dueAt === null ? {} : { due_at: dueAt }),
    }))
    .where('client', '=', client)
    .where('job', '=', job)
    .execute();
}

async function updateClientHold(trx: Transaction<DB>, run: Run, end: RunEnd): Promise<void> {
  const { client } = run.lease;
  if (run.isLocal) return;
  if (end.status === 'failed' && end.hold !== null)
    await placeClientHold(trx, client, end.hold, end.message, run.probing);
  // A probe that failed for another reason still got an answer of the service.
  else if (run.wasHeld && (end.status === 'done' || (end.status === 'failed' && run.probing)))
    await endClientHold(trx, client, run.startedAt);
  else if (run.probing) await returnClientProbe(trx, client);
}

async function upsertRun(
  trx: Transaction<DB>,
  run: Run,
  totals: Totals,
  end: Exclude<RunEnd, { status: 'skipped' }> | { readonly status: 'running' },
): Promise<void> {
  const failed = end.status === 'failed';
  const { pages, fetched, created, updated, removed, unchanged, stale, quarantined, warnings } = totals;
  const state = {
    ...{ pages, fetched, created, updated, removed, unchanged, stale, quarantined, warnings },
    status: end.status,
    finished_at: end.status === 'running' ? null : sql<Date>`now()`,
    error_code: failed ? end.code : null,
    error: failed ? end.message : null,
  };
  const { client, name: job, token } = run.lease;
  const { trigger, worker, startedAt } = run;
  await trx
    .insertInto('sync.runs')
    .values({ client, job, trigger, worker, lease_token: token, started_at: startedAt, ...state })
    .onConflict((conflict) => conflict.columns(['client', 'job', 'lease_token']).doUpdateSet(state))
    .execute();
}
