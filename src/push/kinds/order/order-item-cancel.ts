import { z } from 'zod';
import { makeUndecodableError } from '../../../core/errors.ts';
import type { Json } from '../../../core/json.ts';
import { orderItem, orders } from '../../../pull/streams/orders.ts';
import { decodeRow } from '../../../service/decoding/fields.ts';
import { decodeDocument, type Resource, readId } from '../../../service/decoding/jsonapi.ts';
import {
  cancelledEarlier,
  defineKind,
  isEmpty,
  type JsonObject,
  NotFoundError,
  type PushContext,
  type PushResult,
  problemAt,
} from '../../kind.ts';
import { idNumber, isGiven, refusing, requiredText } from '../../payload.ts';
import { findOrder, readLines, readMeta, readOrderById } from './find-order.ts';

/** The interface cancels what is left of an item, not a part of it. */
const schema = z
  .strictObject({ orderItemId: idNumber.nullish(), sku: requiredText.nullish() })
  .meta(
    refusing({
      quantity:
        'the interface cancels all that is left of an item, not a part of it;' +
        ' to change the quantity, use order.replace',
    }),
  );
type CancelledItem = z.infer<typeof schema>;

/**
 * Cancels the quantity of one order item that was not shipped (docs/interface.md, 8.2 Operations).
 */
export const orderItemCancel = defineKind<CancelledItem>({
  name: 'order_item.cancel',
  schema,
  operation: 'v3.orderItems.cancel',
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  check: (wanted) =>
    isGiven(wanted, 'orderItemId') === isGiven(wanted, 'sku')
      ? [problemAt([], 'give either orderItemId or sku')]
      : [],
  push: cancelItem,
});

async function cancelItem(wanted: CancelledItem, context: PushContext): Promise<PushResult> {
  const { order, resource, escaped } = await findOrder(context);
  const id = findItemId(resource, wanted, context.row.reference);
  const answer = await context.send({
    operation: 'v3.orderItems.cancel',
    path: { id },
    body: {
      data: {
        id,
        type: 'orderItem',
        attributes: context.operations['v3.orderItems.cancel'].attributes ?? { quantity: 0 },
      },
    },
  });
  if (isEmpty(answer)) return readCancelledItem(order.id, id, resource, context);

  const document = decodeDocument('v3.orderItems.cancel', answer.body, 'single');
  const item = document.data[0] as Resource;
  const read = decodeRow(orderItem, item);
  if ('problem' in read || read.row.id !== id)
    throw makeUndecodableError('v3.orderItems.cancel: the answer describes another item');
  const { modified } = readMeta('v3.orderItems.cancel', answer.body);
  const { quantity } = read.row;
  return {
    result: { orderItemId: id, ...describeModified(modified, quantity, context), quantity },
    reading: {
      stream: orders,
      resource: replaceItem(resource, id, item),
      escaped: escaped || document.escaped,
    },
  };
}

/**
 * Returns the result of a cancellation that was answered without a body, by reading the order
 * again.
 */
async function readCancelledItem(
  orderId: number,
  id: number,
  before: Resource,
  context: PushContext,
): Promise<PushResult> {
  const changed = await readOrderById(context, orderId);
  const findLine = (order: Resource) => readLines(order).find((line) => line.id === id);
  const line = changed === null ? undefined : findLine(changed.resource);
  if (changed === null || line === undefined)
    throw makeUndecodableError(
      'v3.orderItems.cancel: the answer is empty, and the order does not show the item',
    );

  const modified = findLine(before)?.quantity !== line.quantity;
  return {
    result: {
      orderItemId: id,
      ...describeModified(modified, line.quantity, context),
      quantity: line.quantity,
    },
    reading: { stream: orders, ...changed },
  };
}

/**
 * Returns what the row modified. If an earlier attempt may have been carried out, it may have
 * cancelled the item that this one found cancelled.
 */
function describeModified(
  modified: boolean,
  quantity: number | null,
  { row }: PushContext,
): JsonObject {
  const mayBeEarlier = !modified && row.maybeCarriedOut && quantity === 0;
  return mayBeEarlier ? { modified: true, note: cancelledEarlier } : { modified };
}

/**
 * Returns the id of the item that the payload names.
 * @throws NotFoundError if no item fits, or several do
 */
function findItemId(order: Resource, { orderItemId, sku }: CancelledItem, number: string): number {
  const lines = readLines(order);
  const found = lines.filter((line) => (orderItemId ? line.id === orderItemId : line.sku === sku));
  const [first, ...others] = found;
  const held = lines.map((line) => `${line.id} (${line.sku})`).join(', ') || 'none';
  if (first === undefined)
    throw new NotFoundError(
      `order ${number} has no item ${orderItemId ?? sku}; its items are ${held}`,
    );
  if (others.length > 0)
    throw new NotFoundError(
      `order ${number} has several items with the sku ${sku}; name one by orderItemId: ${held}`,
    );

  return first.id;
}

/** Returns the order with one item replaced by its new version. */
function replaceItem(order: Resource, id: number, item: Json): Resource {
  const included = Array.isArray(order.included) ? order.included : [];
  const isSame = (other: Json) => readId(other) === id && (other as Resource).type === 'orderItem';
  return { ...order, included: included.map((other) => (isSame(other) ? item : other)) };
}
