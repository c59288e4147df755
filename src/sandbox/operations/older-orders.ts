/**
 * The operations on orders of the generations oldest and v2. Their names are those of
 * docs/interface.md. Every answer is an envelope with a message code.
 */

import { z } from 'zod';
import { requireFound, ruleBroken } from '../refusal.ts';
import { emptyDraft, type OrderDraft, placeOrder, releaseOrder } from '../rules/orders.ts';
import type { Client } from '../store/client.ts';
import type { AddressLines, Members, Order } from '../store/model.ts';
import { noReplyAddress, type ServiceLists } from '../store/service-lists.ts';
import {
  type Call,
  countryCodeIn,
  dayIn,
  defineFields,
  defineOperation,
  envelope,
  type Fields,
  integerIn,
  keepGivenTexts,
  markExtra,
  members,
  nok,
  notEmpty,
  numberIn,
  ok,
  quantityIn,
  readTexts,
  recordWrite,
  textIn,
  toWarehouseDay,
  viewRow,
} from './operation.ts';
import { text } from './resource.ts';

const extraNames = ['extra1', 'extra2', 'extra3', 'extra4', 'extra5'] as const;

interface OrderRow {
  readonly order: Order;
}
/** The extra fields of an order in answers. */
export const extraFields: Fields<OrderRow> = Object.fromEntries(
  extraNames.map((name) => [name, [text, ({ order }) => order.metadata[name] ?? null]]),
);

/** The result of an order search (docs/interface.md, 15.4 Order lookup result). */
const orderLookup = defineFields<OrderRow>({
  orderNumber: [z.int(), ({ order }) => order.id],
  externalOrderNumber: [z.string(), ({ order }) => order.externalOrderNumber],
  ...extraFields,
});

const textOrNumberIn = z.union([z.int(), z.string()]).nullish();
const requiredLines = ['LastName', 'PostalCode', 'Street'] as const;
const oldestLines = [...requiredLines, 'FirstName', 'HouseNumberAddition', 'CityName'] as const;
const pointNames = [
  'Id',
  'Name',
  'Street',
  'HouseNumberAddition',
  'PostalCode',
  'CityName',
  'CountryIso',
  'Region',
  'ExtraAddress',
] as const;
const oldestAddress = <Prefix extends string>(prefix: Prefix) => ({
  ...members(textIn, oldestLines, prefix),
  ...members(textOrNumberIn, ['HouseNumber', 'CountryIso'], prefix),
  ...members(markExtra(textOrNumberIn), ['ExtraName', 'ExtraAddress'], prefix),
});

/** docs/interface.md, 16.2 Order add: body, with members that it does not show. */
const oldestBody = z.strictObject({
  ExternalOrderNumber: z.string().min(1).max(50),
  PreferredShippingDate: dayIn,
  LanguageId: integerIn,
  OrderTypeId: integerIn,
  // The list of its ids is obsolete (docs/interface.md, 6.2 Settings).
  PaymentMethodId: integerIn.nullish().meta({ deprecated: true }),
  ShippingMethodId: integerIn.nullish(),
  OrderItems: z
    .array(
      z.strictObject({
        Sku: z.string().min(1),
        Name: textIn,
        Price: numberIn.nullish(),
        Quantity: integerIn.pipe(quantityIn),
        Vat: numberIn.nullish(),
      }),
    )
    .min(1),
  ...members(textIn, ['Email', 'PhoneNumber']),
  ...oldestAddress('BillingAddress'),
  ...oldestAddress('DeliveryAddress'),
  ...members(markExtra(textOrNumberIn), [...pointNames, 'HouseNumber'], 'PickUpPoint'),
});

const wholeNumber = z.int('must be a whole number');
const orderNumberBody = z.strictObject({ externalOrderNumber: notEmpty });
const bankAccount = ['bankAccountNumber', 'bankAccountHolderName', 'bankAccountCityName'] as const;
const optionalLines = [
  'FirstName',
  'Insertion',
  'ExtraName',
  'HouseNumberAddition',
  'Region',
  'ExtraAddress',
] as const;
const houseNumbers = [
  'deliveryAddressHouseNumber',
  'billingAddressHouseNumber',
  'pickUpPointHouseNumber',
] as const;

/** docs/interface.md, 15.2 Add order: fields. */
const v2Body = z.strictObject({
  externalOrderNumber: notEmpty.max(50),
  ...members(textIn, ['extraReference', 'actionCode', 'email', 'phoneNumber']),
  ...members(textIn, ['vatNumber', 'clientReference', ...extraNames]),
  preferredShippingDate: dayIn,
  ...members(z.boolean().nullish(), ['partialDelivery', 'onHold']),
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, 'must be a currency code of three letters')
    .default('EUR'),
  ...members(textIn.meta({ deprecated: true }), bankAccount),
  paymentMethodId: z.literal(1, 'must be 1').meta({ deprecated: true }),
  ...members(wholeNumber, ['languageId', 'orderTypeId']),
  ...members(wholeNumber.nullish(), ['shippingMethodId', 'warehouseId', ...houseNumbers]),
  ...members(notEmpty, requiredLines, 'deliveryAddress'),
  ...members(textIn, optionalLines, 'deliveryAddress'),
  deliveryAddressCountryIso: countryCodeIn,
  // docs/interface.md writes this name with a capital D.
  DeliveryAddressCityName: textIn,
  ...members(textIn, [...requiredLines, ...optionalLines], 'billingAddress'),
  ...members(textIn, ['billingAddressCityName', 'billingAddressCountryIso']),
  ...members(textIn, pointNames, 'pickUpPoint'),
  orderItems: z
    .array(
      z.strictObject({
        sku: notEmpty,
        quantity: quantityIn,
        ...members(textIn, ['name', 'extra6', 'extra7']),
        ...members(z.number().nullish(), ['price', 'vat']),
        warehouseId: wholeNumber.nullish(),
      }),
    )
    .min(1),
});

const searchesByNumber = {
  replacedBy: 'GET /v3/orders with filter[externalOrderNumber][in]',
  answer: envelope(orderLookup.schema),
};

/**
 * docs/interface.md, 16 Oldest operations and 15.1 Operations. The oldest take JSON or a form, with
 * PascalCase names.
 */
export const olderOrderOperations = [
  defineOperation({
    name: 'oldest.order.search',
    route: 'POST /order/search',
    summary: 'Whether an order exists',
    body: z.strictObject({ ExternalOrderNumber: z.string().min(1) }),
    answer: envelope(orderLookup.schema),
    run: (call) => lookUpOrder(call, call.body.ExternalOrderNumber),
  }),
  defineOperation({
    name: 'oldest.order.add',
    route: 'POST /order/add',
    summary: 'Adds an order',
    body: oldestBody,
    answer: envelope(z.int()),
    run: addOrder,
  }),
  defineOperation({
    name: 'v2.order.add',
    route: 'POST /v2/order/add',
    summary: 'Adds an order',
    replacedBy: 'POST /v3/orders',
    body: v2Body,
    answer: envelope(z.int()),
    run: addOrder,
  }),
  defineOperation({
    name: 'v2.order.search',
    route: 'GET /v2/order/search',
    summary: 'Finds an order, query variant',
    ...searchesByNumber,
    query: { externalOrderNumber: notEmpty },
    required: ['externalOrderNumber'],
    run: (call) => lookUpOrder(call, call.query.externalOrderNumber ?? ''),
  }),
  defineOperation({
    name: 'v2.order.searchByBody',
    route: 'POST /v2/order/search',
    summary: 'Finds an order, body variant',
    ...searchesByNumber,
    body: orderNumberBody,
    run: (call) => lookUpOrder(call, call.body.externalOrderNumber),
  }),
  defineOperation({
    name: 'v2.order.release',
    route: 'POST /v2/order/release',
    summary: 'Releases an order created with onHold true',
    body: orderNumberBody,
    answer: envelope(z.null()),
    run: (call) => {
      const order = call.client.orderByNumber.get(call.body.externalOrderNumber);
      if (order === undefined) return nok('Order not found');
      recordWrite(call, order);
      releaseOrder(call.client, order, call.nowMs);
      return ok('Order released');
    },
  }),
];

function lookUpOrder(call: Call, externalOrderNumber: string) {
  const known = call.client.orderByNumber.get(externalOrderNumber);
  const order = known && viewRow(call, known);
  if (!order) return nok('Order not found');
  return ok('Order found', orderLookup.show({ order }, call.client));
}

function addOrder(call: Call<unknown, z.output<typeof oldestBody> | z.output<typeof v2Body>>) {
  const { client, nowMs } = call;
  const body = lowerNames(call.body) as OrderMembers;
  const order = placeOrder(client, readOrder(body, client, nowMs), nowMs);
  recordWrite(call, order, 'creation');
  const problem = order.notValid ? ', Not Valid: its house number is missing' : '';
  return ok(`Order added${problem}`, order.id);
}

/** Changes the first letter of all names, so that both generations have the same. */
export function lowerNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(lowerNames);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([name, part]) => [lowerFirst(name), lowerNames(part)]));
}

type V2Order = z.output<typeof v2Body>;
/** The members of an order of both generations. The oldest lacks some. */
type OrderMembers = Partial<V2Order> &
  Pick<V2Order, 'externalOrderNumber' | 'languageId' | 'orderTypeId' | 'orderItems'>;

/**
 * Reads an order. If one of its two addresses is absent, it is the other one. An address must have
 * a country.
 */
function readOrder(body: OrderMembers, { zone, lists }: Client, nowMs: number): OrderDraft {
  const [billing, delivery] = (['billingAddress', 'deliveryAddress'] as const).map((prefix) => {
    const country = body[`${prefix}CountryIso`] || null;
    const address = readAddress(body, prefix, country && findCountryCode(lists, country));
    return Object.values(address).some((line) => line !== null) ? address : null;
  });
  const [deliveryAddress, billingAddress] = [delivery ?? billing, billing ?? delivery];
  if (!deliveryAddress?.countryCode || !billingAddress)
    throw ruleBroken('An order needs an address with its CountryIso');

  return {
    ...emptyDraft,
    externalOrderNumber: body.externalOrderNumber,
    reference: body.extraReference || null,
    consumerReference: body.clientReference || null,
    promotionCode: body.actionCode || null,
    locale: findLocale(lists, body.languageId),
    email: body.email || noReplyAddress,
    ...readTexts(body, ['phoneNumber', 'vatNumber']),
    fulfillFrom: findWarehouseCode(lists, body.warehouseId),
    preferredShippingDate: toWarehouseDay(zone, body.preferredShippingDate),
    allowPartialDelivery: body.partialDelivery ?? null,
    onHold: body.onHold ?? false,
    metadata: keepGivenTexts(readTexts(body, extraNames)),
    orderedOn: zone.day(nowMs),
    currency: body.currency ?? emptyDraft.currency,
    orderTypeId: body.orderTypeId,
    shippingMethodId: findMainMethodId(lists, body.shippingMethodId),
    lines: body.orderItems.map((item) => ({
      sku: item.sku,
      quantity: item.quantity,
      fulfillFrom: findWarehouseCode(lists, item.warehouseId),
      price: item.price ?? null,
      vat: item.vat ?? null,
      name: item.name || null,
      metadata: keepGivenTexts(readTexts<'extra6' | 'extra7'>(item, ['extra6', 'extra7'])),
    })),
    deliveryAddress,
    billingAddress,
    pickUpPoint: readPrefixedMembers(body, 'pickUpPoint'),
  };
}

/**
 * Returns the members of a body with a prefix, by the rest of their names; null if none has a
 * value.
 */
function readPrefixedMembers(body: object, prefix: string): Members | null {
  const entries = Object.entries(body)
    .filter(([name, value]) => name.startsWith(prefix) && (value ?? '') !== '')
    .map(([name, value]) => [lowerFirst(name.slice(prefix.length)), value]);
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

/** Returns a name with a small first letter. */
const lowerFirst = (name: string): string => `${name.charAt(0).toLowerCase()}${name.slice(1)}`;

type Id = number | null | undefined;

/** Returns the locale of a language id. */
const findLocale = ({ languages }: ServiceLists, languageId: number): string =>
  requireFound(
    languages.find(({ id }) => id === languageId)?.code,
    `There is no language ${languageId}`,
  );

/** Returns the id of the main shipping method that a method of the older list belongs to. */
function findMainMethodId({ mainShippingMethods }: ServiceLists, methodId: Id) {
  if ((methodId ?? null) === null) return null;
  const main = mainShippingMethods.find(({ shippingMethods }) =>
    shippingMethods.some(({ id }) => id === methodId),
  );
  return requireFound(main?.id, `There is no shipping method ${methodId}`);
}

/** Returns the code of a warehouse by its v2 id (docs/interface.md, 15.3 Add order: rules). */
function findWarehouseCode(lists: ServiceLists, warehouseId: Id): string | null {
  if (warehouseId === null || warehouseId === undefined) return null;
  return requireFound(lists.findWarehouseCode(warehouseId), `There is no warehouse ${warehouseId}`);
}

/**
 * Returns the code of a country, by its id or code. Accepts two-letter codes that the service lists
 * do not contain.
 */
function findCountryCode({ countries }: ServiceLists, given: string | number): string {
  const text = String(given);
  const country = countries.find(({ id, code }) => String(id) === text || code === text);
  const isCode = /^[A-Z]{2}$/.test(text);
  return country?.code ?? requireFound(isCode ? text : undefined, `There is no country ${given}`);
}

/** The lines of an address, by the suffix of their names in the older generations. */
const addressSuffixes = {
  firstName: 'FirstName',
  lastName: 'LastName',
  prefix: 'Insertion',
  street1: 'Street',
  postcode: 'PostalCode',
  houseNumber: 'HouseNumber',
  houseNumberExtension: 'HouseNumberAddition',
  city: 'CityName',
} as const;

/**
 * Reads the lines of an address, whose names in the body begin with a prefix. Numbers become texts,
 * as in v3.
 */
function readAddress(body: object, prefix: string, countryCode: string | null): AddressLines {
  const given = body as Members;
  const lines = Object.entries(addressSuffixes).map(([line, suffix]) => [
    line,
    String(given[`${prefix}${suffix}`] ?? '') || null,
  ]);
  return { ...Object.fromEntries(lines), countryCode };
}
