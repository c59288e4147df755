import { z } from 'zod';
import { notFound, ruleBroken } from '../refusal.ts';
import { cancelItems, isFulfilled } from '../rules/orders.ts';
import { checkPrintable } from '../rules/pdf.ts';
import type { Order } from '../store/model.ts';
import { type Call, defineOperation } from './operation.ts';
import {
  assertSameId,
  documentSchema,
  idIn,
  linkOne,
  linkTo,
  provisionalId,
  resourceSchema,
  toOne,
} from './v3-document.ts';
import { orderItemSchema, toOrderItemResource } from './v3-order-resource.ts';
import { attachmentAttributes } from './v3-orders.ts';

const cancelBody = z.strictObject({
  data: z.strictObject({
    id: idIn,
    type: z.literal('orderItem'),
    attributes: z.looseObject({ quantity: z.literal(0, 'must be 0: an order item can be cancelled, not changed') }),
    relationships: z.record(z.string(), z.unknown()).optional(),
  }),
});
const attachmentBody = z.strictObject({
  data: z.strictObject({
    type: z.literal('orderAttachment'),
    id: provisionalId.optional(),
    attributes: attachmentAttributes,
    relationships: z.strictObject({ order: linkTo('order') }).optional(),
  }),
});
const attachmentDocument = documentSchema(
  resourceSchema(
    'orderAttachment',
    {
      externalOrderNumber: z.string(),
      filename: z.string(),
      contentType: z.literal('application/pdf'),
      printStrategy: z.literal('REQUIRED'),
    },
    { order: toOne('order') },
  ),
);

/** The operations on order items and order attachments (docs/interface.md, 8.2 Operations, 9.2 Operations). */
export const orderItemOperations = [
  defineOperation({
    name: 'v3.orderItems.get',
    route: 'GET /v3/orderItems/:id',
    summary: 'One order item',
    answer: documentSchema(orderItemSchema),
    run: (call) => {
      const { order, item } = findItem(call);
      return call.renderOne({ resource: toOrderItemResource(order, item), included: [] });
    },
  }),
  defineOperation({
    name: 'v3.orderItems.cancel',
    route: 'PATCH /v3/orderItems/:id',
    summary: 'Cancels what is left of one order item',
    documented: false,
    body: cancelBody,
    answer: z.strictObject({ data: orderItemSchema, meta: z.strictObject({ modified: z.boolean() }) }),
    run: (call) => {
      const { order, item } = findItem(call);
      assertSameId(call.body.data.id, item.id);
      call.recordWrite('order', order.id, order);
      const modified = cancelItems(call.simulation, order, [item], call.nowMs).length > 0;
      return { ...call.renderOne({ resource: toOrderItemResource(order, item), included: [] }), meta: { modified } };
    },
  }),
  defineOperation({
    name: 'v3.orderAttachments.create',
    route: 'POST /v3/orderAttachments',
    summary: 'Links a pdf document to an order, to be printed during picking',
    body: attachmentBody,
    answer: attachmentDocument,
    run: async (call) => {
      const { store, body } = call;
      const { attributes, relationships } = body.data;
      const order = findNamedOrder(store, attributes.externalOrderNumber, relationships?.order.data.id);
      await checkPrintable(Buffer.from(attributes.content, 'base64'), '/data/attributes/content');
      // Checked after the `await`, because the order may have been fulfilled in the meantime.
      if (isFulfilled(order))
        throw ruleBroken('The order is completely fulfilled: nothing remains to print for', '/data');
      const attachment = { id: call.simulation.ids.next(), filename: attributes.filename };
      order.attachments = [...order.attachments, attachment];
      const { contentType, printStrategy, filename } = attributes;
      const { externalOrderNumber } = order;
      const shown = { externalOrderNumber, filename, contentType, printStrategy };
      const relationship = { order: linkOne('order', order.id) };
      const resource = { id: attachment.id, type: 'orderAttachment', attributes: shown, relationships: relationship };
      return call.renderOne({ resource, included: [] });
    },
  }),
];

/**
 * Returns the item in the path and its order.
 * @throws Refusal if there is no such item
 */
function findItem(call: Call<unknown, unknown>) {
  const order = call.store.findOrderOfItem(call.id);
  const item = order?.items.find(({ id }) => id === call.id);
  if (order === undefined || item === undefined) throw notFound('orderItem');
  call.requireRow('order', order);
  return { order, item };
}

/**
 * Returns the order that an attachment names by number, by relationship or by both.
 * @throws Refusal if the order is missing or unknown, or if the two differ
 */
function findNamedOrder(
  store: Call<unknown, unknown>['store'],
  number: string | undefined,
  id: number | undefined,
): Order {
  const byNumber = number === undefined ? undefined : store.orderByNumber.get(number);
  const byId = id === undefined ? undefined : store.orders.get(id);
  if (number !== undefined && byNumber === undefined)
    throw ruleBroken(`There is no order with externalOrderNumber ${number}`, '/data/attributes/externalOrderNumber');
  if (id !== undefined && byId === undefined) throw ruleBroken(`There is no order ${id}`, '/data/relationships/order');
  const order = byId ?? byNumber;
  if (order === undefined) throw ruleBroken('An orderAttachment names its order', '/data/relationships/order');
  if (byNumber !== undefined && byNumber !== order)
    throw ruleBroken('externalOrderNumber and the relationship name different orders', '/data/relationships/order');
  return order;
}
