/**
 * The operations of the oldest generation. The member names are those of docs/interface.md.
 */

import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { type OrderDraft, placeOrder } from '../rules/orders.ts';
import { countStock, createProduct } from '../rules/products.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { AddressLines, Product } from '../store/model.ts';
import { noReplyAddress, type ServiceLists } from '../store/service-lists.ts';
import {
  dayIn,
  decimalIn,
  findCountryCode,
  findLocale,
  findMainMethodId,
  integerIn,
  quantityIn,
  readPrefixedMembers,
  textIn,
  toNumber,
  toWarehouseDay,
} from './older-fields.ts';
import { defineOperation, envelope, markExtra, nok, ok } from './operation.ts';
import { lookUpOrder, orderLookup } from './v2-orders.ts';

/** A product that a search has found. */
export const productSchema = z.strictObject({
  id: z.int(),
  sku: z.string(),
  name: z.string(),
  weight: z.number().nullable(),
  description: z.string().nullable(),
  barcode: z.string().nullable(),
});
const productBody = z.strictObject({
  Sku: z.string().min(1),
  Weight: decimalIn.transform(Number).pipe(z.number().min(0)).nullish(),
  Name: z.string().min(1),
  Description: textIn,
  EncodedImage: z.union([z.literal(''), z.base64('must be base64')]).nullish(),
});

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

/** The body of the oldest order add (docs/interface.md, 16.2 Order add: body), with members that it does not show. */
const orderBody = z.strictObject({
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
type Body = z.output<typeof orderBody>;

/**
 * The oldest operations (docs/interface.md, 16 Oldest operations). Bodies are JSON or a form, with PascalCase names.
 */
export const oldestOperations = [
  defineOperation({
    name: 'oldest.product.search',
    route: 'POST /product/search',
    summary: 'Whether a product exists',
    form: 'allowed',
    body: z.strictObject({ Sku: textIn, Barcode: textIn }),
    answer: envelope(productSchema),
    run: (call) => {
      const { Sku, Barcode } = call.body;
      const { products, productByBarcode } = call.store;
      const product = Sku ? products.get(Sku) : productByBarcode.get(Barcode ?? '');
      const seen = product && call.viewRow('product', product);
      return answerProduct(seen);
    },
  }),
  defineOperation({
    name: 'oldest.product.add',
    route: 'POST /product/add',
    summary: 'Adds a product',
    form: 'allowed',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, store, body } = call;
      if (store.products.has(body.Sku)) throw ruleBroken(`Product ${body.Sku} exists already; use edit`);
      const product = createProduct(simulation.ids.next(), body.Sku, body.Name, simulation.store.lists.warehouseCodes);
      Object.assign(product, readChanges(body));
      store.addProduct(product);
      call.recordWrite('product', product.id, null);
      return ok('Product added', product.id);
    },
  }),
  defineOperation({
    name: 'oldest.product.edit',
    route: 'POST /product/edit',
    summary: 'Changes a product',
    form: 'allowed',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const product = call.store.products.get(call.body.Sku);
      if (product === undefined) throw ruleBroken(`There is no product ${call.body.Sku}; use add`);
      call.recordWrite('product', product.id, product);
      Object.assign(product, readChanges(call.body));
      return ok('Product changed', product.id);
    },
  }),
  defineOperation({
    name: 'oldest.stock.get',
    route: 'GET /stock/get/:sku',
    summary: 'The stock of a product over all warehouses',
    answer: envelope(z.int()),
    run: ({ store, path }) => {
      const product = store.products.get(path.sku ?? '');
      if (product === undefined) return nok('Product not found');
      return ok('Stock', countStock(product));
    },
  }),
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
    body: orderBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, nowMs } = call;
      const order = placeOrder(simulation, readOrder(call.body, simulation.store, nowMs), nowMs);
      call.recordWrite('order', order.id, null);
      return ok('Order added', order.id);
    },
  }),
];

/** Answers a search with the product that was found, or with NOK. */
export function answerProduct(product: Product | null | undefined) {
  if (!product) return nok('Product not found');
  const { id, sku, name, weight, description, barcode } = product;
  return ok('Product found', { id, sku, name, weight, description, barcode });
}

function readChanges(body: z.output<typeof productBody>): Partial<Product> {
  const { Name, Weight, Description, EncodedImage } = body;
  return {
    name: Name,
    weight: Weight ?? null,
    description: Description ?? null,
    encodedImage: EncodedImage || null,
  };
}

/**
 * Reads the order from a body.
 * @throws Refusal if an id does not exist, or if no address has a country
 */
function readOrder(body: Body, { zone, lists }: ClientStore, nowMs: number): OrderDraft {
  const billing = readAddress(body, 'BillingAddress', lists);
  const delivery = readAddress(body, 'DeliveryAddress', lists);
  const isGiven = (lines: AddressLines) => Object.values(lines).some((value) => value !== null);
  const deliveryAddress = isGiven(delivery) ? delivery : billing;
  if (deliveryAddress.countryCode === null) throw ruleBroken('An order needs an address with its CountryIso');
  return {
    externalOrderNumber: body.ExternalOrderNumber,
    reference: null,
    consumerReference: null,
    promotionCode: null,
    locale: findLocale(lists, body.LanguageId),
    email: body.Email || noReplyAddress,
    phoneNumber: body.PhoneNumber || null,
    vatNumber: null,
    fulfillFrom: null,
    preferredShippingDate: toWarehouseDay(zone, body.PreferredShippingDate),
    allowPartialDelivery: null,
    onHold: false,
    metadata: {},
    orderedOn: zone.day(nowMs),
    currency: 'EUR',
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
    attachment: null,
  };
}

function readAddress(body: Body, prefix: 'BillingAddress' | 'DeliveryAddress', lists: ServiceLists): AddressLines {
  const readField = (suffix: (typeof suffixes)[number] | 'CountryIso') => {
    const value = body[`${prefix}${suffix}`];
    return value === null || value === undefined || value === '' ? null : String(value);
  };
  const country = readField('CountryIso');
  return {
    firstName: readField('FirstName'),
    lastName: readField('LastName'),
    prefix: null,
    street1: readField('Street'),
    postcode: readField('PostalCode'),
    houseNumber: readField('HouseNumber'),
    houseNumberExtension: readField('HouseNumberAddition'),
    city: readField('CityName'),
    countryCode: country === null ? null : findCountryCode(lists, country),
  };
}
