/**
 * The jobs that pull something other than a stream (service lists, stock, track-trace), retention, and the parts that all
 * polls share. Each job commits its result together with its entry in the ledger.
 */

import { dayMs } from '../../core/time.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, readStored, warn } from '../run/pull-context.ts';

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
    const { totals, service, end } = context.state;
    const { completeAt, usualFetched } = readStored(context);
    await poll(context);
    const beganAt = new Date(service.firstMs ?? context.run.startedAt.getTime());
    const { horizonDays } = stream.rescan;
    const listedSince = horizonDays === null ? null : new Date(beganAt.getTime() - horizonDays * dayMs);
    if (totals.fetched === 0 && (usualFetched ?? 0) >= minUsualFetched)
      warn(context, `fetched nothing; a poll usually fetches ${Math.round(usualFetched ?? 0)} resources`);
    const newestSource = service.newestSourceMs === null ? null : new Date(service.newestSourceMs);
    const hasGap = listedSince !== null && completeAt !== null && completeAt < listedSince;
    const gap = hasGap ? { from: completeAt, to: listedSince } : null;
    end.poll = { stream: stream.name, beganAt, newestSource, gap };
  };
