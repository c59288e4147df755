import { z } from 'zod';
import { notFound, ruleBroken } from '../../refusal.ts';
import { documentOf, one, resourceSchema, toOne } from '../../resources/jsonapi.ts';
import { orderItemResource, orderItemSchema } from '../../resources/orders.ts';
import { cancelItems, isFulfilled } from '../../rules/change-order.ts';
import { checkPrintable } from '../../rules/pdf.ts';
import type { Order } from '../../store/model.ts';
import { type Call, operation } from '../operation.ts';
import { assertSameId, idIn, linkTo, provisionalId } from './input.ts';
import { attachmentAttributes } from './order-body.ts';

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
const attachmentDocument = documentOf(
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

/** interface.md, v3 orderItems and orderAttachments. */
export const orderItemOperations = [
  operation({
    name: 'v3.orderItems.get',
    route: 'GET /v3/orderItems/:id',
    summary: 'One order item',
    answer: documentOf(orderItemSchema),
    run: (call) => {
      const { order, item } = itemOf(call);
      return call.one({ resource: orderItemResource(order, item), included: [] });
    },
  }),
  operation({
    name: 'v3.orderItems.cancel',
    route: 'PATCH /v3/orderItems/:id',
    summary: 'Cancels what is left of one order item',
    documented: false,
    body: cancelBody,
    answer: z.strictObject({ data: orderItemSchema, meta: z.strictObject({ modified: z.boolean() }) }),
    run: (call) => {
      const { order, item } = itemOf(call);
      assertSameId(call.body.data.id, item.id);
      call.wrote('order', order.id, order);
      const modified = cancelItems(call.life, order, [item], call.nowMs).length > 0;
      return { ...call.one({ resource: orderItemResource(order, item), included: [] }), meta: { modified } };
    },
  }),
  operation({
    name: 'v3.orderAttachments.create',
    route: 'POST /v3/orderAttachments',
    summary: 'Links a pdf document to an order, to be printed during picking',
    body: attachmentBody,
    answer: attachmentDocument,
    run: async (call) => {
      const { store, body } = call;
      const { attributes, relationships } = body.data;
      const order = namedOrder(store, attributes.externalOrderNumber, relationships?.order.data.id);
      await checkPrintable(Buffer.from(attributes.content, 'base64'), '/data/attributes/content');
      // After the wait, in which the last parcel may have been made.
      if (isFulfilled(order))
        throw ruleBroken('The order is completely fulfilled: nothing remains to print for', '/data');
      const attachment = { id: call.life.ids.next(), filename: attributes.filename };
      order.attachments = [...order.attachments, attachment];
      const { contentType, printStrategy, filename } = attributes;
      const { externalOrderNumber } = order;
      const shown = { externalOrderNumber, filename, contentType, printStrategy };
      const relationship = { order: one('order', order.id) };
      const resource = { id: attachment.id, type: 'orderAttachment', attributes: shown, relationships: relationship };
      return call.one({ resource, included: [] });
    },
  }),
];

function itemOf(call: Call<unknown, unknown>) {
  const order = call.store.orderOfItem(call.id);
  const item = order?.items.find(({ id }) => id === call.id);
  if (order === undefined || item === undefined) throw notFound('orderItem');
  call.found('order', order);
  return { order, item };
}

/** The order that an attachment names, by its number, by the relationship, or by both. */
function namedOrder(store: Call<unknown, unknown>['store'], number: string | undefined, id: number | undefined): Order {
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
