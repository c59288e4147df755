import { describeError, LeaseLostError, StoppedError } from '../../core/errors.ts';
import { findReconciled } from '../../erp/rescan/reconciliations.ts';
import { findBackgroundBackfills } from '../../erp/rescan/rescans.ts';
import type { Stream } from '../reading/stream.ts';
import { newShare, type PullContext, warn } from '../run/pull-context.ts';
import { rereadAuthorizations } from '../streams/authorizations.ts';
import { backfillStream, reconcileStream } from './rescan.ts';

/**
 * Reconciles every stream, and reads again what nothing lists; one that fails keeps none of the others from it, and is what
 * the run fails with. If the run is repeated before its next turn, it skips the streams that succeeded.
 */
export async function reconcileAll(context: PullContext, streams: readonly Stream[]): Promise<void> {
  const { db, client, run, dueNotBefore } = context;
  const doneAt = run.trigger === 'manual' ? new Map<string, Date>() : await findReconciled(db, client);
  const isDue = ({ name }: Stream) => {
    const done = doneAt.get(name);
    const turn = done === undefined ? null : dueNotBefore(done, 0);
    return turn === null || turn <= run.startedAt;
  };
  const works = streams.filter(isDue).map((stream) => () => reconcileStream(inColumns(context), stream, 'worker'));
  await eachOnItsOwn<() => Promise<unknown>>(
    context,
    [...works, () => rereadAuthorizations(inColumns(context))],
    (work) => work(),
  );
}

/** Pause before another worker may look at a stream that this one does not know. */
const unknownAgainMs = 60_000;

/** Does the backfills that were asked for in the background, oldest first. */
export async function backfillRequested(context: PullContext, streams: readonly Stream[]): Promise<void> {
  const rescans = await findBackgroundBackfills(context.db, context.client);
  await eachOnItsOwn(context, rescans, async (rescan) => {
    const stream = streams.find(({ name }) => name === rescan.stream);
    if (stream !== undefined) return backfillStream(inColumns(context), stream, rescan);
    // A newer version requested it. The job stays due, so that a worker of that version finds it.
    context.state.plan.dueAt = new Date(context.run.startedAt.getTime() + unknownAgainMs);
    warn(
      context,
      `backfill ${rescan.id}: this version does not know the stream ${rescan.stream}; a newer worker has to do it`,
    );
    return undefined;
  });
}

/** The context of one stream's rescan: it looks at every column, to find damage done here too. */
export const inColumns = (context: PullContext): PullContext => ({
  ...context,
  compare: 'columns',
  state: { ...context.state, share: newShare() },
});

async function eachOnItsOwn<T>(
  context: PullContext,
  entries: readonly T[],
  work: (entry: T) => Promise<unknown>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const entry of entries) {
    try {
      await work(entry);
    } catch (error) {
      if (error instanceof StoppedError || error instanceof LeaseLostError) throw error;
      failures.push(error);
    }
  }
  const [first, ...others] = failures;
  for (const other of others) warn(context, describeError(other));
  if (first !== undefined) throw first;
}
