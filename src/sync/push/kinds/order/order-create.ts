import { WarehouseError } from '../../../../core/errors.ts';
import { findChildren } from '../../../../warehouse/decoding/included.ts';
import { decodeDocument, decodeWith, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import { orderItemSchema, orderSchema } from '../../../../warehouse/decoding/v3-orders.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, PayloadError, type PushContext, type Pushed } from '../../payload/kind.ts';
import { ordersIn } from './find-order.ts';
import { findOrders } from './look-up-orders.ts';
import {
  linesDiffer,
  type OrderPayload,
  orderDocument,
  orderIds,
  orderPayload,
  orderProblems,
} from './order-payload.ts';

/** Creates an order with all that belongs to it (interface.md, POST /v3/orders). Its number is unique at the service. */
export const orderCreate = defineKind<OrderPayload>({
  name: 'order.create',
  schema: orderPayload,
  refused: {
    currency: 'is read-only at the service and cannot be sent',
    channelIdentifier: 'is read-only at the service and cannot be sent',
  },
  operation: 'v3.orders.create',
  notFoundMeansRoute: true,
  unknown: 'look up',
  doubtsRefusal: true,
  check: orderProblems,
  push: createOrder,
  lookUp: {
    stream: orders,
    find: findOrders,
    differs: ({ items }, resource) => linesDiffer(items, linesOf(resource)),
    resultOf,
    followUps,
    whenAbsent: 'send again',
  },
});

async function createOrder(payload: OrderPayload, context: PushContext): Promise<Pushed> {
  const ids = await orderIds(payload, context);
  if ('problems' in ids) throw new PayloadError(ids.problems);
  const answer = await context.send({
    operation: 'v3.orders.create',
    body: orderDocument(payload, ids, context.included),
  });
  const [created] = ordersIn(decodeDocument('v3.orders.create', answer.body, 'single'));
  const { externalOrderNumber } = created?.order.attributes ?? {};
  if (created === undefined || externalOrderNumber !== payload.externalOrderNumber)
    throw new WarehouseError('undecodable', 'v3.orders.create: the answer is of another order', { outcome: 'unknown' });
  const { resource, escaped } = created;
  return { result: resultOf(resource), reading: { stream: orders, resource, escaped }, followUps: followUps(payload) };
}

/** The first attachment goes along with the order; the others follow one by one. */
function followUps({ attachments }: OrderPayload) {
  return (attachments ?? []).slice(1).map((payload) => ({ kind: 'order_attachment.create', payload }));
}

function resultOf(resource: Resource): Pushed['result'] {
  const lines = linesOf(resource).map(({ id, sku }) => ({ id, sku }));
  const read = decodeWith(orderSchema, resource);
  return { orderId: 'value' in read ? read.value.id : null, orderItems: lines };
}

/** Lines of an order, as far as they can be read. */
export function linesOf(resource: Resource): { id: number; sku: string | null; quantity: number | null }[] {
  return findChildren(resource, 'orderItem', null, new Map()).resources.flatMap((item) => {
    const read = decodeWith(orderItemSchema, item);
    if ('problem' in read) return [];
    const { id, attributes } = read.value;
    return [{ id, sku: attributes.sku, quantity: attributes.quantity }];
  });
}
