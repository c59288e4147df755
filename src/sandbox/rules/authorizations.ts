import { dayMs, hourMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type { Authorization, AuthorizationItem, Shipment, ShipmentItem } from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import type { Simulation } from '../store/simulation.ts';

export interface AuthorizationLine {
  readonly shipmentItemId: number;
  readonly quantity: number;
  readonly reasonId: number;
  readonly externalReference: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** The product that the request names; checked against the shipment item. Null members are not checked. */
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

/**
 * Announces a return.
 * @throws Refusal if it breaks a rule of return authorizations (docs/interface.md, 11.5 Rules)
 */
export function announceReturn(simulation: Simulation, draft: AuthorizationDraft, nowMs: number): Authorization {
  const today = simulation.store.zone.day(nowMs);
  const items = createItems(simulation, draft, null, nowMs);
  const { lines: _, ...attributes } = draft;
  const authorization: Authorization = {
    ...attributes,
    id: simulation.ids.next(),
    createdOn: today,
    modifiedOn: today,
    items,
  };
  simulation.store.listedAuthorizations.add(authorization);
  planArrival(simulation, authorization, nowMs);
  return authorization;
}

/**
 * Replaces an announced return by another one.
 * @throws Refusal if the new one breaks a rule, or if a return was already processed
 */
export function replaceReturn(
  simulation: Simulation,
  authorization: Authorization,
  draft: AuthorizationDraft,
  nowMs: number,
): void {
  assertUnprocessed(authorization, 'replaced');
  const items = createItems(simulation, draft, authorization, nowMs);
  const { lines: _, ...attributes } = draft;
  const modifiedOn = simulation.store.zone.day(nowMs);
  simulation.store.listedAuthorizations.change(authorization, () =>
    Object.assign(authorization, attributes, { items, modifiedOn }),
  );
}

/**
 * Removes an announced return with all its items.
 * @throws Refusal if a return was already processed
 */
export function removeReturn(simulation: Simulation, authorization: Authorization): void {
  assertUnprocessed(authorization, 'removed');
  simulation.store.listedAuthorizations.delete(authorization);
}

/** Plans the arrival of an announced return. */
function planArrival(simulation: Simulation, { id, shipmentId }: Authorization, nowMs: number): void {
  const arrivesMs = nowMs + dayMs + simulation.random.between(0, 72) * hourMs;
  simulation.plan(arrivesMs, { kind: 'send-back', shipmentId, authorizationId: id });
}

function assertUnprocessed({ items }: Authorization, what: string): void {
  if (items.every(({ returnItemId }) => returnItemId === null)) return;
  throw ruleBroken(`A return of this authorization has been processed: it cannot be ${what} any more`);
}

/**
 * Creates the items of an authorization.
 * @param replaced the authorization that is replaced; null for a new one
 * @throws Refusal if a line breaks a rule
 */
function createItems(
  simulation: Simulation,
  draft: AuthorizationDraft,
  replaced: Authorization | null,
  nowMs: number,
): AuthorizationItem[] {
  const shipment = simulation.store.shipments.get(draft.shipmentId);
  if (shipment === undefined || shipment.visibleFromMs > nowMs)
    throw ruleBroken(`There is no shipment ${draft.shipmentId}`, '/data/relationships/shipment');
  const announced = countAnnounced(simulation, shipment.id, replaced);
  const seen = new Set<number>();
  for (const line of draft.lines) {
    if (seen.has(line.shipmentItemId) && !simulation.options.repeatedReturnLines)
      throw ruleBroken(`Several lines refer to shipment item ${line.shipmentItemId}`, line.pointer);
    seen.add(line.shipmentItemId);
    countLine(shipment, line, announced, simulation.store.lists);
  }
  return draft.lines.map(({ pointer: _, claim: __, ...line }) => {
    const { sku, productId } = findShipmentItem(shipment, line.shipmentItemId) as ShipmentItem;
    return { ...line, id: simulation.ids.next(), sku, productId, returnItemId: null };
  });
}

/**
 * Checks a line and adds its quantity to the announced quantities.
 * @throws Refusal if the line breaks a rule
 */
function countLine(
  shipment: Shipment,
  line: AuthorizationLine,
  announced: Map<number, number>,
  lists: ServiceLists,
): void {
  const item = findShipmentItem(shipment, line.shipmentItemId);
  if (item === undefined)
    throw ruleBroken(`Shipment ${shipment.id} has no shipment item ${line.shipmentItemId}`, line.pointer);
  const { sku, productId } = line.claim;
  if ((sku ?? item.sku) !== item.sku || (productId ?? item.productId) !== item.productId)
    throw ruleBroken(`Shipment item ${item.id} is ${item.sku} (product ${item.productId})`, line.pointer);
  if (lists.isUnavailableReason(line.reasonId))
    throw ruleBroken(`Return reason ${line.reasonId} is not available to this user`, line.pointer);
  if (!lists.returnReasons.some(({ id }) => id === line.reasonId))
    throw ruleBroken(`There is no return reason ${line.reasonId}`, line.pointer);
  const sum = (announced.get(item.id) ?? 0) + line.quantity;
  if (sum > item.quantity)
    throw ruleBroken(`Of shipment item ${item.id} there are not ${line.quantity} left to return`, line.pointer);
  announced.set(item.id, sum);
}

/** Returns the announced quantity of each item of a shipment. Leaves out the replaced authorization. */
function countAnnounced(
  simulation: Simulation,
  shipmentId: number,
  replaced: Authorization | null,
): Map<number, number> {
  const announced = new Map<number, number>();
  for (const authorization of simulation.store.listedAuthorizations.findRows('shipment', shipmentId)) {
    if (authorization === replaced) continue;
    for (const { shipmentItemId, quantity } of authorization.items)
      announced.set(shipmentItemId, (announced.get(shipmentItemId) ?? 0) + quantity);
  }
  return announced;
}

function findShipmentItem(shipment: Shipment, id: number): ShipmentItem | undefined {
  return shipment.items.find((item) => item.id === id);
}
