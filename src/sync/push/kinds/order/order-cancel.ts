import { noMembers } from '../../../../payloads/members.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, type PushContext, type PushResult } from '../../payload/kind.ts';
import { findOrder, orderInclude, readAnsweredOrder, readLines, readMeta } from './find-order.ts';

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
  const { order } = await findOrder(context);
  const answer = await context.send({ operation: 'v3.orders.cancel', path: { id: order.id }, query: orderInclude });
  const remaining = readAnsweredOrder('v3.orders.cancel', answer.body, order.id);
  const { modified, modifiedItems } = readMeta('v3.orders.cancel', answer.body);
  return {
    result: { orderId: order.id, modified, modifiedItemIds: modifiedItems, items: readLines(remaining.resource) },
    reading: { stream: orders, ...remaining },
  };
}
