import type { Operation, Operations } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { isObject, type Json } from '../../../core/json.ts';
import { orders } from '../../../pull/streams/orders.ts';
import {
  decodeDocument,
  findChildren,
  type Resource,
  readId,
} from '../../../service/decoding/jsonapi.ts';
import {
  type CheckContext,
  type JsonObject,
  maxProblems,
  type PushContext,
  type PushResult,
} from '../../kind.ts';
import { asNumber, findDocumentProblems, pickGiven } from '../../payload.ts';
import {
  countryForm,
  listHouseNumberCountries,
  listPostcodeCountries,
  localeForm,
  type OrderAttachment,
  type OrderPayload,
} from '../../payloads/order.ts';
import { type CodedMember, findCodeProblems, findNamedId, nameCode } from '../../setting-codes.ts';
import type { PushTarget } from '../../sql/held-claims.ts';
import { readLines, readOrders } from './find-order.ts';

export const orderTypeMember: CodedMember = {
  list: 'orderTypes',
  byCode: 'orderType',
  byId: 'orderTypeId',
  required: true,
};
export const methodMember: CodedMember = {
  list: 'mainShippingMethods',
  byCode: 'shippingMethod',
  byId: 'shippingMethodId',
  required: false,
};

/** Returns the problems of an order that the schema cannot find. */
async function findOrderProblems(
  payload: JsonObject,
  reference: string,
  context: CheckContext,
): Promise<string[]> {
  const { attachments, externalOrderNumber: number } = payload;
  const problems: string[] = [];
  // Lanes are made of references.
  if (typeof number === 'string' && number !== reference)
    problems.push(
      `externalOrderNumber: must equal the reference of the row, ${JSON.stringify(reference)}`,
    );
  for (const member of [orderTypeMember, methodMember])
    for (const problem of await findCodeProblems(payload, member, context)) problems.push(problem);
  for (const problem of await findListProblems(payload, context)) problems.push(problem);
  for (const problem of findAddressProblems(payload.deliveryAddress, context.operations))
    problems.push(problem);
  return [...problems, ...(await findAttachmentProblems(attachments, context.signal))];
}

/**
 * Returns the problem of the first attachment that has one. The others are not read: a hostile
 * document takes its reader half a minute.
 */
async function findAttachmentProblems(
  attachments: Json | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  for (const [index, entry] of (Array.isArray(attachments) ? attachments : []).entries()) {
    if (!isObject(entry)) continue;
    const problems = await findDocumentProblems(
      `attachments[${index}].content`,
      entry.content,
      signal,
    );
    if (problems.length > 0) return problems;
  }
  return [];
}

/**
 * Returns the problems of an order, or of a change, that the lists of the service show: its locale,
 * its country, and warehouses that do not offer its shipping method. Billing addresses are not
 * compared, because nothing is shipped to them.
 */
export async function findListProblems(
  order: JsonObject,
  context: CheckContext,
): Promise<string[]> {
  const { codes, signal } = context;
  const { locale, deliveryAddress } = order;
  const countryCode = isObject(deliveryAddress) ? deliveryAddress.countryCode : undefined;
  const problems: string[] = [];
  for (const [path, list, code, form] of [
    ['locale', 'languages', locale, localeForm],
    ['deliveryAddress.countryCode', 'countries', countryCode, countryForm],
  ] as const) {
    // The schema reports a code of another form.
    if (typeof code !== 'string' || !form.test(code)) continue;
    const problem = await codes.findListProblem(list, code, form, signal);
    if (problem !== null) problems.push(`${path}: ${problem}`);
  }
  return [...problems, ...(await findWarehouseProblems(order, context))];
}

/** Returns the problems of warehouses that do not offer the shipping method of an order. */
export async function findWarehouseProblems(
  order: JsonObject,
  { codes, signal }: CheckContext,
): Promise<string[]> {
  const { shippingMethod: code, shippingMethodId: id, items } = order;
  const found =
    typeof code === 'string' && code !== ''
      ? await codes.find(methodMember.list, code, methodMember.byId, signal)
      : { id };
  const named = [order, ...(Array.isArray(items) ? items : [])].flatMap((value, index) => {
    const warehouse = isObject(value) ? value.fulfillFrom : undefined;
    const path = index === 0 ? 'fulfillFrom' : `items[${index - 1}].fulfillFrom`;
    return typeof warehouse === 'string' && warehouse !== '' ? [{ path, warehouse }] : [];
  });
  if ('problem' in found || typeof found.id !== 'number' || named.length === 0) return [];
  const wanted = [...new Set(named.map(({ warehouse }) => warehouse))];
  const offered = await codes.findWarehouses(found.id, wanted, signal);
  if (offered.length === 0) return [];
  return named
    .filter(({ warehouse }) => !offered.includes(warehouse))
    .slice(0, maxProblems + 1)
    .map(({ path, warehouse }) => {
      const method = typeof code === 'string' ? nameCode(code) : found.id;
      return `${path}: shipping method ${method} is not offered in ${nameCode(warehouse)} (offered in: ${offered.join(', ')})`;
    });
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

/** Matches a street that ends with a house number. The service takes the number from there. */
const endsWithNumber = /\d{1,5}(\s?[-/]?\s?[a-z]{1,4})?(\s?[-/]\s?\d{1,4}[a-z]?)?$/i;

/** Returns the problems of the delivery address. Nothing is shipped to the other addresses. */
export function findAddressProblems(lines: Json | undefined, operations: Operations): string[] {
  if (!isObject(lines)) return [];
  const { countryCode, houseNumber, street1, postcode } = lines;
  if (typeof countryCode !== 'string') return [];

  const problems: string[] = [];
  const isNumbered = !isEmpty(houseNumber) || (typeof street1 === 'string' && /\d/.test(street1));
  if (listHouseNumberCountries(operations).includes(countryCode) && !isNumbered)
    problems.push(
      `deliveryAddress.houseNumber: is required for ${countryCode}, unless street1 has it`,
    );
  if (listPostcodeCountries(operations).includes(countryCode) && isEmpty(postcode))
    problems.push(`deliveryAddress.postcode: is required for ${countryCode}`);

  return problems;
}

const isEmpty = (value: Json | undefined) =>
  value === undefined || value === null || String(value).trim() === '';

/**
 * Returns a note for an order whose house number the service may not find, because it is in the
 * street but not at its end; null if there is no such doubt (docs/interface.md, 15.3 Add order:
 * rules).
 */
export function describeAddressDoubt(
  { countryCode, houseNumber, street1 }: OrderPayload['deliveryAddress'],
  operations: Operations,
): string | null {
  const isNeeded = listHouseNumberCountries(operations).includes(countryCode ?? '');
  if (!isNeeded || !isEmpty(houseNumber) || endsWithNumber.test(street1 ?? '')) return null;
  return 'deliveryAddress.houseNumber is missing and street1 does not end with a number; check the address at the service';
}

/** What every kind that creates an order has. */
export const creationRules = {
  notFoundMeansRoute: true,
  check: findOrderProblems,
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
