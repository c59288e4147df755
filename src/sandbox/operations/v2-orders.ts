/**
 * The operations of the generation v2. Every answer is an envelope with a message code.
 */

import { z } from 'zod';
import { type OrderDraft, placeOrder, releaseOrder } from '../rules/orders.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { AddressLines } from '../store/model.ts';
import { noReplyAddress, type ServiceLists } from '../store/service-lists.ts';
import {
  dayIn,
  findCountryCode,
  findLocale,
  findMainMethodId,
  findWarehouseCode,
  readPrefixedMembers,
  textIn,
  toWarehouseDay,
} from './older-fields.ts';
import { type Call, defineOperation, envelope, nok, ok } from './operation.ts';

const nullableText = z.string().nullable();
/** The result of an order search (docs/interface.md, 15.4 Order lookup result). */
export const orderLookup = z.strictObject({
  orderNumber: z.int(),
  externalOrderNumber: z.string(),
  extra1: nullableText,
  extra2: nullableText,
  extra3: nullableText,
  extra4: nullableText,
  extra5: nullableText,
});
const orderNumberBody = z.strictObject({ externalOrderNumber: z.string().min(1, 'must not be empty') });

const textFields = <const Names extends readonly string[]>(...names: Names) =>
  Object.fromEntries(names.map((name) => [name, textIn])) as Record<Names[number], typeof textIn>;
const deprecatedText = textIn.meta({ deprecated: true });
const requiredText = z.string().min(1, 'must not be empty');

/** The body of the v2 add order, with the names of docs/interface.md, 15.2 Add order: fields. */
const orderBody = z.strictObject({
  externalOrderNumber: requiredText.max(50),
  ...textFields('extraReference', 'actionCode', 'email', 'phoneNumber', 'vatNumber', 'clientReference'),
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
  shippingMethodId: z.int('must be a whole number').nullish(),
  deliveryAddressLastName: requiredText,
  deliveryAddressPostalCode: requiredText,
  deliveryAddressStreet: requiredText,
  deliveryAddressCountryIso: z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters'),
  deliveryAddressHouseNumber: z.int('must be a whole number').nullish(),
  // docs/interface.md writes this name with a capital D.
  ...textFields('DeliveryAddressCityName'),
  ...textFields('deliveryAddressFirstName', 'deliveryAddressInsertion', 'deliveryAddressExtraName'),
  ...textFields('deliveryAddressHouseNumberAddition', 'deliveryAddressRegion', 'deliveryAddressExtraAddress'),
  ...textFields(
    'billingAddressFirstName',
    'billingAddressInsertion',
    'billingAddressLastName',
    'billingAddressExtraName',
  ),
  ...textFields('billingAddressPostalCode', 'billingAddressHouseNumberAddition', 'billingAddressStreet'),
  ...textFields(
    'billingAddressCityName',
    'billingAddressRegion',
    'billingAddressCountryIso',
    'billingAddressExtraAddress',
  ),
  billingAddressHouseNumber: z.int('must be a whole number').nullish(),
  ...textFields('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
  languageId: z.int('must be a whole number'),
  orderTypeId: z.int('must be a whole number'),
  ...textFields('pickUpPointId', 'pickUpPointName', 'pickUpPointStreet', 'pickUpPointHouseNumberAddition'),
  ...textFields('pickUpPointPostalCode', 'pickUpPointCityName', 'pickUpPointCountryIso', 'pickUpPointRegion'),
  ...textFields('pickUpPointExtraAddress'),
  pickUpPointHouseNumber: z.int('must be a whole number').nullish(),
  warehouseId: z.int('must be a whole number').nullish(),
  orderItems: z
    .array(
      z.strictObject({
        sku: requiredText,
        quantity: z.int().min(1, 'must be at least 1').max(1_000_000),
        ...textFields('name', 'extra6', 'extra7'),
        price: z.number().nullish(),
        vat: z.number().nullish(),
        warehouseId: z.int('must be a whole number').nullish(),
      }),
    )
    .min(1),
});
type Body = z.output<typeof orderBody>;

/** The v2 operations on orders (docs/interface.md, 15.1 Operations). */
export const v2OrderOperations = [
  defineOperation({
    name: 'v2.order.add',
    route: 'POST /v2/order/add',
    summary: 'Adds an order',
    replacedBy: 'POST /v3/orders',
    documented: false,
    body: orderBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, nowMs } = call;
      const order = placeOrder(simulation, readOrder(call.body, simulation.store, nowMs), nowMs);
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

/** Answers with the order that has a number, or with NOK. The search may lag behind writes. */
export function lookUpOrder(call: Call<unknown, unknown>, externalOrderNumber: string) {
  const known = call.store.orderByNumber.get(externalOrderNumber);
  const order = known && call.viewRow('order', known);
  if (!order) return nok('Order not found');
  const { extra1 = null, extra2 = null, extra3 = null, extra4 = null, extra5 = null } = order.metadata;
  const result = { orderNumber: order.id, externalOrderNumber: order.externalOrderNumber };
  return ok('Order found', { ...result, extra1, extra2, extra3, extra4, extra5 });
}

/**
 * Reads the order from a body.
 * @throws Refusal if an id does not exist
 */
function readOrder(body: Body, { zone, lists }: ClientStore, nowMs: number): OrderDraft {
  const { DeliveryAddressCityName: city, deliveryAddressCountryIso: countryCode } = body;
  const deliveryAddress = readAddress(body, 'deliveryAddress', { city, countryCode });
  return {
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
    metadata: keepGivenTexts({
      extra1: body.extra1,
      extra2: body.extra2,
      extra3: body.extra3,
      extra4: body.extra4,
      extra5: body.extra5,
    }),
    orderedOn: zone.day(nowMs),
    currency: body.currency,
    orderTypeId: body.orderTypeId,
    shippingMethodId: findMainMethodId(lists, body.shippingMethodId),
    lines: body.orderItems.map(({ sku, quantity, name, price, vat, extra6, extra7, warehouseId }) => ({
      sku,
      quantity,
      fulfillFrom: findWarehouseCode(lists, warehouseId),
      price: price ?? null,
      vat: vat ?? null,
      name: name || null,
      metadata: keepGivenTexts({ extra6, extra7 }),
    })),
    deliveryAddress,
    billingAddress: readBillingAddress(body, lists) ?? deliveryAddress,
    pickUpPoint: readPrefixedMembers(body, 'pickUpPoint'),
    attachment: null,
  };
}

/** Reads an address. The name of its city is given, because it does not begin like the others. */
function readAddress(
  body: Body,
  prefix: 'deliveryAddress' | 'billingAddress',
  { city, countryCode }: { readonly city: string | null | undefined; readonly countryCode: string | null },
): AddressLines {
  const number = body[`${prefix}HouseNumber`] ?? null;
  return {
    firstName: body[`${prefix}FirstName`] || null,
    lastName: body[`${prefix}LastName`] || null,
    prefix: body[`${prefix}Insertion`] || null,
    street1: body[`${prefix}Street`] || null,
    postcode: body[`${prefix}PostalCode`] || null,
    // v2 has integers, v3 has texts.
    houseNumber: number === null ? null : String(number),
    houseNumberExtension: body[`${prefix}HouseNumberAddition`] || null,
    city: city || null,
    countryCode,
  };
}

function readBillingAddress(body: Body, lists: ServiceLists): AddressLines | null {
  if (!Object.entries(body).some(([name, value]) => name.startsWith('billingAddress') && value)) return null;
  const { billingAddressCityName: city, billingAddressCountryIso: country } = body;
  return readAddress(body, 'billingAddress', {
    city,
    countryCode: country ? findCountryCode(lists, country) : null,
  });
}

function keepGivenTexts(texts: Readonly<Record<string, string | null | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter((entry): entry is [string, string] => Boolean(entry[1])));
}
