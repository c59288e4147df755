import { orders } from '../../../pull/streams/orders.ts';
import type { Resource } from '../../../service/decoding/jsonapi.ts';
import { defineKind, isEmpty, type PushContext, type PushResult } from '../../kind.ts';
import { noMembers } from '../../payload.ts';
import {
  findOrder,
  orderInclude,
  readAnsweredOrder,
  readLines,
  readMeta,
  readOrderById,
} from './find-order.ts';

/** Cancels the quantities of an order that were not shipped (docs/interface.md, 7.8 Cancel). */
export const orderCancel = defineKind<Record<string, never>>({
  name: 'order.cancel',
  schema: noMembers,
  operation: 'v3.orders.cancel',
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  push: cancelOrder,
});

async function cancelOrder(_payload: unknown, context: PushContext): Promise<PushResult> {
  const { order, resource } = await findOrder(context);
  const answer = await context.send({
    operation: 'v3.orders.cancel',
    path: { id: order.id },
    query: orderInclude,
  });
  if (isEmpty(answer)) return readCancelled(order.id, resource, context);

  const remaining = readAnsweredOrder('v3.orders.cancel', answer.body, order.id);
  const { modified, modifiedItems } = readMeta('v3.orders.cancel', answer.body);
  return {
    result: {
      orderId: order.id,
      modified,
      modifiedItemIds: modifiedItems,
      items: readLines(remaining.resource),
    },
    reading: { stream: orders, ...remaining },
  };
}

/**
 * Returns the result of a cancellation that was answered without a body: what the order has lost
 * since it was read before. If the service does not have the order any more, everything of it is
 * cancelled.
 */
async function readCancelled(
  orderId: number,
  before: Resource,
  context: PushContext,
): Promise<PushResult> {
  const remaining = await readOrderById(context, orderId);
  const items = remaining === null ? [] : readLines(remaining.resource);
  const left = new Map(items.map(({ id, quantity }) => [id, quantity]));

  const changed = readLines(before).filter(({ id, quantity }) => quantity !== (left.get(id) ?? 0));
  const modifiedItemIds = changed.map(({ id }) => id);
  const result = { orderId, modified: modifiedItemIds.length > 0, modifiedItemIds, items };
  if (remaining === null) return { result, gone: { stream: orders, id: orderId } };
  return { result, reading: { stream: orders, ...remaining } };
}
