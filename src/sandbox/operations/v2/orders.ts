/**
 * Operations of the generation v2. Answers are envelopes with a message code.
 */

import { z } from 'zod';
import { releaseOrder } from '../../rules/change-order.ts';
import { placeOrder } from '../../rules/place-order.ts';
import { type Call, envelope, nok, ok, operation } from '../operation.ts';
import { orderBody, readOrder } from './order-body.ts';

const extra = z.string().nullable();
/** interface.md, v2 order lookup result. */
export const orderLookup = z.strictObject({
  orderNumber: z.int(),
  externalOrderNumber: z.string(),
  extra1: extra,
  extra2: extra,
  extra3: extra,
  extra4: extra,
  extra5: extra,
});
const byNumber = z.strictObject({ externalOrderNumber: z.string().min(1, 'must not be empty') });

/** v2 operations on orders (interface.md). */
export const v2OrderOperations = [
  operation({
    name: 'v2.order.add',
    route: 'POST /v2/order/add',
    summary: 'Adds an order',
    documented: false,
    body: orderBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { life, nowMs } = call;
      const order = placeOrder(life, readOrder(call.body, life.store.zone, nowMs), nowMs);
      call.wrote('order', order.id, null);
      return ok(order.notValid ? 'Order added, Not Valid: its house number is missing' : 'Order added', order.id);
    },
  }),
  operation({
    name: 'v2.order.search',
    route: 'GET /v2/order/search',
    summary: 'Finds an order, query variant',
    documented: false,
    query: { externalOrderNumber: z.string().min(1, 'must not be empty') },
    required: ['externalOrderNumber'],
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.query.externalOrderNumber ?? ''),
  }),
  operation({
    name: 'v2.order.searchByBody',
    route: 'POST /v2/order/search',
    summary: 'Finds an order, body variant',
    documented: false,
    body: byNumber,
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.body.externalOrderNumber),
  }),
  operation({
    name: 'v2.order.release',
    route: 'POST /v2/order/release',
    summary: 'Releases an order created with onHold true',
    documented: false,
    body: byNumber,
    answer: envelope(z.null()),
    run: (call) => {
      const order = call.store.orderByNumber.get(call.body.externalOrderNumber);
      if (order === undefined) return nok('Order not found');
      call.wrote('order', order.id, order);
      releaseOrder(call.life, order, call.nowMs);
      return ok('Order released');
    },
  }),
];

/** The order with a number, or NOK. Searches may lag behind writes. */
export function lookUpOrder(call: Call<unknown, unknown>, externalOrderNumber: string) {
  const known = call.store.orderByNumber.get(externalOrderNumber);
  const order = known && call.seen('order', known);
  if (!order) return nok('Order not found');
  const { extra1 = null, extra2 = null, extra3 = null, extra4 = null, extra5 = null } = order.metadata;
  const result = { orderNumber: order.id, externalOrderNumber: order.externalOrderNumber };
  return ok('Order found', { ...result, extra1, extra2, extra3, extra4, extra5 });
}
