/** The rules of docs/interface.md for announced returns and goods. */

import { dayMs, hourMs } from '../../core/time.ts';
import { requireFound, ruleBroken } from '../refusal.ts';
import type { Client } from '../store/client.ts';
import type { Authorization, AuthorizationItem, Shipment, Slip } from '../store/model.ts';
import { checkWarehouse } from './orders.ts';
import { admitProducts } from './products.ts';

export type AuthorizationLine = Omit<AuthorizationItem, 'id' | 'sku' | 'returnItemId'>;

export type AuthorizationDraft = Omit<
  Authorization,
  'id' | 'createdOn' | 'modifiedOn' | 'items'
> & {
  readonly lines: readonly AuthorizationLine[];
};

/** Announces a return (docs/interface.md, 11.5 Rules). */
export function announceReturn(
  client: Client,
  draft: AuthorizationDraft,
  nowMs: number,
): Authorization {
  const today = client.zone.day(nowMs);
  const items = createItems(client, draft, null, nowMs);
  const { lines: _, ...attributes } = draft;
  const authorization: Authorization = {
    ...attributes,
    id: client.nextId(),
    createdOn: today,
    modifiedOn: today,
    items,
  };
  client.authorizations.add(authorization);

  const arrivesMs = nowMs + dayMs + client.random.between(0, 72) * hourMs;
  const { id: authorizationId, shipmentId } = authorization;
  client.plan(arrivesMs, { kind: 'send-back', shipmentId, authorizationId });
  return authorization;
}

/** Replaces an announced return of which nothing was processed. */
export function replaceReturn(
  client: Client,
  authorization: Authorization,
  draft: AuthorizationDraft,
  nowMs: number,
): void {
  assertUnprocessed(authorization, 'replaced');
  const items = createItems(client, draft, authorization, nowMs);
  const { lines: _, ...attributes } = draft;
  const modifiedOn = client.zone.day(nowMs);
  Object.assign(authorization, attributes, { items, modifiedOn });
}

/** Removes an announced return of which nothing was processed. */
export function removeReturn(client: Client, authorization: Authorization): void {
  assertUnprocessed(authorization, 'removed');
  client.authorizations.delete(authorization.id);
}

/** Returns whether the warehouse has processed something of an announced return. */
export const isProcessed = ({ items }: Authorization): boolean =>
  items.some(({ returnItemId }) => returnItemId !== null);

function assertUnprocessed(authorization: Authorization, what: string): void {
  if (isProcessed(authorization))
    throw ruleBroken(
      `A return of this authorization has been processed: it cannot be ${what} any more`,
    );
}

/**
 * Creates the items of an authorization, which may replace another. Refuses a line that breaks a
 * rule.
 */
function createItems(
  client: Client,
  { shipmentId, lines }: AuthorizationDraft,
  replaced: Authorization | null,
  nowMs: number,
): AuthorizationItem[] {
  const known = client.findShipment(shipmentId, nowMs);
  const shipment = requireFound(known, `There is no shipment ${shipmentId}`);

  const others = client.authorizations.filter(
    (known) => known.shipmentId === shipmentId && known !== replaced,
  );
  const announced = others.flatMap((known) => known.items);
  const items = lines.map((line) => {
    const { shipmentItemId, quantity } = line;
    const isSame = (other: AuthorizationLine) => other.shipmentItemId === shipmentItemId;
    if (lines.filter(isSame).length > 1)
      throw ruleBroken(`Several lines refer to shipment item ${shipmentItemId}`);

    const { sku, quantity: shipped } = findReturnedItem(client, shipment, line);
    const left = announced.filter(isSame).reduce((rest, other) => rest - other.quantity, shipped);
    if (quantity > left)
      throw ruleBroken(
        `Of shipment item ${shipmentItemId} there are not ${quantity} left to return`,
      );
    return { ...line, sku, returnItemId: null };
  });
  return items.map((item) => ({ ...item, id: client.nextId() }));
}

/** Returns the shipment item of a line. Refuses one that does not fit, and an unknown reason. */
function findReturnedItem({ lists }: Client, shipment: Shipment, line: AuthorizationLine) {
  const { shipmentItemId, reasonId } = line;
  const known = shipment.items.find(({ id }) => id === shipmentItemId);
  const problem = `Shipment ${shipment.id} has no shipment item ${shipmentItemId}`;
  const item = requireFound(known, problem);

  if (!lists.returnReasons.some(({ id }) => id === reasonId))
    throw ruleBroken(`There is no return reason ${reasonId}, or it is not available to this user`);
  return item;
}

export type SlipDraft = Pick<
  Slip,
  'expectedIn' | 'expectedOn' | 'reference' | 'comments' | 'metadata'
> & {
  readonly lines: readonly { readonly sku: string; readonly quantity: number }[];
};

/** Announces goods to a warehouse. A truck brings them on the expected day or a few days later. */
export function announceGoods(client: Client, draft: SlipDraft, nowMs: number): Slip {
  const { zone, random } = client;
  checkWarehouse(client.lists, draft.expectedIn);
  const { lines, ...attributes } = draft;
  admitProducts(client, lines);
  const slip: Slip = {
    ...attributes,
    id: client.nextId(),
    receivedOnMs: null,
    completedOnMs: null,
    status: 'EXPECTED',
    inboundId: null,
    items: lines.map((line) => ({ ...line, id: client.nextId(), received: 0 })),
  };
  client.slips.add(slip);

  const lateHours = random.chance(0.2) ? random.between(24, 60) : 0;
  const dueMs = zone.atHour(draft.expectedOn, 8) + (random.between(0, 6) + lateHours) * hourMs;
  const isLast = !random.chance(0.25);
  client.plan(Math.max(dueMs, nowMs + hourMs), { kind: 'truck', slipId: slip.id, isLast });
  return slip;
}
