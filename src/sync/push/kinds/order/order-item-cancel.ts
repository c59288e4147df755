import { z } from 'zod';
import { undecodableAnswer } from '../../../../core/errors.ts';
import type { Json } from '../../../../core/json.ts';
import { decodeDocument, decodeWith, type Resource, readId } from '../../../../warehouse/decoding/jsonapi.ts';
import { orderItemSchema } from '../../../../warehouse/decoding/v3-orders.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, NotThereError, type PushContext, type Pushed } from '../../payload/kind.ts';
import { has, idNumber, requiredText } from '../../payload/payload.ts';
import { findOrder } from './find-order.ts';
import { linesOf, readMeta } from './order-answers.ts';

const schema = z.strictObject({ orderItemId: idNumber.nullish(), sku: requiredText.nullish() });
type CancelledItem = z.infer<typeof schema>;

/** Cancels what is left of one line of an order (interface.md, Cancel orderItem). */
export const orderItemCancel = defineKind<CancelledItem>({
  name: 'order_item.cancel',
  schema,
  operation: 'v3.orderItems.cancel',
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  check: async (wanted) =>
    has(wanted, 'orderItemId') === has(wanted, 'sku') ? ['payload: give either orderItemId or sku'] : [],
  push: cancelItem,
});

async function cancelItem(wanted: CancelledItem, context: PushContext): Promise<Pushed> {
  const { resource, escaped } = await findOrder(context);
  const id = itemOf(resource, wanted, context.row.reference);
  const answer = await context.send({
    operation: 'v3.orderItems.cancel',
    path: { id },
    body: { data: { id, type: 'orderItem', attributes: { quantity: 0 } } },
  });
  const document = decodeDocument('v3.orderItems.cancel', answer.body, 'single');
  const item = document.data[0] as Resource;
  const read = decodeWith(orderItemSchema, item);
  if ('problem' in read || read.value.id !== id)
    throw undecodableAnswer('v3.orderItems.cancel: the answer is of another item');
  const { modified } = readMeta('v3.orderItems.cancel', answer.body);
  return {
    result: { orderItemId: id, modified, quantity: read.value.attributes.quantity },
    reading: { stream: orders, resource: withItem(resource, id, item), escaped: escaped || document.escaped },
  };
}

/** The line that is meant. @throws NotThereError where it is none of the order's, or the sku is not that of exactly one */
function itemOf(order: Resource, { orderItemId, sku }: CancelledItem, number: string): number {
  const lines = linesOf(order);
  const found = lines.filter((line) => (orderItemId ? line.id === orderItemId : line.sku === sku));
  const [first, ...others] = found;
  const held = lines.map((line) => `${line.id} (${line.sku})`).join(', ') || 'none';
  if (first === undefined)
    throw new NotThereError(`order ${number} has no item ${orderItemId ?? sku}; its items are ${held}`);
  if (others.length > 0)
    throw new NotThereError(`order ${number} has several items ${sku}; name one by orderItemId: ${held}`);
  return first.id;
}

/** The order as it was read, with the item as it is now. */
function withItem(order: Resource, id: number, item: Json): Resource {
  const included = Array.isArray(order.included) ? order.included : [];
  return { ...order, included: included.map((own) => (readId(own) === id && isItem(own) ? item : own)) };
}

const isItem = (resource: Json) => (resource as Resource).type === 'orderItem';
