/**
 * The jobs that pull something other than a stream (settings, stock, track-trace), retention, and the parts that all
 * polls share. Each job commits its result together with its entry in the ledger.
 */

import { dayMs } from '../../core/time.ts';
import { recordGap, recordPoll } from '../../erp/pull/freshness.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';
import { readFreshnessBefore } from '../run/stored-stream.ts';

/** An empty poll is a warning if a poll usually fetches at least this number of resources. */
const minUsualFetched = 5;

/**
 * Returns a function that runs one poll of a stream. If the run succeeds, it records how fresh the stream is, and a gap
 * if the service no longer lists days that no poll has read. Warns if the poll fetched nothing, but usually fetches
 * some.
 */
export const pollStream =
  (poll: (context: PullContext) => Promise<void>) =>
  async (context: PullContext, stream: Stream): Promise<void> => {
    const { client, run } = context;
    const { totals, service, plan } = context.state;
    const before = await readFreshnessBefore(context, stream.name);
    await poll(context);
    const beganAt = new Date(service.firstMs ?? run.startedAt.getTime());
    const { horizonDays } = stream.rescan;
    const listedSince = horizonDays === null ? null : new Date(beganAt.getTime() - horizonDays * dayMs);
    const gapFrom = before.completeAt;
    if (totals.fetched === 0 && (before.usualFetched ?? 0) >= minUsualFetched) {
      warn(context, `fetched nothing; a poll usually fetches ${Math.round(before.usualFetched ?? 0)} resources`);
    }
    const newestSource = service.newestSourceMs === null ? null : new Date(service.newestSourceMs);
    const end = { stream: stream.name, beganAt, newestSource, fetched: totals.fetched };
    const hasGap = listedSince !== null && gapFrom !== null && gapFrom < listedSince;
    plan.record = async (trx) => {
      const scope = { trx, client, stream: stream.name };
      if (hasGap) await recordGap(scope, gapFrom, listedSince);
      await recordPoll(scope, end);
    };
    plan.poll = hasGap ? null : end;
  };
