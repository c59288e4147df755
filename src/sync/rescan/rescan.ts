/**
 * Reconcile, backfill, refetch and the replay of the quarantine. A row is marked as gone only if two complete walks
 * lack it or a read by id does not find it.
 */

import { localDay, utcDay } from '../../core/time.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import type { Family } from '../../erp/mirror/tables.ts';
import type { UpsertResult } from '../../erp/mirror/upsert.ts';
import { forgetFindings } from '../../erp/rescan/findings.ts';
import { findLastWalked, type WalkedReconciliation } from '../../erp/rescan/reconciliations.ts';
import { type DayWindow, finishRescan, openRescan, type Rescan, startRescan } from '../../erp/rescan/rescans.ts';
import { findOldestDay } from '../../erp/rescan/rows-in-windows.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { unlist } from '../commit/unlist.ts';
import { readByIds } from '../paging/by-id.ts';
import { ageColumns, type Stream } from '../reading/stream.ts';
import { type PullContext, serviceNow } from '../run/pull-context.ts';
import { dealWithUnseen, TooManyExtrasError } from './unseen.ts';
import { walkWindows } from './walk-windows.ts';
import { backfillWindow, reconcileWindows, sliceEndOf } from './windows.ts';

/**
 * Who goes on with a reconciliation that was cut short: whoever began it. A command is a proof of its own moment, so it
 * does not go on where a worker stood some time before.
 */
export type ReconciledBy = 'worker' | 'command';

/**
 * Holds everything the service lists against the tables, column by column, heals what differs and records it; then asks
 * after what is stored here and was not listed. A run that was cut short goes on where it stood.
 * @param acceptMissing true if an operator confirms that what the service no longer shows is gone; then the whole list is read
 * @throws TooManyExtrasError if the list lacks too many rows; everything else that was found is healed and recorded
 */
export async function reconcileStream(
  context: PullContext,
  stream: Stream,
  by: ReconciledBy,
  acceptMissing = false,
): Promise<Rescan> {
  const { client, db } = context;
  const request = { client, stream: stream.name, kind: 'reconcile', from: null, to: null } as const;
  let opened = await openRescan(db, { ...request, background: by === 'worker' });
  if (acceptMissing && opened.windows !== null) {
    await end(context, opened, 'restarted to accept what is missing');
    opened = await openRescan(db, { ...request, background: by === 'worker' });
  }
  // The doubtful rows may be in any slice, so the whole list is read.
  const whole = async () => [backfillWindow(null, null)];
  const some = (today: string, last: WalkedReconciliation | null) => windowsToProve(context, stream, today, last);
  const begun = await begin(context, stream, opened, acceptMissing ? whole : some);
  const walked = await walkWindows(context, stream, begun);
  const { rescan, doubts } = await dealWithUnseen(context, stream, walked, acceptMissing);
  const doubt = doubts.length === 0 ? null : new TooManyExtrasError(stream.name, doubts);
  await end(context, rescan, doubt?.message ?? null);
  await stream.afterWalk?.(context);
  await forgetFindings(db, client, stream.name, context.retentionDays);
  if (doubt !== null) throw doubt;
  return rescan;
}

/** Reads a span of days again, or all there is, and heals what differs. */
export async function backfillStream(context: PullContext, stream: Stream, rescan: Rescan): Promise<Rescan> {
  const { from, to } = rescan;
  const begun = await begin(context, stream, rescan, async () => [backfillWindow(from, to)]);
  const isInside = ({ parent }: Family) => {
    const day = dayOf(parent[stream.rescan.dayColumn], context.zone);
    if (day === null) return from === null && to === null;
    return (from === null || day >= from) && (to === null || day <= to);
  };
  const walked = await walkWindows(context, stream, begun, isInside);
  await end(context, walked, null);
  await stream.afterWalk?.(context);
  return walked;
}

/** What a refetch found: a row that was missing, stale or as it should be, or an id the service does not know. */
export type Refetched = 'missing' | 'stale' | 'unchanged' | 'absent';

/**
 * Reads one resource by id and heals what differs.
 * @returns null where it could not be read or decoded; the run's warnings and the quarantine say why
 */
export async function refetch(context: PullContext, stream: Stream, id: number): Promise<Refetched | null> {
  const [found = null] = await readByIds(context, stream, [id], {
    beside: async (trx, { families, written, absent, readNo }) => {
      const healed = (await stream.healDerived?.(trx, context.client, [id])) ?? [];
      const gone = await unlist(trx, context.client, stream, absent, readNo);
      return { changes: [...healed, ...gone], result: judge(families.length, written, healed.length, absent.length) };
    },
    unsettled: async () => [],
  });
  await stream.afterWalk?.(context);
  return found;
}

function judge(found: number, written: UpsertResult, healed: number, absent: number): Refetched | null {
  if (absent > 0) return 'absent';
  if (written.inserted.length > 0) return 'missing';
  if (written.changed.length + healed > 0) return 'stale';
  return found > 0 ? 'unchanged' : null;
}

function dayOf(value: unknown, zone: string): string | null {
  if (typeof value !== 'string') return null;
  return value.includes('T') ? localDay(value, zone) : value;
}

async function windowsToProve(
  { db, client, run, dueNotBefore }: PullContext,
  stream: Stream,
  today: string,
  last: WalkedReconciliation | null,
): Promise<readonly DayWindow[]> {
  // A run that is repeated before its next turn checks the doubtful span again: going on would end the alarm.
  const nextTurn = last?.isDoubtful ? dueNotBefore(last.finishedAt, 0) : null;
  if (last !== null && nextTurn !== null && nextTurn > run.startedAt) return last.windows;
  const oldest = await findOldestDay(db, client, ageColumns(stream));
  const lastSliceEnd = sliceEndOf(last?.windows ?? []);
  return reconcileWindows(stream.rescan, { today, oldest, lastSliceEnd });
}

/** Fixes the windows of a rescan that has not begun yet; they stay the same however often it is cut short. */
async function begin(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  windowsFor: (today: string, last: WalkedReconciliation | null) => Promise<readonly DayWindow[]>,
): Promise<Rescan> {
  const { warehouse, signal, db, client, run } = context;
  const { service } = context.state;
  service.firstMs ??= await warehouse.clock(signal);
  service.lastMs ??= service.firstMs;
  if (rescan.windows !== null) return rescan;
  const now = serviceNow(context);
  const last = await findLastWalked(db, client, stream.name);
  const windows = await windowsFor(utcDay(now.getTime()), last);
  // Only an earlier walk knows how many rows the service lists. Counting the stored rows would read the whole table.
  const whole = rescan.kind === 'reconcile' || (rescan.from === null && rescan.to === null);
  const expected = whole ? (last?.fetched ?? null) : null;
  const readNo = await drawReadNo(db);
  return underLease(db, run.lease, (trx) => startRescan(trx, rescan.id, { windows, expected, readNo }));
}

async function end({ db, run }: PullContext, { id }: Rescan, error: string | null): Promise<void> {
  await underLease(db, run.lease, (trx) => finishRescan(trx, id, error));
}
