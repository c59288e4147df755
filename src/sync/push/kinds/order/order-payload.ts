import { z } from 'zod';
import { isObject, type Json } from '../../../../core/json.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../../payload/coded-members.ts';
import type { CheckContext } from '../../payload/kind.ts';
import {
  asNumber,
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

export const address = z.strictObject({
  firstName: personalText,
  prefix: personalText,
  lastName: requiredText.meta(personal),
  street1: requiredText.meta(personal),
  houseNumber: personalText,
  houseNumberExtension: personalText,
  postcode: personalText,
  city: personalText,
  countryCode: z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters, such as NL'),
});

const item = z.strictObject({
  sku: requiredText,
  quantity,
  price: decimal.nullish(),
  vat: decimal.nullish(),
  name: optionalText,
  fulfillFrom: optionalText,
  channelIdentifier: optionalText,
  metadata: textsNamed('serviceLevel', 'purchases', 'reference', 'extra6', 'extra7'),
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
  locale: z.string().regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a language and a region, such as nl-NL'),
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
  attachments: z.array(z.strictObject({ filename: requiredText.meta(personal), content: documentContent })).nullish(),
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

/** Countries that need a house number and a postcode (docs/interface.md, 15.3 Add order: rules). */
const addressRules = new Set(['NL', 'BE', 'DE']);
/** Matches a street that ends with a house number. The service takes the number from there. */
const endsWithNumber = /\d{1,5}(\s?[-/]?\s?[a-z]{1,4})?(\s?[-/]\s?\d{1,4}[a-z]?)?$/i;

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
  problems.push(...findAddressProblems(payload.deliveryAddress));
  for (const [index, entry] of (Array.isArray(attachments) ? attachments : []).entries())
    if (isObject(entry))
      problems.push(...(await findDocumentProblems(`attachments[${index}].content`, entry.content, context.signal)));
  return problems;
}

/**
 * Returns the problems of the delivery address. The other addresses are not checked, because nothing is shipped to
 * them.
 */
export function findAddressProblems(lines: Json | undefined): string[] {
  if (!isObject(lines)) return [];
  const { countryCode, houseNumber, street1, postcode } = lines;
  if (typeof countryCode !== 'string' || !addressRules.has(countryCode)) return [];
  const problems: string[] = [];
  if (isEmpty(houseNumber) && !(typeof street1 === 'string' && /\d/.test(street1)))
    problems.push(`deliveryAddress.houseNumber: is required for ${countryCode}, unless street1 has it`);
  if (isEmpty(postcode)) problems.push(`deliveryAddress.postcode: is required for ${countryCode}`);
  return problems;
}

const isEmpty = (value: Json | undefined) => value === undefined || value === null || String(value).trim() === '';

/**
 * Returns a note for an order whose house number the service may not find, because it is in the street but not at its end; null if
 * there is no such doubt (docs/interface.md, 15.3 Add order: rules).
 */
export function describeAddressDoubt({
  countryCode,
  houseNumber,
  street1,
}: OrderPayload['deliveryAddress']): string | null {
  if (!addressRules.has(countryCode) || !isEmpty(houseNumber) || endsWithNumber.test(street1)) return null;
  return 'deliveryAddress.houseNumber is missing and street1 does not end with a number; check the address at the service';
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
interface OrderDocumentOptions {
  readonly included: 'inside' | 'top';
  /** What is sent for an order without a billing address. */
  readonly billingAddress?: 'copy' | 'omit';
}

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
  const attachment = attachments?.[0];
  const included = [
    ...items.map((line) => ({ type: 'orderItem', attributes: toItemAttributes(line) })),
    { type: 'address', id: deliveryId, attributes: pickGiven(deliveryAddress) },
    ...(billingAddress ? [{ type: 'address', id: billingId, attributes: pickGiven(billingAddress) }] : []),
    ...(pickUpPoint ? [{ type: 'pickUpPoint', attributes: pickUpPoint }] : []),
    ...(attachment
      ? [{ type: 'orderAttachment', attributes: toAttachmentAttributes(attributes.externalOrderNumber, attachment) }]
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
  return options.included === 'inside' ? { data: { ...data, included } } : { data, included };
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
  { filename, content }: { readonly filename: string; readonly content: string },
): { [member: string]: Json } {
  return { externalOrderNumber, filename, contentType: 'application/pdf', printStrategy: 'REQUIRED', content };
}

/** Compares lines by sku and quantity. Returns the difference in words; null if they are equal. */
export function describeLineDifference(
  asked: readonly { readonly sku: string; readonly quantity: number }[],
  found: readonly { readonly sku: string | null; readonly quantity: number | null }[],
): string | null {
  const text = (lines: readonly { readonly sku: string | null; readonly quantity: number | null }[]) => {
    const sums = new Map<string, number>();
    for (const { sku, quantity } of lines) sums.set(sku ?? '', (sums.get(sku ?? '') ?? 0) + (quantity ?? 0));
    return [...sums]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([sku, sum]) => `${sum} x ${sku}`)
      .join(', ');
  };
  return text(asked) === text(found)
    ? null
    : `it has ${text(found) || 'no lines'}, but the row asks for ${text(asked)}`;
}
