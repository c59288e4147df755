import { describeError, LeaseLostError, StoppedError } from '../core/errors.ts';
import { findBackgroundBackfills } from '../erp/rescans.ts';
import { newShare, type PullContext, warn } from './pull-context.ts';
import { rereadAuthorizations } from './push/authorizations.ts';
import { backfillStream, reconcileStream } from './rescan.ts';
import type { Stream } from './stream.ts';

/**
 * Reconciles every stream, and reads again what nothing lists; one that fails keeps none of the others from it, and is what
 * the run fails with.
 */
export async function reconcileAll(context: PullContext, streams: readonly Stream[]): Promise<void> {
  const works = streams.map((stream) => () => reconcileStream(inColumns(context), stream, 'worker'));
  await eachOnItsOwn<() => Promise<unknown>>(
    context,
    [...works, () => rereadAuthorizations(inColumns(context))],
    (work) => work(),
  );
}

/** Does the backfills that were asked for in the background, oldest first. */
export async function backfillRequested(context: PullContext, streams: readonly Stream[]): Promise<void> {
  const rescans = await findBackgroundBackfills(context.db, context.client);
  await eachOnItsOwn(context, rescans, async (rescan) => {
    const stream = streams.find(({ name }) => name === rescan.stream);
    // Asked for by a newer version: a worker of it takes it up.
    if (stream !== undefined) await backfillStream(inColumns(context), stream, rescan);
  });
}

/** The context of one stream's rescan: it looks at every column, to find damage done here too. */
export const inColumns = (context: PullContext): PullContext => ({ ...context, compare: 'columns', share: newShare() });

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
