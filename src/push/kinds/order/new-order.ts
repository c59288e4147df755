import type { Operation, Operations } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { orders } from '../../../pull/streams/orders.ts';
import {
  decodeDocument,
  findChildren,
  type Resource,
  readId,
} from '../../../service/decoding/jsonapi.ts';
import { describeLineDifference } from '../../answers.ts';
import {
  concludeOthersVersion,
  type FoundConclusion,
  type FoundResource,
  type JsonObject,
  type PushContext,
  type PushResult,
} from '../../kind.ts';
import { asNumber, pickGiven } from '../../payload.ts';
import { findNamedId } from '../../setting-codes.ts';
import type { PushTarget } from '../../sql/held-claims.ts';
import { productsOfItems } from '../product/product-save.ts';
import { readLines, readOrders } from './find-order.ts';
import {
  describeAddressDoubt,
  findOrderProblems,
  listDocuments,
  methodMember,
  type OrderAttachment,
  type OrderPayload,
  orderTypeMember,
} from './order-payload.ts';

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
  waitsFor: productsOfItems,
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

const othersNote =
  'the order existed before this row: only articles and quantities were compared, not addresses' +
  ' and the rest';

/** Decides what becomes of a row whose order a look-up found. */
export function concludeOrder(
  { resource }: FoundResource,
  payload: OrderPayload,
  isOthers: boolean,
  operations: Operations,
): FoundConclusion {
  const difference = isOthers ? describeLineDifference(payload.items, readLines(resource)) : null;
  if (difference !== null) return concludeOthersVersion(difference);

  const result = toCreateResult(resource, payload, operations);
  return { result: { ...result, ...(isOthers && { note: othersNote }) } };
}

/** Returns the `result` of a row, for the answer and for the order that a look-up found. */
function toCreateResult(
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

/**
 * Provisional ids, which only link the addresses of one request (docs/interface.md, 7.2 Addresses).
 */
const deliveryId = 1;
const billingId = 2;
const toLink = (type: string, id: number) => ({ data: { id, type } });

/** What an order links to: ids of the service, and members of the payload that are included. */
interface LinkedParts extends Pick<OrderPayload, 'billingAddress' | 'pickUpPoint'> {
  readonly deliveryAddress?: OrderPayload['deliveryAddress'] | undefined;
  readonly orderTypeId: number | null;
  readonly shippingMethodId: number | null;
}

/** Returns the relationships to the parts of an order, and those of its parts that are included. */
export function linkParts({
  orderTypeId,
  shippingMethodId,
  deliveryAddress,
  billingAddress,
  pickUpPoint,
}: LinkedParts): {
  readonly relationships: Readonly<Record<string, object>>;
  readonly included: readonly object[];
} {
  const relationships = {
    ...(orderTypeId !== null && { orderType: toLink('orderType', orderTypeId) }),
    ...(deliveryAddress && { deliveryAddress: toLink('address', deliveryId) }),
    ...(billingAddress && { billingAddress: toLink('address', billingId) }),
    ...(pickUpPoint && { pickUpPoint: { data: { type: 'pickUpPoint' } } }),
    ...(shippingMethodId !== null && {
      preferredShippingMethod: toLink('shippingMethod', shippingMethodId),
    }),
  };
  const included = [
    ...(deliveryAddress
      ? [{ type: 'address', id: deliveryId, attributes: pickGiven(deliveryAddress) }]
      : []),
    ...(billingAddress
      ? [{ type: 'address', id: billingId, attributes: pickGiven(billingAddress) }]
      : []),
    ...(pickUpPoint ? [{ type: 'pickUpPoint', attributes: pickUpPoint }] : []),
  ];
  return { relationships, included };
}

/** Assumptions about the body of POST /v3/orders (docs/assumptions.md). */
type OrderDocumentOptions = Pick<Operation, 'included' | 'billingAddress' | 'contentMember'>;

/** Returns the body of POST /v3/orders. */
export function buildOrderDocument(
  payload: OrderPayload,
  ids: Pick<LinkedParts, 'orderTypeId' | 'shippingMethodId'>,
  options: OrderDocumentOptions,
): object {
  const {
    items,
    deliveryAddress,
    billingAddress: givenBilling,
    pickUpPoint,
    attachments,
    ...others
  } = payload;

  const {
    orderType: _type,
    orderTypeId: _typeId,
    shippingMethod: _method,
    shippingMethodId: _id,
    ...rest
  } = others;

  const billingAddress =
    givenBilling ?? (options.billingAddress === 'omit' ? null : deliveryAddress);
  const linked = linkParts({ ...ids, deliveryAddress, billingAddress, pickUpPoint });
  const included = [
    ...items.map((line) => ({ type: 'orderItem', attributes: toItemAttributes(line) })),
    ...linked.included,
    ...(attachments ?? []).slice(0, 1).map((first) => ({
      type: 'orderAttachment',
      attributes: toAttachmentAttributes(rest.externalOrderNumber, first, options),
    })),
  ];
  const attributes = {
    ...pickGiven(rest),
    ...(rest.metadata ? { metadata: pickGiven(rest.metadata) } : {}),
  };

  const data = { type: 'order', attributes, relationships: linked.relationships };

  return options.included === 'top' ? { data, included } : { data: { ...data, included } };
}

function toItemAttributes({
  price,
  vat,
  metadata,
  ...others
}: OrderPayload['items'][number]): object {
  return {
    ...pickGiven(others),
    ...(price === undefined || price === null ? {} : { price: asNumber(price) }),
    ...(vat === undefined || vat === null ? {} : { vat: asNumber(vat) }),
    ...(metadata ? { metadata: pickGiven(metadata) } : {}),
  };
}

/**
 * Returns the attributes of an orderAttachment. The member `content` is assumed
 * (docs/assumptions.md).
 */
export function toAttachmentAttributes(
  externalOrderNumber: string,
  { filename, content }: OrderAttachment,
  { contentMember = 'content' }: Pick<Operation, 'contentMember'>,
): object {
  const fixed = {
    contentType: 'application/pdf',
    printStrategy: 'REQUIRED',
    [contentMember]: content,
  };
  return { externalOrderNumber, ...pickGiven({ filename }), ...fixed };
}
