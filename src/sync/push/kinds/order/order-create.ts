import type { Operations } from '../../../../../config/operations.ts';
import { makeUndecodableError } from '../../../../core/errors.ts';
import { type OrderPayload, orderPayload } from '../../../../payloads/order.ts';
import { decodeDocument, decodeWith, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import { orderSchema } from '../../../../warehouse/decoding/v3.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, type PushContext, type PushResult } from '../../payload/kind.ts';
import { describeLineDifference } from '../../payload/line-difference.ts';
import { pickGiven } from '../../payload/payload.ts';
import { describeAddressDoubt } from './address-rules.ts';
import { readOrders } from './find-order.ts';
import { findOrders } from './look-up-orders.ts';
import { readLines } from './order-answers.ts';
import { buildOrderDocument, findOrderIds, findOrderProblems } from './order-payload.ts';

/**
 * Creates an order with everything that belongs to it (docs/interface.md, 7.6 Create). Its number is unique at the
 * service.
 */
export const orderCreate = defineKind<OrderPayload>({
  name: 'order.create',
  schema: orderPayload,
  refused: {
    currency: 'is read-only at the service and cannot be sent',
    channelIdentifier: 'is read-only at the service and cannot be sent',
  },
  operation: 'v3.orders.create',
  // An attachment that goes with the order has the members of one that is sent alone.
  optional: (operations) => [
    ...(operations['v3.orders.create'].optional ?? []),
    ...(operations['v3.orderAttachments.create'].optional ?? []).map((member) => `attachments.${member}`),
  ],
  notFoundMeansRoute: true,
  check: findOrderProblems,
  push: createOrder,
  unknown: {
    do: 'look up',
    lookUp: {
      stream: orders,
      find: findOrders,
      differs: ({ items }, resource) => describeLineDifference(items, readLines(resource)),
      resultOf: toResult,
      whenAbsent: 'resend',
      doubtsRefusal: true,
    },
  },
  // The first attachment is sent with the order, the others become follow-ups.
  followUps: ({ attachments }) =>
    Array.isArray(attachments)
      ? attachments.slice(1).map((payload) => ({ kind: 'order_attachment.create', payload }))
      : [],
  // The products of the order must exist first (docs/interface.md, 16.3 Rules).
  waitsFor: { kind: 'product.save', family: 'product', list: 'items', member: 'sku' },
});

async function createOrder(payload: OrderPayload, context: PushContext): Promise<PushResult> {
  const ids = await findOrderIds(payload, context);
  const { 'v3.orders.create': options, 'v3.orderAttachments.create': attaching } = context.operations;
  const answer = await context.send({
    operation: 'v3.orders.create',
    body: buildOrderDocument(payload, ids, { ...pickGiven({ contentMember: attaching.contentMember }), ...options }),
  });
  const [created] = readOrders(decodeDocument('v3.orders.create', answer.body, 'single'));
  const { externalOrderNumber } = created?.order.attributes ?? {};
  if (created === undefined || externalOrderNumber !== payload.externalOrderNumber)
    throw makeUndecodableError('v3.orders.create: the answer describes another order');
  const { resource, escaped } = created;
  return {
    result: toResult(resource, payload, context.operations),
    reading: { stream: orders, resource, escaped },
  };
}

/** Returns the `result` of a row, for the answer and for the order that a look-up found. */
function toResult(resource: Resource, { deliveryAddress }: OrderPayload, operations: Operations): PushResult['result'] {
  const lines = readLines(resource).map(({ id, sku }) => ({ id, sku }));
  const read = decodeWith(orderSchema, resource);
  const note = describeAddressDoubt(deliveryAddress, operations['v3.orders.create']);
  return {
    orderId: 'value' in read ? read.value.id : null,
    orderItems: lines,
    ...(note === null ? {} : { note }),
  };
}
