import { minAbsenceAgeMs } from '../../core/push/judge-absence.ts';
import { type ClaimResult, claimRows } from '../../erp/outbox/claim-rows.ts';
import { returnClaims } from '../../erp/outbox/held-claims.ts';
import { isAccepted } from '../../erp/runs/clients.ts';
import type { PushDeps } from './attempt.ts';
import type { AnyKind } from './payload/kind.ts';

/** Result of a claim for the loop of the pusher. */
export interface ClaimSummary {
  /** Number of claimed rows. */
  readonly claimed: number;
  /** True if more rows may be due now. */
  readonly more: boolean;
  /** Milliseconds until the next row may be sent; absent if there is no send rate. */
  readonly nextInMs?: number;
}

/**
 * Claims the due rows of a client, at most `slots`.
 * @param few claims only rows of this kind (empty: of the whole client), within its send window
 */
export async function claimDueRows(
  { db, client, identity, kinds, timeoutMs }: PushDeps,
  slots: number,
  few?: { readonly kind: string },
): Promise<ClaimResult> {
  const findNames = (isWanted: (kind: AnyKind) => boolean) =>
    [...kinds.values()].filter(isWanted).map(({ name }) => name);
  const claim = await claimRows(db, {
    client,
    identity,
    slots,
    stamped: findNames(
      ({ unknown }) => unknown.do === 'look up' && unknown.lookUp.whenAbsent === 'resend' && !unknown.lookUp.byTarget,
    ),
    lingering: { kinds: findNames(({ unknown }) => unknown.do === 'resend'), ms: minAbsenceAgeMs(timeoutMs) },
    waits: [...kinds.values()].flatMap(({ name, waitsFor }) => (waitsFor ? [{ kind: name, for: waitsFor }] : [])),
    ...(few ? { few } : {}),
  });
  // Another account may have been accepted at the moment of the claim. A change after this check finds the rows under
  // way.
  if (claim.rows.length === 0 || (await isAccepted(db, { client, identity }))) return claim;
  await returnClaims(db, claim.rows);
  return { rows: [], putOff: 0 };
}
