/**
 * The operations of the generation v2. Every answer is an envelope with a message code.
 */

import { z } from 'zod';
import { placeOrder, releaseOrder } from '../../rules/orders.ts';
import { type Call, defineOperation, envelope, nok, ok } from '../operation.ts';
import { orderBody, readOrder } from './order-body.ts';

const nullableText = z.string().nullable();
/** The result of an order search (docs/interface.md, 15.4 Order lookup result). */
export const orderLookup = z.strictObject({
  orderNumber: z.int(),
  externalOrderNumber: z.string(),
  extra1: nullableText,
  extra2: nullableText,
  extra3: nullableText,
  extra4: nullableText,
  extra5: nullableText,
});
const orderNumberBody = z.strictObject({ externalOrderNumber: z.string().min(1, 'must not be empty') });

/** The v2 operations on orders (docs/interface.md, 15.1 Operations). */
export const v2OrderOperations = [
  defineOperation({
    name: 'v2.order.add',
    route: 'POST /v2/order/add',
    summary: 'Adds an order',
    replacedBy: 'POST /v3/orders',
    documented: false,
    body: orderBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, nowMs } = call;
      const order = placeOrder(simulation, readOrder(call.body, simulation.store, nowMs), nowMs);
      call.recordWrite('order', order.id, null);
      return ok(order.notValid ? 'Order added, Not Valid: its house number is missing' : 'Order added', order.id);
    },
  }),
  defineOperation({
    name: 'v2.order.search',
    route: 'GET /v2/order/search',
    summary: 'Finds an order, query variant',
    replacedBy: 'GET /v3/orders with filter[externalOrderNumber][in]',
    documented: false,
    query: { externalOrderNumber: z.string().min(1, 'must not be empty') },
    required: ['externalOrderNumber'],
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.query.externalOrderNumber ?? ''),
  }),
  defineOperation({
    name: 'v2.order.searchByBody',
    route: 'POST /v2/order/search',
    summary: 'Finds an order, body variant',
    replacedBy: 'GET /v3/orders with filter[externalOrderNumber][in]',
    documented: false,
    body: orderNumberBody,
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.body.externalOrderNumber),
  }),
  defineOperation({
    name: 'v2.order.release',
    route: 'POST /v2/order/release',
    summary: 'Releases an order created with onHold true',
    documented: false,
    body: orderNumberBody,
    answer: envelope(z.null()),
    run: (call) => {
      const order = call.store.orderByNumber.get(call.body.externalOrderNumber);
      if (order === undefined) return nok('Order not found');
      call.recordWrite('order', order.id, order);
      releaseOrder(call.simulation, order, call.nowMs);
      return ok('Order released');
    },
  }),
];

/** Answers with the order that has a number, or with NOK. The search may lag behind writes. */
export function lookUpOrder(call: Call<unknown, unknown>, externalOrderNumber: string) {
  const known = call.store.orderByNumber.get(externalOrderNumber);
  const order = known && call.viewRow('order', known);
  if (!order) return nok('Order not found');
  const { extra1 = null, extra2 = null, extra3 = null, extra4 = null, extra5 = null } = order.metadata;
  const result = { orderNumber: order.id, externalOrderNumber: order.externalOrderNumber };
  return ok('Order found', { ...result, extra1, extra2, extra3, extra4, extra5 });
}
