/**
 * The operations on orders of the generations oldest and v2. Their names are those of docs/interface.md. Every answer is
 * an envelope with a message code.
 */

import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { emptyDraft, type OrderDraft, placeOrder, releaseOrder } from '../rules/orders.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { AddressLines, Texts } from '../store/model.ts';
import { noReplyAddress, type ServiceLists } from '../store/service-lists.ts';
import {
  dayIn,
  decimalIn,
  findCountryCode,
  findLocale,
  findMainMethodId,
  findWarehouseCode,
  integerIn,
  quantityIn,
  readAddress,
  readPrefixedMembers,
  textFields,
  textIn,
  toNumber,
  toWarehouseDay,
} from './older-fields.ts';
import { type Call, defineOperation, envelope, markExtra, nok, ok } from './operation.ts';

const extraNames = ['extra1', 'extra2', 'extra3', 'extra4', 'extra5'] as const;
const nullableText = z.string().nullable();
/** The schemas of the extra fields of an order in answers. */
export const extraSchemas = Object.fromEntries(extraNames.map((name) => [name, nullableText]));

/** Returns the extra fields of an order, null for those that it does not have. */
export const readExtras = (metadata: Texts) =>
  Object.fromEntries(extraNames.map((name) => [name, metadata[name] ?? null]));

/** The result of an order search (docs/interface.md, 15.4 Order lookup result). */
const orderLookup = z.strictObject({ orderNumber: z.int(), externalOrderNumber: z.string(), ...extraSchemas });

const suffixes = [
  'FirstName',
  'LastName',
  'PostalCode',
  'Street',
  'HouseNumber',
  'HouseNumberAddition',
  'CityName',
] as const;
const textOrNumberIn = z.union([z.int(), z.string()]).nullish();

/** Returns the schemas of the fields of an address, such as `BillingAddressStreet`: prefix plus suffix. */
function addressFields<P extends string>(prefix: P) {
  const fields = suffixes.map((suffix) => [`${prefix}${suffix}`, suffix === 'HouseNumber' ? textOrNumberIn : textIn]);
  return {
    ...Object.fromEntries(fields),
    [`${prefix}CountryIso`]: z.union([z.string(), z.int()]).nullish(),
  } as Record<`${P}${(typeof suffixes)[number] | 'CountryIso'}`, z.ZodType<string | number | null | undefined>>;
}

/** Returns the schemas of fields that docs/interface.md does not show. */
function extraFields<P extends string, N extends string>(prefix: P, ...suffixes: readonly N[]) {
  const fields = suffixes.map((suffix) => [`${prefix}${suffix}`, markExtra(textOrNumberIn)]);
  return Object.fromEntries(fields) as Record<`${P}${N}`, typeof textOrNumberIn>;
}

/** docs/interface.md, 16.2 Order add: body, with members that it does not show. */
const oldestBody = z.strictObject({
  ExternalOrderNumber: z.string().min(1).max(50),
  PreferredShippingDate: dayIn,
  Email: textIn,
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
        Price: decimalIn.nullish(),
        Quantity: quantityIn,
        Vat: decimalIn.nullish(),
      }),
    )
    .min(1),
  PhoneNumber: textIn,
  ...addressFields('BillingAddress'),
  ...addressFields('DeliveryAddress'),
  ...extraFields('BillingAddress', 'ExtraName', 'ExtraAddress'),
  ...extraFields('DeliveryAddress', 'ExtraName', 'ExtraAddress'),
  ...extraFields('PickUpPoint', 'Id', 'Name', 'Street', 'HouseNumber', 'HouseNumberAddition', 'PostalCode'),
  ...extraFields('PickUpPoint', 'CityName', 'CountryIso', 'Region', 'ExtraAddress'),
});

const wholeNumber = z.int('must be a whole number');
const orderNumberBody = z.strictObject({ externalOrderNumber: z.string().min(1, 'must not be empty') });

const deprecatedText = textIn.meta({ deprecated: true });
const requiredText = z.string().min(1, 'must not be empty');

/** docs/interface.md, 15.2 Add order: fields. */
const v2Body = z.strictObject({
  externalOrderNumber: requiredText.max(50),
  ...textFields('', 'extraReference', 'actionCode', 'email', 'phoneNumber', 'vatNumber', 'clientReference'),
  preferredShippingDate: dayIn,
  partialDelivery: z.boolean().nullish(),
  onHold: z.boolean().nullish(),
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, 'must be a currency code of three letters')
    .default('EUR'),
  bankAccountNumber: deprecatedText,
  bankAccountHolderName: deprecatedText,
  bankAccountCityName: deprecatedText,
  paymentMethodId: z.literal(1, 'must be 1').meta({ deprecated: true }),
  shippingMethodId: wholeNumber.nullish(),
  deliveryAddressLastName: requiredText,
  deliveryAddressPostalCode: requiredText,
  deliveryAddressStreet: requiredText,
  deliveryAddressCountryIso: z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters'),
  deliveryAddressHouseNumber: wholeNumber.nullish(),
  // docs/interface.md writes this name with a capital D.
  ...textFields('DeliveryAddress', 'CityName'),
  ...textFields(
    'deliveryAddress',
    'FirstName',
    'Insertion',
    'ExtraName',
    'HouseNumberAddition',
    'Region',
    'ExtraAddress',
  ),
  ...textFields('billingAddress', 'FirstName', 'Insertion', 'LastName', 'ExtraName', 'PostalCode', 'Street'),
  ...textFields('billingAddress', 'HouseNumberAddition', 'CityName', 'Region', 'CountryIso', 'ExtraAddress'),
  billingAddressHouseNumber: wholeNumber.nullish(),
  ...textFields('', ...extraNames),
  languageId: wholeNumber,
  orderTypeId: wholeNumber,
  ...textFields('pickUpPoint', 'Id', 'Name', 'Street', 'HouseNumberAddition', 'PostalCode', 'CityName', 'CountryIso'),
  ...textFields('pickUpPoint', 'Region', 'ExtraAddress'),
  pickUpPointHouseNumber: wholeNumber.nullish(),
  warehouseId: wholeNumber.nullish(),
  orderItems: z
    .array(
      z.strictObject({
        sku: requiredText,
        quantity: z.int().min(1, 'must be at least 1').max(1_000_000),
        ...textFields('', 'name', 'extra6', 'extra7'),
        price: z.number().nullish(),
        vat: z.number().nullish(),
        warehouseId: wholeNumber.nullish(),
      }),
    )
    .min(1),
});

/** docs/interface.md, 16 Oldest operations and 15.1 Operations. The oldest take JSON or a form, with PascalCase names. */
export const olderOrderOperations = [
  defineOperation({
    name: 'oldest.order.search',
    route: 'POST /order/search',
    summary: 'Whether an order exists',
    form: 'allowed',
    body: z.strictObject({ ExternalOrderNumber: z.string().min(1) }),
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.body.ExternalOrderNumber),
  }),
  defineOperation({
    name: 'oldest.order.add',
    route: 'POST /order/add',
    summary: 'Adds an order',
    form: 'allowed',
    body: oldestBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, nowMs } = call;
      const order = placeOrder(simulation, readOldestOrder(call.body, simulation.store, nowMs), nowMs);
      call.recordWrite('order', order.id, null);
      return ok('Order added', order.id);
    },
  }),
  defineOperation({
    name: 'v2.order.add',
    route: 'POST /v2/order/add',
    summary: 'Adds an order',
    replacedBy: 'POST /v3/orders',
    documented: false,
    body: v2Body,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, nowMs } = call;
      const order = placeOrder(simulation, readV2Order(call.body, simulation.store, nowMs), nowMs);
      call.recordWrite('order', order.id, null);
      return ok(order.notValid ? 'Order added, Not Valid: its house number is missing' : 'Order added', order.id);
    },
  }),
  defineOperation({
    name: 'v2.order.search',
    route: 'GET /v2/order/search',
    summary: 'Finds an order, query variant',
    replacedBy: 'GET /v3/orders with filter[externalOrderNumber][in]',
    documented: false,
    query: { externalOrderNumber: z.string().min(1, 'must not be empty') },
    required: ['externalOrderNumber'],
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.query.externalOrderNumber ?? ''),
  }),
  defineOperation({
    name: 'v2.order.searchByBody',
    route: 'POST /v2/order/search',
    summary: 'Finds an order, body variant',
    replacedBy: 'GET /v3/orders with filter[externalOrderNumber][in]',
    documented: false,
    body: orderNumberBody,
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.body.externalOrderNumber),
  }),
  defineOperation({
    name: 'v2.order.release',
    route: 'POST /v2/order/release',
    summary: 'Releases an order created with onHold true',
    documented: false,
    body: orderNumberBody,
    answer: envelope(z.null()),
    run: (call) => {
      const order = call.store.orderByNumber.get(call.body.externalOrderNumber);
      if (order === undefined) return nok('Order not found');
      call.recordWrite('order', order.id, order);
      releaseOrder(call.simulation, order, call.nowMs);
      return ok('Order released');
    },
  }),
];

function lookUpOrder(call: Call<unknown, unknown>, externalOrderNumber: string) {
  const known = call.store.orderByNumber.get(externalOrderNumber);
  const order = known && call.viewRow('order', known);
  if (!order) return nok('Order not found');
  const result = { orderNumber: order.id, externalOrderNumber: order.externalOrderNumber };
  return ok('Order found', { ...result, ...readExtras(order.metadata) });
}

/** Reads the order from a body of the oldest generation. It needs an address with a country. */
function readOldestOrder(body: z.output<typeof oldestBody>, { zone, lists }: ClientStore, nowMs: number): OrderDraft {
  const read = (prefix: 'BillingAddress' | 'DeliveryAddress') => {
    const country = body[`${prefix}CountryIso`] ?? '';
    return readAddress(body, prefix, country === '' ? null : findCountryCode(lists, country));
  };
  const isGiven = (lines: AddressLines) => Object.values(lines).some((value) => value !== null);
  const [billing, delivery] = [read('BillingAddress'), read('DeliveryAddress')];
  const deliveryAddress = isGiven(delivery) ? delivery : billing;
  if (deliveryAddress.countryCode === null) throw ruleBroken('An order needs an address with its CountryIso');
  return {
    ...emptyDraft,
    externalOrderNumber: body.ExternalOrderNumber,
    locale: findLocale(lists, body.LanguageId),
    email: body.Email || noReplyAddress,
    phoneNumber: body.PhoneNumber || null,
    preferredShippingDate: toWarehouseDay(zone, body.PreferredShippingDate),
    orderedOn: zone.day(nowMs),
    orderTypeId: body.OrderTypeId,
    shippingMethodId: findMainMethodId(lists, body.ShippingMethodId),
    lines: body.OrderItems.map(({ Sku, Name, Price, Quantity, Vat }) => ({
      sku: Sku,
      quantity: Quantity,
      fulfillFrom: null,
      price: toNumber(Price),
      vat: Vat ?? null,
      name: Name || null,
      metadata: {},
    })),
    deliveryAddress,
    billingAddress: isGiven(billing) ? billing : deliveryAddress,
    pickUpPoint: readPrefixedMembers(body, 'PickUpPoint'),
  };
}

function readV2Order(body: z.output<typeof v2Body>, { zone, lists }: ClientStore, nowMs: number): OrderDraft {
  const delivery = readAddress(body, 'deliveryAddress', body.deliveryAddressCountryIso);
  const deliveryAddress = { ...delivery, city: body.DeliveryAddressCityName || null };
  return {
    ...emptyDraft,
    externalOrderNumber: body.externalOrderNumber,
    reference: body.extraReference || null,
    consumerReference: body.clientReference || null,
    promotionCode: body.actionCode || null,
    locale: findLocale(lists, body.languageId),
    email: body.email || noReplyAddress,
    phoneNumber: body.phoneNumber || null,
    vatNumber: body.vatNumber || null,
    fulfillFrom: findWarehouseCode(lists, body.warehouseId),
    preferredShippingDate: toWarehouseDay(zone, body.preferredShippingDate),
    allowPartialDelivery: body.partialDelivery ?? null,
    onHold: body.onHold ?? false,
    metadata: keepTexts(body, extraNames),
    orderedOn: zone.day(nowMs),
    currency: body.currency,
    orderTypeId: body.orderTypeId,
    shippingMethodId: findMainMethodId(lists, body.shippingMethodId),
    lines: body.orderItems.map((item) => ({
      sku: item.sku,
      quantity: item.quantity,
      fulfillFrom: findWarehouseCode(lists, item.warehouseId),
      price: item.price ?? null,
      vat: item.vat ?? null,
      name: item.name || null,
      metadata: keepTexts(item, ['extra6', 'extra7']),
    })),
    deliveryAddress,
    billingAddress: readBillingAddress(body, lists) ?? deliveryAddress,
    pickUpPoint: readPrefixedMembers(body, 'pickUpPoint'),
  };
}

function readBillingAddress(body: z.output<typeof v2Body>, lists: ServiceLists): AddressLines | null {
  if (!Object.entries(body).some(([name, value]) => name.startsWith('billingAddress') && value)) return null;
  const { billingAddressCountryIso: country } = body;
  return readAddress(body, 'billingAddress', country ? findCountryCode(lists, country) : null);
}

const keepTexts = (given: Readonly<Record<string, unknown>>, names: readonly string[]): Texts =>
  Object.fromEntries(names.filter((name) => given[name]).map((name) => [name, String(given[name])]));
