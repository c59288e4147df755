/**
 * Rules that the interface states for orders, returns and products. They hold for every client, whichever generation
 * it uses.
 */

import { minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type { Life } from '../store/life.ts';
import type { AddressLines, Attachment, ChangeableOrder, Decimal, Order, OrderItem, Texts } from '../store/model.ts';
import { none } from '../store/none.ts';
import { partialDeliveryByOrderType, settings, warehouseCodes } from '../store/settings.ts';
import { isHouseNumberMissing, withHouseNumber } from './house-number.ts';
import { assertKnown, productOf } from './products.ts';

export interface LineDraft {
  readonly sku: string;
  readonly quantity: number;
  readonly fulfillFrom: string | null;
  readonly price: number | null;
  readonly vat: Decimal | null;
  readonly name: string | null;
  readonly metadata: Texts;
  /** Place of the line in the request, for errors. */
  readonly pointer?: string;
}

/** An order as it is sent, in any generation, or as the robot's shop takes it. */
export interface OrderDraft extends Omit<ChangeableOrder, 'allowPartialDelivery'> {
  /** Null: as is usual for the order type. */
  readonly allowPartialDelivery: boolean | null;
  readonly orderedOn: string;
  readonly currency: string;
  readonly orderTypeId: number;
  readonly shippingMethodId: number | null;
  readonly lines: readonly LineDraft[];
  readonly deliveryAddress: AddressLines;
  readonly billingAddress: AddressLines;
  readonly pickUpPoint: Readonly<Record<string, unknown>> | null;
  readonly attachment: Omit<Attachment, 'id'> | null;
}

/** Where members of a draft stand in the request, for errors. */
export type Pointers = Readonly<
  Partial<Record<'externalOrderNumber' | 'orderType' | 'shippingMethod' | 'fulfillFrom', string>>
>;

/** Takes in an order as `addOrder` does, and plans its fulfilment. */
export function placeOrder(life: Life, draft: OrderDraft, atMs: number, pointers: Pointers = {}): Order {
  const order = addOrder(life, draft, pointers);
  life.plan(atMs + life.random.between(5, 60) * minuteMs, { kind: 'fulfil', orderId: order.id });
  return order;
}

/**
 * Takes in an order.
 * @throws Refusal where its number is taken, or it names an order type, method, warehouse or product that does not exist
 */
export function addOrder(life: Life, draft: OrderDraft, pointers: Pointers = {}): Order {
  checkDraft(life, draft, pointers);
  const { store, ids } = life;
  const { lines, attachment, pickUpPoint } = draft;
  const products = lines.map(({ sku, name, pointer }) => productOf(life, sku, name, pointer));
  const items = lines.map((line, index) => itemOf(ids.next(), line, products[index]?.id ?? 0));
  const deliveryLines = withHouseNumber(draft.deliveryAddress);
  // Member by member: an object that is spread out takes nearly twice the memory, and there may be millions.
  const order: Order = {
    id: ids.next(),
    externalOrderNumber: draft.externalOrderNumber,
    reference: draft.reference,
    orderedOn: draft.orderedOn,
    consumerReference: draft.consumerReference,
    promotionCode: draft.promotionCode,
    currency: draft.currency,
    locale: draft.locale,
    email: draft.email,
    phoneNumber: draft.phoneNumber,
    vatNumber: draft.vatNumber,
    fulfillFrom: draft.fulfillFrom,
    preferredShippingDate: draft.preferredShippingDate,
    allowPartialDelivery: draft.allowPartialDelivery ?? partialDeliveryByOrderType[draft.orderTypeId] ?? false,
    onHold: draft.onHold,
    metadata: draft.metadata,
    channelIdentifier: null,
    orderTypeId: draft.orderTypeId,
    shippingMethodId: draft.shippingMethodId,
    items,
    deliveryAddressId: ids.next(),
    deliveryAddress: deliveryLines,
    billingAddressId: ids.next(),
    billingAddress: withHouseNumber(draft.billingAddress),
    pickUpPoint: pickUpPoint === null ? null : { id: ids.next(), attributes: pickUpPoint },
    attachments: attachment === null ? none : [{ ...attachment, id: ids.next() }],
    notValid: isHouseNumberMissing(deliveryLines),
    shipmentIds: none,
  };
  store.addOrder(order);
  return order;
}

/** @throws Refusal where no warehouse of the client's strategy has that code */
export function checkWarehouse(code: string | null, pointer?: string): void {
  if (code === null || warehouseCodes.some((known) => known === code)) return;
  throw ruleBroken(
    `Warehouse ${code} does not belong to the fulfilment strategy (${warehouseCodes.join(', ')})`,
    pointer,
  );
}

/** @throws Refusal where another order of this client has that number */
export function checkNumber(life: Life, externalOrderNumber: string, own: Order | null, pointer?: string): void {
  const holder = life.store.orderByNumber.get(externalOrderNumber);
  if (holder === undefined || holder === own || life.habits.repeatedNumbers) return;
  throw ruleBroken(`There is an order with externalOrderNumber ${externalOrderNumber} already`, pointer);
}

function checkDraft(life: Life, draft: OrderDraft, pointers: Pointers): void {
  checkNumber(life, draft.externalOrderNumber, null, pointers.externalOrderNumber);
  if (!settings.orderTypes.some(({ id }) => id === draft.orderTypeId))
    throw ruleBroken(`There is no order type ${draft.orderTypeId}`, pointers.orderType);
  const method = draft.shippingMethodId;
  if (method !== null && !settings.mainShippingMethods.some(({ id }) => id === method))
    throw ruleBroken(`There is no main shipping method ${method}`, pointers.shippingMethod);
  checkWarehouse(draft.fulfillFrom, pointers.fulfillFrom);
  for (const { fulfillFrom, pointer } of draft.lines)
    checkWarehouse(fulfillFrom, pointer && `${pointer}/attributes/fulfillFrom`);
  assertKnown(life, draft.lines);
}

function itemOf(id: number, line: LineDraft, productId: number): OrderItem {
  const { sku, quantity, fulfillFrom, price, vat, name, metadata } = line;
  return { id, sku, ordered: quantity, quantity, fulfilled: 0, fulfillFrom, price, vat, name, metadata, productId };
}
