import { undecodableAnswer } from '../../../../core/errors.ts';
import { decodeDocument, decodeWith, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import { orderSchema } from '../../../../warehouse/decoding/v3-orders.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, PayloadError, type PushContext, type Pushed } from '../../payload/kind.ts';
import { ordersIn } from './find-order.ts';
import { findOrders } from './look-up-orders.ts';
import { linesOf } from './order-answers.ts';
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
  check: orderProblems,
  push: createOrder,
  unknown: {
    do: 'look up',
    lookUp: {
      stream: orders,
      find: findOrders,
      differs: ({ items }, resource) => linesDiffer(items, linesOf(resource)),
      resultOf,
      whenAbsent: 'resend',
      doubtsRefusal: true,
    },
  },
  // The first attachment is sent with the order.
  followUps: ({ attachments }) =>
    Array.isArray(attachments)
      ? attachments.slice(1).map((payload) => ({ kind: 'order_attachment.create', payload }))
      : [],
  // A product has to exist before an order names it (interface.md, Rules of the oldest generation).
  waitsFor: { kind: 'product.save', family: 'product', list: 'items', member: 'sku' },
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
    throw undecodableAnswer('v3.orders.create: the answer is of another order');
  const { resource, escaped } = created;
  return { result: resultOf(resource), reading: { stream: orders, resource, escaped } };
}

function resultOf(resource: Resource): Pushed['result'] {
  const lines = linesOf(resource).map(({ id, sku }) => ({ id, sku }));
  const read = decodeWith(orderSchema, resource);
  return { orderId: 'value' in read ? read.value.id : null, orderItems: lines };
}
