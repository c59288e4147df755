import { dayMs, hourMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type { Life } from '../store/life.ts';
import type { Authorization, AuthorizationItem, Shipment, ShipmentItem } from '../store/model.ts';
import { settings, unavailableReturnReasonId } from '../store/settings.ts';

export interface AuthorizationLine {
  readonly shipmentItemId: number;
  readonly quantity: number;
  readonly reasonId: number;
  readonly externalReference: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** What the request says the goods are, where it does. */
  readonly claim: { readonly sku: string | null; readonly productId: number | null };
  /** Place of the line in the request, for errors. */
  readonly pointer?: string;
}

export interface AuthorizationDraft {
  readonly shipmentId: number;
  readonly externalReference: string | null;
  readonly comments: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly lines: readonly AuthorizationLine[];
}

/** Announces a return. @throws Refusal as interface.md says of return authorizations */
export function announceReturn(life: Life, draft: AuthorizationDraft, nowMs: number): Authorization {
  const today = life.store.zone.day(nowMs);
  const items = itemsOf(life, draft, null, nowMs);
  const { lines: _, ...own } = draft;
  const authorization: Authorization = { ...own, id: life.ids.next(), createdOn: today, modifiedOn: today, items };
  life.store.listedAuthorizations.add(authorization);
  planArrival(life, authorization, nowMs);
  return authorization;
}

/** Replaces an announcement by another. @throws Refusal as for a new one, or where a return was processed */
export function replaceReturn(
  life: Life,
  authorization: Authorization,
  draft: AuthorizationDraft,
  nowMs: number,
): void {
  assertUnprocessed(authorization, 'replaced');
  const items = itemsOf(life, draft, authorization, nowMs);
  const { lines: _, ...own } = draft;
  const modifiedOn = life.store.zone.day(nowMs);
  life.store.listedAuthorizations.change(authorization, () => Object.assign(authorization, own, { items, modifiedOn }));
}

/** Removes an announcement with all its items. @throws Refusal where a return was processed */
export function removeReturn(life: Life, authorization: Authorization): void {
  assertUnprocessed(authorization, 'removed');
  life.store.listedAuthorizations.delete(authorization);
}

/** The parcel of an announced return is on its way. */
function planArrival(life: Life, { id, shipmentId }: Authorization, nowMs: number): void {
  const arrivesMs = nowMs + dayMs + life.random.between(0, 72) * hourMs;
  life.plan(arrivesMs, { kind: 'send-back', shipmentId, authorizationId: id });
}

function assertUnprocessed({ items }: Authorization, what: string): void {
  if (items.every(({ returnItemId }) => returnItemId === null)) return;
  throw ruleBroken(`A return of this authorization has been processed: it cannot be ${what} any more`);
}

function itemsOf(life: Life, draft: AuthorizationDraft, own: Authorization | null, nowMs: number): AuthorizationItem[] {
  const shipment = life.store.shipments.get(draft.shipmentId);
  if (shipment === undefined || shipment.visibleFromMs > nowMs)
    throw ruleBroken(`There is no shipment ${draft.shipmentId}`, '/data/relationships/shipment');
  const announced = announcedOf(life, shipment.id, own);
  const seen = new Set<number>();
  for (const line of draft.lines) {
    if (seen.has(line.shipmentItemId) && !life.habits.repeatedReturnLines)
      throw ruleBroken(`Several lines refer to shipment item ${line.shipmentItemId}`, line.pointer);
    seen.add(line.shipmentItemId);
    checkLine(shipment, line, announced);
  }
  return draft.lines.map(({ pointer: _, claim: __, ...line }) => {
    const { sku, productId } = shipmentItem(shipment, line.shipmentItemId) as ShipmentItem;
    return { ...line, id: life.ids.next(), sku, productId, returnItemId: null };
  });
}

/** Checks one line, and counts it among what is announced. */
function checkLine(shipment: Shipment, line: AuthorizationLine, announced: Map<number, number>): void {
  const item = shipmentItem(shipment, line.shipmentItemId);
  if (item === undefined)
    throw ruleBroken(`Shipment ${shipment.id} has no shipment item ${line.shipmentItemId}`, line.pointer);
  const { sku, productId } = line.claim;
  if ((sku ?? item.sku) !== item.sku || (productId ?? item.productId) !== item.productId)
    throw ruleBroken(`Shipment item ${item.id} is ${item.sku} (product ${item.productId})`, line.pointer);
  if (line.reasonId === unavailableReturnReasonId)
    throw ruleBroken(`Return reason ${line.reasonId} is not available to this user`, line.pointer);
  if (!settings.returnReasons.some(({ id }) => id === line.reasonId))
    throw ruleBroken(`There is no return reason ${line.reasonId}`, line.pointer);
  const sum = (announced.get(item.id) ?? 0) + line.quantity;
  if (sum > item.quantity)
    throw ruleBroken(`Of shipment item ${item.id} there are not ${line.quantity} left to return`, line.pointer);
  announced.set(item.id, sum);
}

/** How much of each item of a shipment the other authorizations announce. */
function announcedOf(life: Life, shipmentId: number, own: Authorization | null): Map<number, number> {
  const announced = new Map<number, number>();
  for (const authorization of life.store.listedAuthorizations.of('shipment', shipmentId)) {
    if (authorization === own) continue;
    for (const { shipmentItemId, quantity } of authorization.items)
      announced.set(shipmentItemId, (announced.get(shipmentItemId) ?? 0) + quantity);
  }
  return announced;
}

function shipmentItem(shipment: Shipment, id: number): ShipmentItem | undefined {
  return shipment.items.find((item) => item.id === id);
}
