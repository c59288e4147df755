/**
 * The rules of docs/interface.md for orders, returns and products. They apply to requests of all
 * generations alike.
 */

import { minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type {
  AddressLines,
  Attachment,
  ChangeableOrder,
  ChangeableRelationships,
  Order,
  OrderItem,
} from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import type { Simulation } from '../store/simulation.ts';
import { findProducts } from './products.ts';

export type LineDraft = Pick<
  OrderItem,
  'sku' | 'quantity' | 'fulfillFrom' | 'price' | 'vat' | 'name' | 'metadata'
> & {
  /** Only v3 orders have it. */
  readonly channelIdentifier?: string | null;
  /** Place of the line in the request, for errors. */
  readonly pointer?: string;
};

/** An order as a request of any generation or the robot's shop asks for it. */
export interface OrderDraft
  extends Omit<ChangeableOrder, 'allowPartialDelivery'>,
    Omit<ChangeableRelationships, 'pickUpPoint'>,
    Pick<Order, 'orderedOn' | 'currency'> {
  /** Null: the default of the order type applies. */
  readonly allowPartialDelivery: boolean | null;
  readonly lines: readonly LineDraft[];
  readonly pickUpPoint: Readonly<Record<string, unknown>> | null;
  readonly attachment: Omit<Attachment, 'id'> | null;
}

/** What a request of an order may leave out. All drafts share these objects, which saves memory. */
export const emptyDraft = {
  reference: null,
  consumerReference: null,
  promotionCode: null,
  phoneNumber: null,
  vatNumber: null,
  fulfillFrom: null,
  preferredShippingDate: null,
  allowPartialDelivery: null,
  onHold: false,
  metadata: {},
  currency: 'EUR',
  pickUpPoint: null,
  attachment: null,
} as const satisfies Partial<OrderDraft>;

/** Places of members in a v3 request, for errors. Older generations do not show them. */
const pointers = {
  externalOrderNumber: '/data/attributes/externalOrderNumber',
  orderType: '/data/relationships/orderType',
  shippingMethod: '/data/relationships/preferredShippingMethod',
  fulfillFrom: '/data/attributes/fulfillFrom',
  preferredShippingDate: '/data/attributes/preferredShippingDate',
};

/** Adds an order and plans its fulfilment. */
export function placeOrder(simulation: Simulation, draft: OrderDraft, atMs: number): Order {
  const order = addOrder(simulation, draft);
  planFulfilment(simulation, order, atMs);
  return order;
}

/**
 * Adds an order. Refuses a taken number, and an unknown order type, method, warehouse or product.
 */
export function addOrder(simulation: Simulation, draft: OrderDraft): Order {
  const { store, ids } = simulation;
  checkOrderNumber(simulation, draft.externalOrderNumber, null);
  checkListIds(store.lists, draft);
  checkWarehouse(store.lists, draft.fulfillFrom, pointers.fulfillFrom);
  for (const { fulfillFrom, pointer } of draft.lines)
    checkWarehouse(store.lists, fulfillFrom, pointer && `${pointer}/attributes/fulfillFrom`);
  const { lines, attachment, pickUpPoint, ...attributes } = draft;
  const products = findProducts(simulation, lines);
  const items = lines.map(({ pointer: _, ...line }, index) => ({
    channelIdentifier: null,
    ...line,
    id: ids.next(),
    ordered: line.quantity,
    fulfilled: 0,
    productId: products[index]?.id ?? 0,
  }));
  const deliveryAddress = fillHouseNumber(draft.deliveryAddress);
  const order: Order = {
    ...attributes,
    id: ids.next(),
    channelIdentifier: null,
    allowPartialDelivery:
      draft.allowPartialDelivery ?? store.lists.isDeliveredInParts(draft.orderTypeId),
    items,
    deliveryAddressId: ids.next(),
    deliveryAddress,
    billingAddressId: ids.next(),
    billingAddress: fillHouseNumber(draft.billingAddress),
    pickUpPoint: pickUpPoint === null ? null : { id: ids.next(), attributes: pickUpPoint },
    attachments: attachment === null ? [] : [{ ...attachment, id: ids.next() }],
    notValid: isHouseNumberMissing(deliveryAddress),
    shipmentIds: [],
  };
  store.addOrder(order);
  return order;
}

/** Refuses a warehouse that is not part of the fulfilment strategy. */
export function checkWarehouse(
  { warehouseCodes }: ServiceLists,
  code: string | null,
  pointer?: string,
): void {
  if (code === null || warehouseCodes.includes(code)) return;
  throw ruleBroken(
    `Warehouse ${code} does not belong to the fulfilment strategy (${warehouseCodes.join(', ')})`,
    pointer,
  );
}

/** Refuses a number that another order of the client has. */
export function checkOrderNumber(
  simulation: Simulation,
  externalOrderNumber: string,
  order: Order | null,
): void {
  const holder = simulation.store.orderByNumber.get(externalOrderNumber);
  if (holder === undefined || holder === order || simulation.options.repeatedNumbers) return;
  const problem = `An order with externalOrderNumber (${externalOrderNumber}) already exists`;
  throw ruleBroken(problem, pointers.externalOrderNumber);
}

function checkListIds(
  { orderTypes, mainShippingMethods }: ServiceLists,
  { orderTypeId, shippingMethodId: method }: Pick<OrderDraft, 'orderTypeId' | 'shippingMethodId'>,
): void {
  if (!orderTypes.some(({ id }) => id === orderTypeId))
    throw ruleBroken(`There is no order type ${orderTypeId}`, pointers.orderType);
  if (method !== null && !mainShippingMethods.some(({ id }) => id === method))
    throw ruleBroken(`There is no main shipping method ${method}`, pointers.shippingMethod);
}

/** Returns whether nothing of an order remains to be shipped. */
export function isFulfilled(order: Order): boolean {
  return order.items.every(({ quantity, fulfilled }) => fulfilled >= quantity);
}

/** Changes an order (docs/interface.md, 7.7 Update). Refuses one that is completely fulfilled. */
export function changeOrder(
  simulation: Simulation,
  order: Order,
  wanted: ChangeableOrder & ChangeableRelationships,
  nowMs: number,
): void {
  if (isFulfilled(order))
    throw ruleBroken('The order is completely fulfilled and cannot be changed any more', '/data');
  checkOrderNumber(simulation, wanted.externalOrderNumber, order);
  checkWarehouse(simulation.store.lists, wanted.fulfillFrom, pointers.fulfillFrom);
  const { preferredShippingDate } = wanted;
  if (preferredShippingDate !== null && preferredShippingDate < simulation.store.zone.day(nowMs))
    throw ruleBroken(
      'preferredShippingDate must be today or later',
      pointers.preferredShippingDate,
    );
  checkListIds(simulation.store.lists, wanted);
  const deliveryAddress = fillHouseNumber(wanted.deliveryAddress);
  const addresses = { deliveryAddress, billingAddress: fillHouseNumber(wanted.billingAddress) };
  const notValid = isHouseNumberMissing(deliveryAddress);
  simulation.store.changeOrder(order, () => Object.assign(order, wanted, addresses, { notValid }));
  planFulfilment(simulation, order, nowMs);
}

/** Plans to fulfil an order that is new, or whose reason to wait may have ended. */
function planFulfilment(simulation: Simulation, order: Order, nowMs: number): void {
  simulation.plan(nowMs + simulation.random.between(5, 60) * minuteMs, {
    kind: 'fulfil',
    orderId: order.id,
  });
}

/**
 * Cancels what is in no shipment yet (docs/interface.md, 7.3 States). Returns the items that
 * changed.
 */
export function cancelItems(
  simulation: Simulation,
  order: Order,
  items: readonly OrderItem[],
  nowMs: number,
): readonly OrderItem[] {
  const changed = items.filter(({ quantity, fulfilled }) => quantity > fulfilled);
  simulation.store.changeOrder(order, () => {
    for (const item of changed) item.quantity = item.fulfilled;
  });
  // The order may have waited only for what is now cancelled.
  if (changed.length > 0) planFulfilment(simulation, order, nowMs);
  return changed;
}

/** Releases an order that is on hold. Refuses any other. */
export function releaseOrder(simulation: Simulation, order: Order, nowMs: number): void {
  if (!order.onHold) throw ruleBroken(`Order ${order.externalOrderNumber} is not on hold`);
  simulation.store.changeOrder(order, () => {
    order.onHold = false;
  });
  planFulfilment(simulation, order, nowMs);
}

/** Adds the missing house number of an order. No operation of docs/interface.md does this. */
export function addHouseNumber(
  simulation: Simulation,
  order: Order,
  houseNumber: string,
  nowMs: number,
): void {
  order.deliveryAddress = { ...order.deliveryAddress, houseNumber };
  order.notValid = isHouseNumberMissing(order.deliveryAddress);
  planFulfilment(simulation, order, nowMs);
}

const countriesThatRequireIt = new Set(['NL', 'BE', 'DE']);
const numberAtEnd = /\s(\d{1,5})$/;
const numberAndLetters = /\s(\d{1,5})[\s-]*([a-z]{1,4})$/i;

/**
 * Fills in a missing house number from the end of the street (docs/interface.md, 15.3 Add order:
 * rules).
 */
function fillHouseNumber(lines: AddressLines): AddressLines {
  if (!isHouseNumberMissing(lines)) return lines;
  const street = lines.street1?.trim() ?? '';
  const [, houseNumber, letters] = numberAtEnd.exec(street) ?? numberAndLetters.exec(street) ?? [];
  if (houseNumber === undefined) return lines;
  return {
    ...lines,
    houseNumber,
    houseNumberExtension: lines.houseNumberExtension ?? letters ?? null,
  };
}

function isHouseNumberMissing({ countryCode, houseNumber }: AddressLines): boolean {
  return countriesThatRequireIt.has(countryCode ?? '') && (houseNumber ?? '').trim() === '';
}
