import type { Operations } from '../../../config/operations.ts';
import { CodedError } from '../../core/errors.ts';
import type { ClaimedRow } from '../../erp/outbox/claimed-row.ts';
import { claimMs, stampSent } from '../../erp/outbox/held-claims.ts';
import { type PushTarget, stampSentFor } from '../../erp/outbox/renames.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import type { PushContext } from './payload/kind.ts';
import type { RecentSends } from './recent-sends.ts';

/** The claim was lost to another worker: nothing is sent and nothing is settled. */
export class ClaimLostError extends CodedError {
  constructor(id: number) {
    super('claim_lost', `another worker took over outbox row ${id}`);
  }
}

/** The parts of a client's pushes that a context is made of. */
interface ContextParts extends Pick<PushContext, 'zone' | 'db' | 'codes'> {
  readonly warehouse: Warehouse;
  readonly operations: Operations;
  readonly sent: RecentSends;
}

interface SendProgress {
  /** True if the request that makes the change may have been written. */
  sent: boolean;
}

/**
 * Creates the context of one push. Its `send` records the attempt first.
 * @param claimedAtMs when the claim was requested, by performance.now()
 * @param progress tells the caller whether the request may have been written
 */
export function createContext(
  { zone, db, warehouse, codes, operations, sent }: ContextParts,
  row: ClaimedRow,
  signal: AbortSignal,
  claimedAtMs: number,
  progress: SendProgress,
): PushContext {
  const beforeSend = async (target: PushTarget | undefined) => {
    // A worker that was suspended must not send a row that others have taken over. For kinds that can be looked up, the
    // claim itself recorded the send.
    const isFresh = row.stamped && !progress.sent && performance.now() - claimedAtMs < claimMs / 3;
    if (!isFresh) {
      const stampedAtMs = performance.now();
      const isHeld = await (target === undefined ? stampSent(db, row) : stampSentFor(db, row, target));
      if (!isHeld || performance.now() - stampedAtMs > claimMs / 3) throw new ClaimLostError(row.id);
    }
    sent.note(row);
    progress.sent = true;
  };
  return {
    row,
    zone,
    db,
    warehouse,
    codes,
    signal,
    operations,
    send: (request, target) => warehouse.write(request, { signal, beforeSend: () => beforeSend(target) }),
  };
}
