/**
 * The rules of docs/interface.md for orders. They apply to requests of all generations alike.
 */

import { minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type { Client } from '../store/client.ts';
import type {
  AddressLines,
  Attachment,
  ChangeableOrder,
  ChangeableRelationships,
  Members,
  Order,
  OrderItem,
} from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import { admitProducts } from './products.ts';

export type LineDraft = Pick<
  OrderItem,
  'sku' | 'quantity' | 'fulfillFrom' | 'price' | 'vat' | 'name' | 'metadata'
> & {
  /** Only v3 orders have it. */
  readonly channelIdentifier?: string | null;
};

/** An order as a request of any generation or the robot's shop asks for it. */
export interface OrderDraft
  extends Omit<ChangeableOrder, 'allowPartialDelivery'>,
    Omit<ChangeableRelationships, 'pickUpPoint'>,
    Pick<Order, 'orderedOn' | 'currency'> {
  /** Null: the default of the order type applies. */
  readonly allowPartialDelivery: boolean | null;
  readonly lines: readonly LineDraft[];
  readonly pickUpPoint: Members | null;
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

/** Returns how the numbers of the orders begin that the robot places for a client. */
export const toRobotPrefix = ({ name }: Client) => `SO-${name}-`;

/** Adds an order and plans its fulfilment. */
export function placeOrder(client: Client, draft: OrderDraft, atMs: number): Order {
  const order = addOrder(client, draft);
  planFulfilment(client, order, atMs);
  return order;
}

/**
 * Adds an order. Refuses a taken number, and an unknown order type, method, warehouse or product.
 */
export function addOrder(client: Client, draft: OrderDraft): Order {
  const { lists } = client;
  checkOrderNumber(client, draft.externalOrderNumber, null);
  checkLists(lists, draft);
  for (const { fulfillFrom } of draft.lines) checkWarehouse(lists, fulfillFrom);

  const { lines, attachment, pickUpPoint, ...attributes } = draft;
  admitProducts(client, lines);
  const items = lines.map((line) => ({
    channelIdentifier: null,
    ...line,
    id: client.nextId(),
    ordered: line.quantity,
    fulfilled: 0,
  }));

  const order: Order = {
    ...attributes,
    id: client.nextId(),
    channelIdentifier: null,
    allowPartialDelivery: draft.allowPartialDelivery ?? lists.isDeliveredInParts(draft.orderTypeId),
    items,
    deliveryAddressId: client.nextId(),
    billingAddressId: client.nextId(),
    ...completeAddresses(draft),
    pickUpPoint: pickUpPoint && { id: client.nextId(), attributes: pickUpPoint },
    attachments: attachment === null ? [] : [{ ...attachment, id: client.nextId() }],
    shipmentIds: [],
  };
  client.addOrder(order);
  return order;
}

/** Refuses a warehouse that is not part of the fulfilment strategy. */
export function checkWarehouse({ warehouseCodes }: ServiceLists, code: string | null): void {
  if (code === null || warehouseCodes.includes(code)) return;
  const known = warehouseCodes.join(', ');
  throw ruleBroken(`Warehouse ${code} does not belong to the fulfilment strategy (${known})`);
}

/** Refuses a number that another order of the client has. */
export function checkOrderNumber(
  { orderByNumber, options }: Client,
  number: string,
  order: Order | null,
): void {
  const holder = orderByNumber.get(number);
  if (holder === undefined || holder === order || options.repeatedNumbers) return;
  throw ruleBroken(`An order with externalOrderNumber (${number}) already exists`);
}

/** Refuses what the service lists do not have. */
function checkLists(
  lists: ServiceLists,
  {
    orderTypeId,
    shippingMethodId: method,
    fulfillFrom,
  }: Pick<OrderDraft, 'orderTypeId' | 'shippingMethodId' | 'fulfillFrom'>,
): void {
  if (!lists.orderTypes.some(({ id }) => id === orderTypeId))
    throw ruleBroken(`There is no order type ${orderTypeId}`);
  if (method !== null && !lists.mainShippingMethods.some(({ id }) => id === method))
    throw ruleBroken(`There is no main shipping method ${method}`);
  checkWarehouse(lists, fulfillFrom);
}

/** Returns whether nothing of an order remains to be shipped. */
export function isFulfilled(order: Order): boolean {
  return order.items.every(({ quantity, fulfilled }) => fulfilled >= quantity);
}

/** Changes an order (docs/interface.md, 7.7 Update). Refuses one that is completely fulfilled. */
export function changeOrder(
  client: Client,
  order: Order,
  wanted: ChangeableOrder & ChangeableRelationships,
  nowMs: number,
): void {
  if (isFulfilled(order))
    throw ruleBroken('The order is completely fulfilled and cannot be changed any more');
  checkOrderNumber(client, wanted.externalOrderNumber, order);
  checkLists(client.lists, wanted);
  const { preferredShippingDate: day } = wanted;
  if (day !== null && day < client.zone.day(nowMs))
    throw ruleBroken('preferredShippingDate must be today or later');

  client.changeOrder(order, { ...wanted, ...completeAddresses(wanted) });
  planFulfilment(client, order, nowMs);
}

/** Plans to fulfil an order that is new, or whose reason to wait may have ended. */
function planFulfilment(client: Client, { id: orderId }: Order, nowMs: number): void {
  client.plan(nowMs + client.random.between(5, 60) * minuteMs, { kind: 'fulfil', orderId });
}

/**
 * Cancels what is in no shipment yet (docs/interface.md, 7.3 States). Returns the items that
 * changed.
 */
export function cancelItems(
  client: Client,
  order: Order,
  items: readonly OrderItem[],
  nowMs: number,
): readonly OrderItem[] {
  const changed = items.filter(({ quantity, fulfilled }) => quantity > fulfilled);
  for (const item of changed) item.quantity = item.fulfilled;

  // The order may have waited only for what is now cancelled.
  if (changed.length > 0) planFulfilment(client, order, nowMs);
  return changed;
}

/** Releases an order that is on hold. Refuses any other. */
export function releaseOrder(client: Client, order: Order, nowMs: number): void {
  if (!order.onHold) throw ruleBroken(`Order ${order.externalOrderNumber} is not on hold`);
  order.onHold = false;
  planFulfilment(client, order, nowMs);
}

/** Adds the missing house number of an order. No operation of docs/interface.md does this. */
export function addHouseNumber(
  client: Client,
  order: Order,
  houseNumber: string,
  nowMs: number,
): void {
  order.deliveryAddress = { ...order.deliveryAddress, houseNumber };
  Object.assign(order, completeAddresses(order));
  planFulfilment(client, order, nowMs);
}

const countriesThatRequireIt = new Set(['NL', 'BE', 'DE']);
const numberAtEnd = /\s(\d{1,5})(?:[\s-]*([a-z]{1,4}))?$/i;

/** Fills in missing house numbers, and returns whether the delivery address still lacks its own. */
function completeAddresses(order: Pick<Order, 'deliveryAddress' | 'billingAddress'>) {
  const deliveryAddress = fillHouseNumber(order.deliveryAddress);
  return {
    deliveryAddress,
    billingAddress: fillHouseNumber(order.billingAddress),
    notValid: isHouseNumberMissing(deliveryAddress),
  };
}

/**
 * Fills in a missing house number from the end of the street (docs/interface.md, 15.3 Add order:
 * rules).
 */
function fillHouseNumber(lines: AddressLines): AddressLines {
  if (!isHouseNumberMissing(lines)) return lines;
  const [, houseNumber, letters = null] = numberAtEnd.exec(lines.street1?.trim() ?? '') ?? [];
  if (houseNumber === undefined) return lines;
  return { ...lines, houseNumber, houseNumberExtension: lines.houseNumberExtension ?? letters };
}

function isHouseNumberMissing({ countryCode, houseNumber }: AddressLines): boolean {
  return countriesThatRequireIt.has(countryCode ?? '') && (houseNumber ?? '').trim() === '';
}
