import type { Operation } from '../../../../../config/operations.ts';
import { isObject } from '../../../../core/json.ts';
import { countryForm, localeForm, type OrderAttachment, type OrderPayload } from '../../../../payloads/order.ts';
import { findNumberProblems } from '../../../../payloads/rules.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../../payload/coded-members.ts';
import type { CheckContext, JsonObject } from '../../payload/kind.ts';
import { asNumber, findDocumentProblems, pickGiven } from '../../payload/payload.ts';
import { findAddressProblems } from './address-rules.ts';

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
export async function findOrderProblems(
  payload: JsonObject,
  reference: string,
  context: CheckContext,
): Promise<string[]> {
  const { attachments } = payload;
  const problems = findNumberProblems(payload, reference);
  for (const member of [orderTypeMember, methodMember])
    problems.push(...(await findCodeProblems(payload, member, context)));
  problems.push(...(await findListProblems(payload, context)));
  problems.push(...findAddressProblems(payload.deliveryAddress, context.operations['v3.orders.create']));
  for (const [index, entry] of (Array.isArray(attachments) ? attachments : []).entries())
    if (isObject(entry))
      problems.push(...(await findDocumentProblems(`attachments[${index}].content`, entry.content, context.signal)));
  return problems;
}

/**
 * Returns the problems of an order, or of a change, that the lists of the service show: its locale, its country, and
 * warehouses that do not offer its shipping method. Billing addresses are not compared, because nothing is shipped to them.
 */
export async function findListProblems(order: JsonObject, context: CheckContext): Promise<string[]> {
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
export async function findWarehouseProblems(order: JsonObject, { codes, signal }: CheckContext): Promise<string[]> {
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
    .map(({ path, warehouse }) => {
      const method = typeof code === 'string' ? code : found.id;
      return `${path}: shipping method ${method} is not offered in ${warehouse} (offered in: ${offered.join(', ')})`;
    });
}

/**
 * Returns the ids of the order type and the shipping method, which the payload names by id or code.
 * @throws PayloadError if a code has no single id
 */
export async function findOrderIds(
  payload: OrderPayload,
  context: CheckContext,
): Promise<{ orderTypeId: number | null; shippingMethodId: number | null }> {
  return {
    orderTypeId: await findNamedId(payload, orderTypeMember, context),
    shippingMethodId: await findNamedId(payload, methodMember, context),
  };
}

/** Provisional ids, which only link the addresses of one request (docs/interface.md, 7.2 Addresses). */
export const deliveryId = 1;
export const billingId = 2;
export const toLink = (type: string, id: number) => ({ data: { id, type } });

/** Assumptions about the body of POST /v3/orders (docs/assumptions.md). */
type OrderDocumentOptions = Pick<Operation, 'included' | 'billingAddress' | 'contentMember'>;

/** Returns the body of POST /v3/orders. */
export function buildOrderDocument(
  payload: OrderPayload,
  ids: { readonly orderTypeId: number | null; readonly shippingMethodId: number | null },
  options: OrderDocumentOptions,
): object {
  const { items, deliveryAddress, billingAddress: givenBilling, pickUpPoint, attachments, ...rest } = payload;
  const billingAddress = givenBilling ?? (options.billingAddress === 'omit' ? null : deliveryAddress);
  const {
    orderType: _type,
    orderTypeId: _typeId,
    shippingMethod: _method,
    shippingMethodId: _methodId,
    ...attributes
  } = rest;
  const first = attachments?.[0];
  const included = [
    ...items.map((line) => ({ type: 'orderItem', attributes: toItemAttributes(line) })),
    { type: 'address', id: deliveryId, attributes: pickGiven(deliveryAddress) },
    ...(billingAddress ? [{ type: 'address', id: billingId, attributes: pickGiven(billingAddress) }] : []),
    ...(pickUpPoint ? [{ type: 'pickUpPoint', attributes: pickUpPoint }] : []),
    ...(first
      ? [{ type: 'orderAttachment', attributes: toAttachmentAttributes(rest.externalOrderNumber, first, options) }]
      : []),
  ];
  const data = {
    type: 'order',
    attributes: {
      ...pickGiven(attributes),
      ...(attributes.metadata ? { metadata: pickGiven(attributes.metadata) } : {}),
    },
    relationships: {
      ...(ids.orderTypeId === null ? {} : { orderType: toLink('orderType', ids.orderTypeId) }),
      deliveryAddress: toLink('address', deliveryId),
      ...(billingAddress ? { billingAddress: toLink('address', billingId) } : {}),
      ...(pickUpPoint ? { pickUpPoint: { data: { type: 'pickUpPoint' } } } : {}),
      ...(ids.shippingMethodId === null
        ? {}
        : { preferredShippingMethod: toLink('shippingMethod', ids.shippingMethodId) }),
    },
  };
  return options.included === 'top' ? { data, included } : { data: { ...data, included } };
}

function toItemAttributes({ price, vat, metadata, ...others }: OrderPayload['items'][number]): object {
  return {
    ...pickGiven(others),
    ...(price === undefined || price === null ? {} : { price: asNumber(price) }),
    ...(vat === undefined || vat === null ? {} : { vat: asNumber(vat) }),
    ...(metadata ? { metadata: pickGiven(metadata) } : {}),
  };
}

/** Returns the attributes of an orderAttachment. The member `content` is assumed (docs/assumptions.md). */
export function toAttachmentAttributes(
  externalOrderNumber: string,
  { filename, content }: OrderAttachment,
  { contentMember = 'content' }: Pick<Operation, 'contentMember'>,
): object {
  const fixed = { contentType: 'application/pdf', printStrategy: 'REQUIRED', [contentMember]: content };
  return { externalOrderNumber, ...pickGiven({ filename }), ...fixed };
}
