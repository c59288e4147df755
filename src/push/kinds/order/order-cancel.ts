import { orders } from '../../../pull/streams/orders.ts';
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

const operation = 'v3.orders.cancel';

/** Cancels the quantities of an order that were not shipped (docs/interface.md, 7.8 Cancel). */
export const orderCancel = defineKind<Record<string, never>>({
  name: 'order.cancel',
  schema: noMembers,
  operation,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  push: cancelOrder,
});

async function cancelOrder(_payload: unknown, context: PushContext): Promise<PushResult> {
  const { order, resource: before } = await findOrder(context);
  const { id: orderId } = order;
  const request = { operation, path: { id: orderId }, query: orderInclude } as const;
  const answer = await context.send(request);
  const isAnswered = !isEmpty(answer);

  // If the service does not have the order any more, everything of it is cancelled.
  const remaining = isAnswered
    ? readAnsweredOrder(operation, answer.body, orderId)
    : await readOrderById(context, orderId);
  const items = remaining === null ? [] : readLines(remaining.resource);
  const { modified, modifiedItems: modifiedItemIds } = isAnswered
    ? readMeta(operation, answer.body)
    : findModified(readLines(before), items);

  const result = { orderId, modified, modifiedItemIds, items };
  if (remaining === null) return { result, gone: { stream: orders, id: orderId } };
  return { result, reading: { stream: orders, ...remaining } };
}

/** Finds what a cancellation modified that was answered without a body. */
function findModified(
  before: ReturnType<typeof readLines>,
  after: typeof before,
): ReturnType<typeof readMeta> {
  const left = new Map(after.map(({ id, quantity }) => [id, quantity]));
  const changed = before.filter(({ id, quantity }) => quantity !== (left.get(id) ?? 0));
  return { modified: changed.length > 0, modifiedItems: changed.map(({ id }) => id) };
}
