import { dayMs, hourMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type {
  Authorization,
  AuthorizationItem,
  Shipment,
  ShipmentItem,
  Slip,
} from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import type { Simulation } from '../store/simulation.ts';
import { checkWarehouse } from './orders.ts';
import { findProducts } from './products.ts';

export type AuthorizationLine = Omit<
  AuthorizationItem,
  'id' | 'sku' | 'productId' | 'returnItemId'
> & {
  /**
   * The product that the request names; checked against the shipment item. Null members are not
   * checked.
   */
  readonly claim?: { readonly sku: string | null; readonly productId: number | null };
  /** Place of the line in the request, for errors. */
  readonly pointer?: string;
};

export type AuthorizationDraft = Omit<
  Authorization,
  'id' | 'createdOn' | 'modifiedOn' | 'items'
> & {
  readonly lines: readonly AuthorizationLine[];
};

/** Announces a return (docs/interface.md, 11.5 Rules). */
export function announceReturn(
  simulation: Simulation,
  draft: AuthorizationDraft,
  nowMs: number,
): Authorization {
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
  const arrivesMs = nowMs + dayMs + simulation.random.between(0, 72) * hourMs;
  const { id: authorizationId, shipmentId } = authorization;
  simulation.plan(arrivesMs, { kind: 'send-back', shipmentId, authorizationId });
  return authorization;
}

/** Replaces an announced return of which nothing was processed. */
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

/** Removes an announced return of which nothing was processed. */
export function removeReturn(simulation: Simulation, authorization: Authorization): void {
  assertUnprocessed(authorization, 'removed');
  simulation.store.listedAuthorizations.delete([authorization]);
}

function assertUnprocessed({ items }: Authorization, what: string): void {
  if (items.every(({ returnItemId }) => returnItemId === null)) return;
  throw ruleBroken(
    `A return of this authorization has been processed: it cannot be ${what} any more`,
  );
}

/**
 * Creates the items of an authorization, which may replace another. Refuses a line that breaks a
 * rule.
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
  const checked = draft.lines.map((line) => {
    if (seen.has(line.shipmentItemId) && !simulation.options.repeatedReturnLines)
      throw ruleBroken(`Several lines refer to shipment item ${line.shipmentItemId}`, line.pointer);
    seen.add(line.shipmentItemId);
    return { line, item: countLine(shipment, line, announced, simulation.store.lists) };
  });
  return checked.map(({ line: { pointer: _, claim: __, ...line }, item: { sku, productId } }) => {
    return { ...line, id: simulation.ids.next(), sku, productId, returnItemId: null };
  });
}

/**
 * Refuses a line that breaks a rule, or adds its quantity to the announced quantities. Returns its
 * shipment item.
 */
function countLine(
  shipment: Shipment,
  line: AuthorizationLine,
  announced: Map<number, number>,
  lists: ServiceLists,
): ShipmentItem {
  const item = shipment.items.find(({ id }) => id === line.shipmentItemId);
  if (item === undefined)
    throw ruleBroken(
      `Shipment ${shipment.id} has no shipment item ${line.shipmentItemId}`,
      line.pointer,
    );
  const { claim } = line;
  if (
    (claim?.sku ?? item.sku) !== item.sku ||
    (claim?.productId ?? item.productId) !== item.productId
  )
    throw ruleBroken(
      `Shipment item ${item.id} is ${item.sku} (product ${item.productId})`,
      line.pointer,
    );
  if (lists.isUnavailableReason(line.reasonId))
    throw ruleBroken(`Return reason ${line.reasonId} is not available to this user`, line.pointer);
  if (!lists.returnReasons.some(({ id }) => id === line.reasonId))
    throw ruleBroken(`There is no return reason ${line.reasonId}`, line.pointer);
  const sum = (announced.get(item.id) ?? 0) + line.quantity;
  if (sum > item.quantity)
    throw ruleBroken(
      `Of shipment item ${item.id} there are not ${line.quantity} left to return`,
      line.pointer,
    );
  announced.set(item.id, sum);
  return item;
}

/**
 * Returns the announced quantity of each item of a shipment. Leaves out the replaced authorization.
 */
function countAnnounced(
  simulation: Simulation,
  shipmentId: number,
  replaced: Authorization | null,
): Map<number, number> {
  const announced = new Map<number, number>();
  for (const authorization of simulation.store.listedAuthorizations.findRows(
    'shipment',
    shipmentId,
  )) {
    if (authorization === replaced) continue;
    for (const { shipmentItemId, quantity } of authorization.items)
      announced.set(shipmentItemId, (announced.get(shipmentItemId) ?? 0) + quantity);
  }
  return announced;
}

export type SlipDraft = Pick<
  Slip,
  'expectedIn' | 'expectedOn' | 'reference' | 'comments' | 'metadata'
> & {
  readonly lines: readonly {
    readonly sku: string;
    readonly quantity: number;
    readonly pointer?: string;
  }[];
};

/** Announces goods to a warehouse. A truck brings them on the expected day or a few days later. */
export function announceGoods(simulation: Simulation, draft: SlipDraft, nowMs: number): Slip {
  const { store, ids, random } = simulation;
  checkWarehouse(store.lists, draft.expectedIn, '/data/attributes/expectedIn');
  const { lines, ...attributes } = draft;
  const products = findProducts(simulation, lines);
  const slip: Slip = {
    ...attributes,
    id: ids.next(),
    receivedOnMs: null,
    completedOnMs: null,
    status: 'EXPECTED',
    inboundId: null,
    items: lines.map(({ sku, quantity }, index) => ({
      id: ids.next(),
      sku,
      quantity,
      received: 0,
      productId: products[index]?.id ?? 0,
    })),
  };
  store.addSlip(slip, nowMs);
  const lateHours = random.chance(0.2) ? random.between(24, 60) : 0;
  const dueMs =
    store.zone.atHour(draft.expectedOn, 8) + (random.between(0, 6) + lateHours) * hourMs;
  const isLast = !random.chance(0.25);
  simulation.plan(Math.max(dueMs, nowMs + hourMs), { kind: 'truck', slipId: slip.id, isLast });
  return slip;
}
