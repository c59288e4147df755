import { z } from 'zod';
import type { Operation } from '../../../../../config/operations.ts';
import { isObject, type Json } from '../../../../core/json.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../../payload/coded-members.ts';
import type { CheckContext } from '../../payload/kind.ts';
import {
  asNumber,
  assumedRequired,
  day,
  decimal,
  documentContent,
  findDocumentProblems,
  idNumber,
  optionalText,
  personal,
  personalText,
  pickGiven,
  quantity,
  requiredText,
  textsNamed,
} from '../../payload/payload.ts';
import { findAddressProblems } from './address-rules.ts';

export const address = z.strictObject({
  firstName: personalText,
  prefix: personalText,
  lastName: assumedRequired(requiredText.meta(personal)),
  street1: assumedRequired(requiredText.meta(personal)),
  houseNumber: personalText,
  houseNumberExtension: personalText,
  postcode: personalText,
  city: personalText,
  countryCode: assumedRequired(z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters, such as NL')),
});

const item = z.strictObject({
  sku: assumedRequired(requiredText),
  quantity: assumedRequired(quantity),
  price: decimal.nullish(),
  vat: decimal.nullish(),
  name: optionalText,
  fulfillFrom: optionalText,
  channelIdentifier: optionalText,
  metadata: textsNamed('serviceLevel', 'purchases', 'reference', 'extra6', 'extra7'),
});

/** The members of an attachment that every order attachment has. */
const attachment = z.strictObject({
  filename: assumedRequired(requiredText.meta(personal)),
  content: documentContent,
});

/**
 * Payload of order.create (docs/interface.md, 7.1 Fields and 7.6 Create). A null member is the same as an absent one.
 */
export const orderPayload = z.strictObject({
  externalOrderNumber: z.string().min(1, 'must have 1 to 50 characters').max(50, 'must have 1 to 50 characters'),
  orderType: requiredText.nullish().meta({ description: 'code of the settings list orderTypes' }),
  orderTypeId: idNumber.nullish(),
  shippingMethod: requiredText.nullish().meta({ description: 'code of the settings list mainShippingMethods' }),
  shippingMethodId: idNumber.nullish(),
  locale: assumedRequired(z.string().regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a language and a region, such as nl-NL')),
  email: personalText,
  phoneNumber: personalText,
  vatNumber: personalText,
  reference: optionalText,
  consumerReference: personalText,
  promotionCode: optionalText,
  orderedOn: day.nullish(),
  fulfillFrom: optionalText,
  preferredShippingDate: day.nullish(),
  allowPartialDelivery: z.boolean().nullish(),
  onHold: z.boolean().nullish(),
  metadata: textsNamed('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
  items: z.array(item).min(1, 'must have at least one entry'),
  deliveryAddress: address,
  billingAddress: address.nullish(),
  pickUpPoint: z.record(z.string(), z.unknown()).nullish().meta(personal),
  attachments: z.array(attachment).nullish(),
});
export type OrderPayload = z.infer<typeof orderPayload>;

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
  payload: { readonly [member: string]: Json },
  reference: string,
  context: CheckContext,
): Promise<string[]> {
  const { externalOrderNumber: number, attachments } = payload;
  const problems: string[] = [];
  if (typeof number === 'string' && number !== reference)
    problems.push(`externalOrderNumber: must equal the reference of the row, ${reference}`);
  for (const member of [orderTypeMember, methodMember])
    problems.push(...(await findCodeProblems(payload, member, context)));
  problems.push(...findAddressProblems(payload.deliveryAddress, context.operations['v3.orders.create']));
  for (const [index, entry] of (Array.isArray(attachments) ? attachments : []).entries())
    if (isObject(entry))
      problems.push(...(await findDocumentProblems(`attachments[${index}].content`, entry.content, context.signal)));
  return problems;
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
  { filename, content }: z.infer<typeof attachment>,
  { contentMember = 'content' }: Pick<Operation, 'contentMember'>,
): object {
  const fixed = { contentType: 'application/pdf', printStrategy: 'REQUIRED', [contentMember]: content };
  return { externalOrderNumber, ...pickGiven({ filename }), ...fixed };
}
