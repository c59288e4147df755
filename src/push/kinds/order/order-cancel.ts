import { orders } from '../../../pull/streams/orders.ts';
import {
  cancelledEarlier,
  defineKind,
  isEmpty,
  type JsonObject,
  type PushContext,
  type PushResult,
} from '../../kind.ts';
import { noMembers } from '../../payload.ts';
import { findOrder, orderInclude, readLines, readMeta } from './find-order.ts';
import { readCancelledOrder, showsAllItems } from './order-state.ts';

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
  const found = await findOrder(context);
  const { id: orderId } = found.order;
  const request = { operation, path: { id: orderId }, query: orderInclude } as const;
  const answer = await context.send(request);

  // If the service does not have the order any more, everything of it is cancelled.
  const remaining = await readCancelledOrder(context, answer, found);
  const items = remaining === null ? [] : readLines(remaining.resource);
  const answered = isEmpty(answer)
    ? findModified(readLines(found.resource), items)
    : readMeta(operation, answer.body);
  const isShown = remaining === null || showsAllItems(remaining, found.resource);

  const result = {
    orderId,
    ...describeModified(answered, items, context.row.maybeCarriedOut),
    items,
    ...(!isShown && { note: 'the service does not show all items of the order: items lacks some' }),
  };
  if (remaining === null) return { result, gone: { stream: orders, id: orderId } };
  return { result, reading: { stream: orders, ...remaining } };
}

/**
 * Returns what the row modified. If an earlier attempt may have been carried out, it may have
 * cancelled what this one found cancelled. If nothing is left to ship, the row says that it did.
 */
function describeModified(
  { modified, modifiedItems }: ReturnType<typeof readMeta>,
  items: ReturnType<typeof readLines>,
  maybeCarriedOut: boolean,
): JsonObject {
  const cancelled = items.filter(({ quantity }) => quantity === 0);
  if (modified || !maybeCarriedOut || cancelled.length === 0)
    return { modified, modifiedItemIds: modifiedItems };

  return cancelled.length === items.length
    ? { modified: true, modifiedItemIds: items.map(({ id }) => id), note: cancelledEarlier }
    : { modified, modifiedItemIds: modifiedItems, note: cancelledEarlier };
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
