/**
 * Jobs that are no stream's own: the frame of a poll, settings, stock, track-trace and retention. Each commits its
 * result together with its ledger entry.
 */

import { dayMs } from '../../core/time.ts';
import { readFreshness, recordGap, recordPoll } from '../../erp/pull/freshness.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** Usual number of resources of a poll from which an empty poll is a warning. */
const worthAWord = 5;

/** Runs one poll of a stream, and has recorded how far it has come; names a span that can no longer be listed. */
export const pollStream =
  (poll: (context: PullContext) => Promise<void>) =>
  async (context: PullContext, stream: Stream): Promise<void> => {
    const { db, client, run } = context;
    const { totals, service, plan } = context.state;
    const before = await readFreshness(db, client, stream.name);
    await poll(context);
    const beganAt = new Date(service.firstMs ?? run.startedAt.getTime());
    const { horizonDays } = stream.rescan;
    const listedSince = horizonDays === null ? null : new Date(beganAt.getTime() - horizonDays * dayMs);
    const gapFrom = before.completeAt;
    if (totals.fetched === 0 && (before.usualFetched ?? 0) >= worthAWord) {
      warn(context, `fetched nothing, against ${Math.round(before.usualFetched ?? 0)} resources usually`);
    }
    plan.record = async (trx) => {
      const scope = { trx, client, stream: stream.name };
      if (listedSince !== null && gapFrom !== null && gapFrom < listedSince)
        await recordGap(scope, gapFrom, listedSince);
      const newestSource = service.newestSourceMs === null ? null : new Date(service.newestSourceMs);
      await recordPoll(scope, { beganAt, newestSource, fetched: totals.fetched });
    };
  };
