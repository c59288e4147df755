/**
 * This folder: the streams. Each is a declaration: list, table of fields, children, and the passes
 * of its poll.
 */

import type { RunContext } from '../../schedule/run.ts';
import { underLease } from '../../schedule/sql/leases.ts';
import {
  count,
  date,
  defineFields,
  flag,
  json,
  many,
  numeric,
  one,
  oneOrUnnamed,
  personalField,
  type RowOf,
  text,
} from '../../service/decoding/fields.ts';
import { type DateWindow, readWaiting, readWindow } from '../poll.ts';
import { requestMissingOrders } from '../sql/waiting-reads.ts';
import { declareStream, type Stream } from '../stream.ts';

/** Items of an order (docs/interface.md, 8.1 Fields). */
export const orderItem = defineFields('orderItem', {
  attributes: {
    sku: text,
    quantity: count,
    fulfillFrom: text,
    price: numeric,
    vat: numeric,
    name: personalField(text),
    channelIdentifier: text,
    metadata: personalField(json),
  },
  relationships: { product: one },
});

/** Addresses of orders (docs/interface.md, 7.2 Addresses). */
export const orderAddress = defineFields('address', {
  attributes: {
    firstName: personalField(text),
    lastName: personalField(text),
    prefix: personalField(text),
    street1: personalField(text),
    postcode: personalField(text, 'area'),
    houseNumber: personalField(text),
    houseNumberExtension: personalField(text),
    city: personalField(text),
    countryCode: text,
  },
  relationships: {},
});

/** Orders (docs/interface.md, 7.1 Fields). */
export const order = defineFields('order', {
  attributes: {
    externalOrderNumber: text,
    reference: personalField(text),
    orderedOn: date,
    consumerReference: personalField(text),
    promotionCode: personalField(text),
    currency: text,
    locale: text,
    email: personalField(text),
    phoneNumber: personalField(text),
    vatNumber: personalField(text),
    fulfillFrom: text,
    preferredShippingDate: date,
    allowPartialDelivery: flag,
    onHold: flag,
    metadata: personalField(json),
    channelIdentifier: text,
  },
  relationships: {
    orderType: one,
    deliveryAddress: one,
    billingAddress: one,
    pickUpPoint: personalField(oneOrUnnamed),
    preferredShippingMethod: one,
    orderItems: many,
  },
});

/** An order as the service answered it, by column. */
export type OrderRow = RowOf<typeof order>;

/** The service may use one address for both roles. */
const addresses = { table: 'order_addresses', fields: orderAddress, parentColumn: 'order_id' };

const placedOn: DateWindow = {
  pass: 'placed',
  attribute: 'orderedOn',
  firstRunDays: 400,
};

/** Orders with their items, addresses and pick-up point. */
export const orders = declareStream<Stream>({
  name: 'orders',
  list: 'v3.orders.list',
  get: 'v3.orders.get',
  include: ['orderItems', 'deliveryAddress', 'billingAddress', 'pickUpPoint'],
  resource: {
    table: 'orders',
    fields: order,
    children: [
      { table: 'order_items', fields: orderItem, parentColumn: 'order_id', listedIn: 'orderItems' },
      { ...addresses, listedIn: 'deliveryAddress', role: 'delivery' },
      { ...addresses, listedIn: 'billingAddress', role: 'billing' },
    ],
    kept: 'pickUpPoint',
    erasedWithOrders: true,
    incomplete: 'an order came without all of its items, addresses and pick-up point',
  },
  rescan: {
    table: 'orders',
    filter: 'orderedOn',
    dates: ['ordered_on'],
    moved: ['ordered_on'],
    horizonDays: null,
    sorted: false,
  },

  async poll(context, pass) {
    const placed = await pass(() => readWindow(context, placedOn));

    const isFirstLoad = placed?.isFirstLoad ?? false;
    await pass(async () => {
      // The first load of orders may have begun after that of shipments.
      if (isFirstLoad) await requestOrdersOfShipments(context);
      await readWaiting(context, { isFirstLoad });
    });
  },
});

/**
 * Requests reads of all orders that shipments name and that are not stored. It reads all shipments.
 */
export async function requestOrdersOfShipments({ db, client, run }: RunContext): Promise<void> {
  await underLease(db, run.lease, (trx) => requestMissingOrders({ trx, client }, null));
}
