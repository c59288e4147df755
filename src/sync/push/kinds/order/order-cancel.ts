import { z } from 'zod';
import { orders } from '../../../streams/orders.ts';
import { defineKind, type PushContext, type Pushed } from '../../payload/kind.ts';
import { answeredOrder, findOrder, orderInclude } from './find-order.ts';
import { linesOf, readMeta } from './order-answers.ts';

/** Cancels what is left of an order (interface.md, DELETE /v3/orders/:id). What was shipped stays. */
export const orderCancel = defineKind<Record<string, never>>({
  name: 'order.cancel',
  schema: z.strictObject({}),
  operation: 'v3.orders.cancel',
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  push: cancelOrder,
});

async function cancelOrder(_payload: unknown, context: PushContext): Promise<Pushed> {
  const { order } = await findOrder(context);
  const answer = await context.send({ operation: 'v3.orders.cancel', path: { id: order.id }, query: orderInclude });
  const left = answeredOrder('v3.orders.cancel', answer.body, order.id);
  const { modified, modifiedItems } = readMeta('v3.orders.cancel', answer.body);
  return {
    result: { orderId: order.id, modified, modifiedItemIds: modifiedItems, items: linesOf(left.resource) },
    reading: { stream: orders, ...left },
  };
}
