import type { Operations } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { orders } from '../../../pull/streams/orders.ts';
import {
  decodeDocument,
  findChildren,
  type Resource,
  readId,
} from '../../../service/decoding/jsonapi.ts';
import type { JsonObject, PushContext, PushResult } from '../../kind.ts';
import { pickGiven } from '../../payload.ts';
import type { OrderPayload } from '../../payloads/order.ts';
import { findNamedId } from '../../setting-codes.ts';
import type { PushTarget } from '../../sql/held-claims.ts';
import { readLines, readOrders } from './find-order.ts';
import {
  describeAddressDoubt,
  findOrderProblems,
  listDocuments,
  methodMember,
  orderTypeMember,
} from './order-problems.ts';
import { buildOrderDocument } from './order-request.ts';

/** What every kind that creates an order has. */
export const creationRules = {
  notFoundMeansRoute: true,
  check: findOrderProblems,
  documents: listDocuments,
  // The first attachment is sent with the order, the others become follow-ups.
  followUps: ({ attachments }: JsonObject) =>
    Array.isArray(attachments)
      ? attachments.slice(1).map((payload) => ({ kind: 'order_attachment.create', payload }))
      : [],
  document: { kind: 'order_attachment', path: ['attachments', '0'] },
  // The products of the order must exist first (docs/interface.md, 16.3 Rules).
  waitsFor: { kind: 'product.save', family: 'product', list: 'items', member: 'sku' },
} as const;

/** Sends a new order. */
export async function sendOrder(
  payload: OrderPayload,
  context: PushContext,
  target?: PushTarget,
): Promise<PushResult> {
  const ids = {
    orderTypeId: await findNamedId(payload, orderTypeMember, context),
    shippingMethodId: await findNamedId(payload, methodMember, context),
  };
  const { 'v3.orders.create': options, 'v3.orderAttachments.create': attaching } =
    context.operations;
  const contentMember = pickGiven({ contentMember: attaching.contentMember });
  const body = buildOrderDocument(payload, ids, { ...contentMember, ...options });
  const answer = await context.send({ operation: 'v3.orders.create', body }, target);
  const [created] = readOrders(decodeDocument('v3.orders.create', answer.body, 'single'));
  if (created === undefined || created.order.external_order_number !== payload.externalOrderNumber)
    throw makeUndecodableError('v3.orders.create: the answer describes another order');
  const { resource, escaped } = created;
  return {
    result: toCreateResult(resource, payload, context.operations),
    reading: { stream: orders, resource, escaped },
  };
}

/** Returns the `result` of a row, for the answer and for the order that a look-up found. */
export function toCreateResult(
  resource: Resource,
  { deliveryAddress, attachments }: OrderPayload,
  operations: Operations,
): PushResult['result'] {
  const note = describeAddressDoubt(deliveryAddress, operations);
  const attachmentId = attachments?.length ? readAttachmentId(resource) : null;

  return {
    orderId: readId(resource),
    orderItems: readLines(resource).map(({ id, sku }) => ({ id, sku })),
    ...(attachmentId === null ? {} : { orderAttachmentId: attachmentId }),
    ...(note === null ? {} : { note }),
  };
}

/**
 * Returns the id of the attachment that went with an order; null if the answer does not show
 * exactly one.
 */
function readAttachmentId(order: Resource): number | null {
  const { resources } = findChildren(order, 'orderAttachment', null, new Map());

  return resources.length === 1 ? readId(resources[0] ?? null) : null;
}
