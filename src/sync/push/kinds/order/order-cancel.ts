import { z } from 'zod';
import { WarehouseError } from '../../../../core/errors.ts';
import { isObject, parseExact } from '../../../../core/json.ts';
import { toMany } from '../../../../warehouse/decoding/jsonapi.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, type PushContext, type Pushed } from '../../payload/kind.ts';
import { answeredOrder, findOrder, orderInclude } from './find-order.ts';
import { linesOf } from './order-create.ts';

const metaSchema = z.looseObject({ modified: z.boolean(), modifiedItems: toMany.optional() });

/** Cancels what is left of an order (interface.md, DELETE /v3/orders/:id). What was shipped stays. */
export const orderCancel = defineKind<Record<string, never>>({
  name: 'order.cancel',
  schema: z.strictObject({}),
  operation: 'v3.orders.cancel',
  notFoundMeansRoute: false,
  unknown: 'send again',
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

/** `meta` of a cancellation, of a document that was read already (interface.md, DELETE /v3/orders/:id and Cancel orderItem). */
export function readMeta(operation: string, body: string): { modified: boolean; modifiedItems: number[] } {
  const document = parseExact(body);
  const meta = metaSchema.safeParse(isObject(document) ? document.meta : null);
  if (!meta.success)
    throw new WarehouseError('undecodable', `${operation}: the answer does not say what was modified`, {
      outcome: 'unknown',
    });
  return { modified: meta.data.modified, modifiedItems: [...(meta.data.modifiedItems ?? [])] };
}
