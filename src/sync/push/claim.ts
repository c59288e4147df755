import { beliefMs } from '../../core/look-up.ts';
import { type Claim, claimRows } from '../../erp/outbox/claim.ts';
import { returnClaims } from '../../erp/outbox/claims-held.ts';
import { isAccepted } from '../../erp/runs/clients.ts';
import type { PushDeps } from './attempt.ts';
import type { AnyKind } from './payload/kind.ts';

/** What a claim came to. */
export interface ClaimLook {
  readonly claimed: number;
  /** More may be due right now. */
  readonly more: boolean;
  /** Where a rate is kept: when the next row may be sent. */
  readonly nextInMs?: number;
}

/**
 * Claims what is due of a client, at most `slots` rows.
 * @param few only rows of this kind (empty: of the client), of which few may be under way at a time
 */
export async function claimDue(
  { db, client, identity, kinds, timeoutMs }: PushDeps,
  slots: number,
  few?: { readonly kind: string },
): Promise<Claim> {
  const namesOf = (wanted: (kind: AnyKind) => boolean) => [...kinds.values()].filter(wanted).map(({ name }) => name);
  const claim = await claimRows(db, {
    client,
    identity,
    slots,
    stamped: namesOf(({ unknown }) => unknown.do === 'look up' && unknown.lookUp.whenAbsent === 'resend'),
    lingering: { kinds: namesOf(({ unknown }) => unknown.do === 'resend'), ms: beliefMs(timeoutMs) },
    waits: [...kinds.values()].flatMap(({ name, waitsFor }) => (waitsFor ? [{ kind: name, for: waitsFor }] : [])),
    ...(few ? { few } : {}),
  });
  // Another account may have been accepted in the very moment of the claim; what is accepted later finds the rows under way.
  if (claim.rows.length === 0 || (await isAccepted(db, { client, identity }))) return claim;
  await returnClaims(db, claim.rows);
  return { rows: [], putOff: 0 };
}
