import { LeaseLostError, StoppedError } from '../core/errors.ts';
import { type RunContext, serviceNow, throwFirst, warn } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import { backfillStream, reconcileStream } from './rescan.ts';
import { requestMissingParcelReads } from './sql/parcel-reads.ts';
import { findBackgroundBackfills, type Rescan, readReconciledTimes } from './sql/rescans.ts';
import { type Stream, toRescanContext } from './stream.ts';
import { rereadAuthorizations } from './streams/authorizations.ts';
import { requestOrdersOfShipments } from './streams/orders.ts';

/**
 * Reconciles every stream, and reads the return authorizations again, because no list has them. A
 * failing stream does not stop the others. Its error is thrown at the end. If the run is repeated
 * before its next due time, it skips the streams that succeeded.
 */
export async function reconcileAll(context: RunContext, streams: readonly Stream[]): Promise<void> {
  const { db, client, run, dueNotBefore } = context;
  const doneAt =
    run.trigger === 'manual' ? new Map<string, Date>() : await readReconciledTimes(db, client);
  const isDue = ({ name }: Stream) => {
    const done = doneAt.get(name);
    const turn = done === undefined ? null : dueNotBefore(done, 0);
    return turn === null || turn <= run.startedAt;
  };
  await runEach(context, [
    ...streams
      .filter(isDue)
      .map(
        (one) => (within: RunContext) => reconcileStream(toRescanContext(within, one), 'worker'),
      ),
    rereadAuthorizations,
    requestMissingParcels,
    requestOrdersOfShipments,
  ]);
}

/** Requests look-ups of shipped shipments that have none, for example after a lost row. */
async function requestMissingParcels(context: RunContext): Promise<void> {
  const { db, client, run } = context;
  const now = serviceNow(context);
  let count = 0;
  for (let after: number | null = 0; after !== null; ) {
    const from: number = after;
    const page = await underLease(db, run.lease, (trx) =>
      requestMissingParcelReads(trx, client, from, now),
    );
    count += page.requested;
    after = page.last;
  }
  if (count > 0)
    warn(
      context,
      `${count} shipped shipments had no look-up of their packages; pull-parcels makes up for it`,
    );
}

/** Runs the backfills that were requested for the background, oldest first. */
export async function backfillRequested(
  context: RunContext,
  streams: readonly Stream[],
): Promise<void> {
  const rescans = await findBackgroundBackfills(context.db, context.client);
  const backfill = async (within: RunContext, rescan: Rescan) => {
    const stream = streams.find(({ name }) => name === rescan.stream);
    if (stream === undefined)
      throw new Error(`backfill ${rescan.id}: there is no stream ${rescan.stream}`);
    return backfillStream(toRescanContext(within, stream), rescan);
  };

  await runEach(
    context,
    rescans.map((rescan) => (within) => backfill(within, rescan)),
  );
}

/**
 * Does all tasks, also after a failure. Throws the first error at the end; further ones become
 * warnings. After a failure the turn of the run does not end early: a run that continues would not
 * know of it.
 */
async function runEach(
  context: RunContext,
  tasks: readonly ((context: RunContext) => Promise<unknown>)[],
): Promise<void> {
  const failures: unknown[] = [];
  const endTurn = () => {
    if (failures.length === 0) context.endTurn();
  };

  for (const task of tasks) {
    try {
      await task({ ...context, endTurn });
    } catch (error) {
      if (error instanceof StoppedError || error instanceof LeaseLostError) throw error;
      failures.push(error);
    }
  }

  throwFirst(context, failures);
}
