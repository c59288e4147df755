import { sql, type Transaction } from 'kysely';
import type { ClientHold } from '../../core/client-hold.ts';
import { LeaseLostError } from '../../core/errors.ts';
import type { Database } from '../connection/pool.ts';
import { inTransaction } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';
import { passClientProbeOn, placeClientHold, releaseClientHold } from './client-holds.ts';
import { forgetConfirmations } from './confirmations.ts';
import type { JobKey } from './due-jobs.ts';
import { type Lease, releaseLease } from './leases.ts';

export type Trigger = 'schedule' | 'manual';

/** A run under way; identified in the ledger by its lease's token. */
export interface Run {
  readonly lease: Lease;
  readonly worker: string;
  readonly trigger: Trigger;
  readonly startedAt: Date;
  readonly retries: boolean;
  /** It asks nothing of the service, and so proves nothing of it. */
  readonly isLocal: boolean;
  /** Its client was held back when it began. */
  readonly wasHeld: boolean;
  /** It is the one that finds out whether what holds its client is over. */
  readonly probing: boolean;
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

export type RunEnd = (
  | { readonly status: 'done' | 'stopped' }
  /** It may not do its work yet. */
  | { readonly status: 'skipped'; readonly reason: string; readonly opensAt: Date }
  | {
      readonly status: 'failed';
      readonly code: string;
      readonly message: string;
      readonly retryAfterMs: number;
      /** What it means for the other runs of its client. */
      readonly hold: ClientHold | null;
    }
) & {
  /** When the next run is due, where the run itself knows it. */
  readonly dueAt?: Date | null;
};

/** Rows that `totals` changed or put aside: a run without any leaves no row in the ledger. */
function rowsWritten(totals: Totals): number {
  return totals.created + totals.updated + totals.removed;
}

const isEventful = (totals: Totals) => rowsWritten(totals) + totals.quarantined + totals.stale > 0;

/** Writes the ledger's row of a run under way, once it has done something; in the transaction of the page. */
export async function recordProgress(trx: Transaction<DB>, run: Run, totals: Totals): Promise<void> {
  if (isEventful(totals)) await upsertRun(trx, run, totals, { status: 'running' });
}

/** SQL, on the row of a job whose run failed: 10 minutes later, then twice as long each time, at most some 5 hours. */
const retryAt = sql`sync.clock() + interval '10 minutes' * power(2, least(consecutive_failures, 5))`;

/**
 * Ends a run: ledger, state of the job, hold of the client and lease in one transaction.
 * @param record what a run that got done wants recorded with it
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
      await recordRefusal(trx, { client: run.lease.client, job: run.lease.name }, end.reason, end.dueAt ?? null);
    else await recordEnd(trx, run, totals, end);
    if (end.status === 'done') await record?.(trx);
    await settleHold(trx, run, end);
    await forgetConfirmations(trx, run.lease);
  });
}

async function recordEnd(
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
      ...(rowsWritten(totals) > 0 ? { last_change_at: now } : {}),
      last_pages: totals.pages,
      last_fetched: totals.fetched,
      last_changed: rowsWritten(totals),
      uneventful_runs: eb('uneventful_runs', '+', eventful ? 0 : 1),
      warnings: totals.warnings,
      due_at: nextDue(run, end),
    }))
    .where('client', '=', client)
    .where('job', '=', job)
    .execute();
}

/** SQL: when the job is due after this run. A failed run is never due before its pause is over. */
function nextDue(run: Run, end: Exclude<RunEnd, { status: 'skipped' }>) {
  const planned = sql<Date>`coalesce(${end.dueAt ?? null}::timestamptz, due_at)`;
  if (end.status === 'stopped' && run.trigger === 'schedule' && end.dueAt == null) return sql<Date>`sync.clock()`;
  if (end.status !== 'failed') return sql<Date>`greatest(${planned}, sync.clock())`;
  const retriesSoon = run.retries && end.dueAt == null;
  const due = retriesSoon ? sql<Date>`least(${planned}, ${retryAt})` : planned;
  return sql<Date>`greatest(${due}, sync.clock() + make_interval(secs => ${end.retryAfterMs / 1_000}))`;
}

/** Counts a run that was refused, and says why; `dueAt` null leaves the due time as it is. */
export async function recordRefusal(
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

async function settleHold(trx: Transaction<DB>, run: Run, end: RunEnd): Promise<void> {
  const { client } = run.lease;
  if (run.isLocal) return;
  if (end.status === 'failed' && end.hold !== null)
    await placeClientHold(trx, client, end.hold, end.message, run.probing);
  // One that failed otherwise was answered all the same.
  else if (run.wasHeld && (end.status === 'done' || (end.status === 'failed' && run.probing)))
    await releaseClientHold(trx, client, run.startedAt);
  else if (run.probing) await passClientProbeOn(trx, client);
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
