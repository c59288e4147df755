import type { Operations } from '../../../../../config/operations.ts';
import { makeUndecodableError } from '../../../../core/errors.ts';
import type { PushTarget } from '../../../../erp/outbox/held-claims.ts';
import type { OrderPayload } from '../../../../payloads/order.ts';
import { decodeRow } from '../../../../warehouse/decoding/fields.ts';
import { decodeDocument, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import { order, orders } from '../../../streams/orders.ts';
import type { JsonObject, PushContext, PushResult } from '../../payload/kind.ts';
import { pickGiven } from '../../payload/payload.ts';
import { describeAddressDoubt } from './address-rules.ts';
import { readOrders } from './find-order.ts';
import { readLines } from './order-answers.ts';
import { buildOrderDocument, findOrderIds, findOrderProblems } from './order-payload.ts';

/** Members of the older order operation that v3 lacks (docs/interface.md, 15.2 Add order: fields), with what to do instead. */
const olderMembers = {
  'in v3 it is read-only': ['currency'],
  'name the warehouse by its code, in fulfillFrom': ['warehouseId', 'items.warehouseId'],
  'give the language and region in locale': ['languageId'],
  'it is deprecated there': ['paymentMethodId', 'bankAccountNumber', 'bankAccountHolderName', 'bankAccountCityName'],
  'an address of v3 has no such member': ['deliveryAddress', 'billingAddress'].flatMap((name) =>
    ['ExtraName', 'Region', 'ExtraAddress'].flatMap((part) => [
      `${name}${part}`,
      `${name}.${part.charAt(0).toLowerCase()}${part.slice(1)}`,
    ]),
  ),
};
const olderRefusals = Object.entries(olderMembers).flatMap(([remedy, names]) =>
  names.map((name) => [name, `exists only in the older order operation, which this program does not call; ${remedy}`]),
);

/** What every kind that creates an order has. */
export const creationRules = {
  refused: {
    channelIdentifier: 'is read-only at the service and cannot be sent',
    ...(Object.fromEntries(olderRefusals) as Record<string, string>),
  },
  // An attachment that goes with the order has the members of one that is sent alone.
  optional: (operations: Operations) => [
    ...(operations['v3.orders.create'].optional ?? []),
    ...(operations['v3.orderAttachments.create'].optional ?? []).map((member) => `attachments.${member}`),
  ],
  notFoundMeansRoute: true,
  check: findOrderProblems,
  // The first attachment is sent with the order, the others become follow-ups.
  followUps: ({ attachments }: JsonObject) =>
    Array.isArray(attachments)
      ? attachments.slice(1).map((payload) => ({ kind: 'order_attachment.create', payload }))
      : [],
  // The products of the order must exist first (docs/interface.md, 16.3 Rules).
  waitsFor: { kind: 'product.save', family: 'product', list: 'items', member: 'sku' },
};

/** Sends a new order. */
export async function sendOrder(payload: OrderPayload, context: PushContext, target?: PushTarget): Promise<PushResult> {
  const ids = await findOrderIds(payload, context);
  const { 'v3.orders.create': options, 'v3.orderAttachments.create': attaching } = context.operations;
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
  { deliveryAddress }: OrderPayload,
  operations: Operations,
): PushResult['result'] {
  const lines = readLines(resource).map(({ id, sku }) => ({ id, sku }));
  const read = decodeRow(order, resource);
  const note = describeAddressDoubt(deliveryAddress, operations['v3.orders.create']);
  return {
    orderId: 'row' in read ? read.row.id : null,
    orderItems: lines,
    ...(note === null ? {} : { note }),
  };
}
