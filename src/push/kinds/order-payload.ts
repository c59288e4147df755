import { z } from 'zod';
import type { Operation, Operations } from '../../../config/operations.ts';
import { isObject, type Json } from '../../core/json.ts';
import {
  type CheckFacts,
  type JsonObject,
  type KnownCodes,
  maxProblems,
  type PayloadDocument,
  type PayloadProblem,
  problemAt,
} from '../kind.ts';
import {
  anyMembers,
  asNumber,
  codeOf,
  day,
  decimal,
  documentContent,
  idNumber,
  linkTo,
  makeBody,
  noOuterBlank,
  optionalText,
  personal,
  personalText,
  pickAttributes,
  pickGiven,
  quantity,
  type RequireMember,
  rate,
  refusing,
  requiredText,
  requireUnless,
  textsNamed,
} from '../payload.ts';
import {
  type CodedMember,
  findCode,
  findCodeProblems,
  findListProblem,
  findWarehouses,
  nameCode,
} from '../setting-codes.ts';

/**
 * The form of a locale. The codes of the list `languages` are compared with it if all of them have
 * this form.
 */
const localeForm = /^[a-z]{2}-[A-Z]{2}$/;
export const locale = z
  .string()
  .regex(localeForm, 'must be a language and a region, such as nl-NL')
  .meta(codeOf('languages'));
/**
 * The form of a country code. The codes of the list `countries` are compared with it if all of them
 * have this form.
 */
const countryForm = /^[A-Z]{2}$/;
const countryCode = z
  .string()
  .regex(countryForm, 'must be a country code of two letters, such as NL');

/** Members that an order and a change of it share. */
export const sharedMembers = {
  email: z
    .string()
    .nullish()
    .meta({ ...personal, description: 'null or none: the service uses its no-reply address' }),
  phoneNumber: personalText,
  vatNumber: personalText,
  reference: optionalText,
  consumerReference: personalText,
  promotionCode: optionalText,
  fulfillFrom: optionalText,
  preferredShippingDate: day.nullish(),
  allowPartialDelivery: z
    .boolean()
    .nullish()
    .meta({ description: 'null: the default of the order type' }),
  metadata: textsNamed('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
};
export const orderNumber = z
  .string()
  .min(1, 'must have 1 to 50 characters')
  .max(50, 'must have 1 to 50 characters')
  .refine((number) => number.trim() === number, noOuterBlank);

/** Returns how the members of a new order, and of its parts, are required. */
const requireOrderMembers = (operations: Operations) =>
  requireUnless(operations['v3.orders.create'].optional);

/** Returns the schema of an address, which is the member `name` of an order or of a change. */
function makeAddress(name: string, require: RequireMember, country: z.ZodType<string>) {
  return z.strictObject({
    firstName: personalText,
    prefix: personalText,
    lastName: require(`${name}.lastName`, requiredText.meta(personal)),
    street1: require(`${name}.street1`, requiredText.meta(personal)),
    houseNumber: personalText,
    houseNumberExtension: personalText,
    postcode: personalText,
    city: personalText,
    countryCode: require(`${name}.countryCode`, country),
  });
}

/** Returns the schemas of the addresses of an order: where the goods go, and who pays. */
export function makeAddresses(operations: Operations) {
  const require = requireOrderMembers(operations);

  return {
    deliveryAddress: makeAddress('deliveryAddress', require, countryCode.meta(codeOf('countries'))),
    billingAddress: makeAddress('billingAddress', require, countryCode),
  };
}

/** Returns the schema of an attachment, which is sent with its order, or alone. */
export function makeAttachment(operations: Operations) {
  const require = requireUnless(operations['v3.orderAttachments.create'].optional);

  return z.strictObject({
    filename: require('filename', requiredText.meta(personal)),
    content: documentContent,
    contentType: z.literal('application/pdf', 'must be application/pdf').nullish(),
    printStrategy: z.literal('REQUIRED', 'must be REQUIRED').nullish(),
  });
}
export type OrderAttachment = z.infer<ReturnType<typeof makeAttachment>>;

/** Returns the schema of a line of an order. */
function makeOrderLine(require: RequireMember) {
  return z.strictObject({
    sku: require('items.sku', requiredText),
    quantity: require('items.quantity', quantity),
    price: decimal.nullish(),
    vat: rate.nullish(),
    name: optionalText,
    fulfillFrom: optionalText,
    channelIdentifier: optionalText,
    metadata: textsNamed('serviceLevel', 'purchases', 'reference', 'extra6', 'extra7'),
  });
}

/** What an order names by a code or an id, besides its addresses. */
export const orderLinks = {
  orderType: requiredText.nullish().meta(codeOf('orderTypes')),
  orderTypeId: idNumber.nullish(),
  shippingMethod: requiredText.nullish().meta(codeOf('mainShippingMethods')),
  shippingMethodId: idNumber.nullish(),
};

/**
 * Returns the schema of a new order (docs/interface.md, 7.1 Fields and 7.6 Create). Null is the
 * same as absent.
 */
export function makeOrderPayload(operations: Operations) {
  const require = requireOrderMembers(operations);
  const { deliveryAddress, billingAddress } = makeAddresses(operations);
  const members = {
    externalOrderNumber: orderNumber,
    ...orderLinks,
    locale: require('locale', locale),
    ...sharedMembers,
    orderedOn: day.nullish(),
    onHold: z.boolean().nullish(),
    items: z.array(makeOrderLine(require)).min(1, 'must have at least one entry'),
    deliveryAddress,
    billingAddress: billingAddress.nullish(),
    pickUpPoint: anyMembers,
    attachments: z.array(makeAttachment(operations)).nullish(),
  };

  return z.strictObject(members).meta({
    ...refusing({
      channelIdentifier: 'is read-only at the service and cannot be sent',
      ...olderMembers,
    }),
    // The view order_overview reads it.
    'x-house-number-countries': [...listHouseNumberCountries(operations)],
  });
}
export type OrderPayload = z.infer<ReturnType<typeof makeOrderPayload>>;

/**
 * Countries that need a house number and a postcode, unless switches name others. "Most other
 * countries" need a postcode, too (docs/interface.md, 15.3 Add order: rules), but it does not say
 * which.
 */
const defaultCountries: readonly string[] = ['NL', 'BE', 'DE'];

/** Returns the countries whose delivery addresses need a house number, also within the street. */
const listHouseNumberCountries = (operations: Operations): readonly string[] =>
  operations['v3.orders.create'].houseNumberCountries ?? defaultCountries;

/** Returns the countries whose delivery addresses need a postcode. */
const listPostcodeCountries = (operations: Operations): readonly string[] =>
  operations['v3.orders.create'].postcodeCountries ?? defaultCountries;

/** Members of the older order operation that v3 lacks, with what to do instead. */
const olderMembers = {
  currency: 'is read-only at the service and cannot be sent',
  ...Object.fromEntries(
    ['warehouseId', 'items.warehouseId'].map((name) => [
      name,
      'is not a member of v3; name the warehouse by its code, in fulfillFrom',
    ]),
  ),
};

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
export function findOrderProblems(
  payload: JsonObject,
  reference: string | undefined,
  { known, operations }: CheckFacts,
): PayloadProblem[] {
  const { externalOrderNumber: number } = payload;
  const problems: PayloadProblem[] = [];
  // Lanes are made of references.
  if (reference !== undefined && typeof number === 'string' && number !== reference)
    problems.push(
      problemAt(
        ['externalOrderNumber'],
        `must equal the reference of the row, ${JSON.stringify(reference)}`,
      ),
    );

  return [
    ...problems,
    ...findCodeProblems(payload, orderTypeMember, known),
    ...findCodeProblems(payload, methodMember, known),
    ...findListProblems(payload, known),
    ...findAddressProblems(payload.deliveryAddress, operations),
  ];
}

/** Returns the documents that are attached to an order. */
export const listDocuments = ({ attachments }: JsonObject): PayloadDocument[] =>
  (Array.isArray(attachments) ? attachments : []).flatMap((entry, index) =>
    isObject(entry) ? [{ path: ['attachments', index, 'content'], content: entry.content }] : [],
  );

/**
 * Returns the problems of an order, or of a change, that the lists of the service show: its locale,
 * its country, and warehouses that do not offer its shipping method. Billing addresses are not
 * compared, because nothing is shipped to them.
 */
export function findListProblems(order: JsonObject, known: KnownCodes): PayloadProblem[] {
  const { locale, deliveryAddress } = order;
  const countryCode = isObject(deliveryAddress) ? deliveryAddress.countryCode : undefined;
  const problems: PayloadProblem[] = [];

  for (const [path, list, code, form] of [
    [['locale'], 'languages', locale, localeForm],
    [['deliveryAddress', 'countryCode'], 'countries', countryCode, countryForm],
  ] as const) {
    // The schema reports a code of another form.
    if (typeof code !== 'string' || !form.test(code)) continue;
    const problem = findListProblem(list, code, form, known);
    if (problem !== null) problems.push(problemAt(path, problem));
  }

  return [...problems, ...findWarehouseProblems(order, known)];
}

/** Returns the problems of warehouses that do not offer the shipping method of an order. */
export function findWarehouseProblems(order: JsonObject, known: KnownCodes): PayloadProblem[] {
  const { shippingMethod: code, shippingMethodId: id, items } = order;
  const found =
    typeof code === 'string' && code !== '' ? findCode(methodMember, code, known) : { id };
  const named = [order, ...(Array.isArray(items) ? items : [])].flatMap((value, index) => {
    const warehouse = isObject(value) ? value.fulfillFrom : undefined;
    const path = [...(index === 0 ? [] : ['items', index - 1]), 'fulfillFrom'];
    return typeof warehouse === 'string' && warehouse !== '' ? [{ path, warehouse }] : [];
  });

  if ('problem' in found || typeof found.id !== 'number' || named.length === 0) return [];
  const wanted = [...new Set(named.map(({ warehouse }) => warehouse))];
  const offered = findWarehouses(found.id, wanted, known);
  if (offered.length === 0) return [];

  return named
    .filter(({ warehouse }) => !offered.includes(warehouse))
    .slice(0, maxProblems + 1)
    .map(({ path, warehouse }) => {
      const method = typeof code === 'string' ? nameCode(code) : found.id;
      const words = `shipping method ${method} is not offered in ${nameCode(warehouse)}`;
      return problemAt(path, `${words} (offered in: ${offered.join(', ')})`);
    });
}

/** Matches a street that ends with a house number. The service takes the number from there. */
const endsWithNumber = /\d{1,5}(\s?[-/]?\s?[a-z]{1,4})?(\s?[-/]\s?\d{1,4}[a-z]?)?$/i;

/** Returns the problems of the delivery address. Nothing is shipped to the other addresses. */
export function findAddressProblems(
  lines: Json | undefined,
  operations: Operations,
): PayloadProblem[] {
  if (!isObject(lines)) return [];
  const { countryCode, houseNumber, street1, postcode } = lines;
  if (typeof countryCode !== 'string') return [];

  const problems: PayloadProblem[] = [];
  const add = (member: string, words: string) =>
    problems.push(problemAt(['deliveryAddress', member], `is required for ${countryCode}${words}`));
  const isNumbered = !isEmpty(houseNumber) || (typeof street1 === 'string' && /\d/.test(street1));
  if (listHouseNumberCountries(operations).includes(countryCode) && !isNumbered)
    add('houseNumber', ', unless street1 has it');
  if (listPostcodeCountries(operations).includes(countryCode) && isEmpty(postcode))
    add('postcode', '');

  return problems;
}

const isEmpty = (value: Json | undefined) =>
  value === undefined || value === null || (typeof value === 'string' && value.trim() === '');

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
  return (
    'deliveryAddress.houseNumber is missing and street1 does not end with a number; ' +
    'check the address at the service'
  );
}

/**
 * Provisional ids, which only link the addresses of one request (docs/interface.md, 7.2 Addresses).
 */
const deliveryId = 1;
const billingId = 2;
const toAddress = (id: number, address: object) => {
  const attributes = pickGiven({ ...address });
  return { type: 'address', id, attributes };
};

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
  const relationships = pickGiven({
    orderType: linkTo('orderType', orderTypeId),
    deliveryAddress: deliveryAddress && linkTo('address', deliveryId),
    billingAddress: billingAddress && linkTo('address', billingId),
    pickUpPoint: pickUpPoint && { data: { type: 'pickUpPoint' } },
    preferredShippingMethod: linkTo('shippingMethod', shippingMethodId),
  });
  const included = [
    ...(deliveryAddress ? [toAddress(deliveryId, deliveryAddress)] : []),
    ...(billingAddress ? [toAddress(billingId, billingAddress)] : []),
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
  const { relationships } = linked;
  const data = { type: 'order', attributes: pickAttributes(rest), relationships };

  return makeBody(data, included, options);
}

const toItemAttributes = ({ price, vat, ...others }: OrderPayload['items'][number]): object =>
  pickAttributes({ ...others, price: asNumber(price), vat: asNumber(vat) });

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
