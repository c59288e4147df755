import { z } from 'zod';
import type { OrderDraft } from '../../rules/orders.ts';
import type { ClientStore } from '../../store/client-store.ts';
import type { AddressLines } from '../../store/model.ts';
import { noReplyAddress, type ServiceSettings } from '../../store/settings.ts';
import {
  dayIn,
  findCountryCode,
  findLocale,
  findMainMethodId,
  findWarehouseCode,
  readPrefixedMembers,
  textIn,
  toWarehouseDay,
} from '../older-fields.ts';

const textFields = <const Names extends readonly string[]>(...names: Names) =>
  Object.fromEntries(names.map((name) => [name, textIn])) as Record<Names[number], typeof textIn>;
const deprecatedText = textIn.meta({ deprecated: true });
const requiredText = z.string().min(1, 'must not be empty');

/** The body of the v2 add order, with the names of docs/interface.md, 15.2 Add order: fields. */
export const orderBody = z.strictObject({
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

/**
 * Reads the order from a body.
 * @throws Refusal if an id does not exist
 */
export function readOrder(body: Body, { zone, settings }: ClientStore, nowMs: number): OrderDraft {
  const deliveryAddress = readDeliveryAddress(body);
  return {
    externalOrderNumber: body.externalOrderNumber,
    reference: body.extraReference || null,
    consumerReference: body.clientReference || null,
    promotionCode: body.actionCode || null,
    locale: findLocale(settings, body.languageId),
    email: body.email || noReplyAddress,
    phoneNumber: body.phoneNumber || null,
    vatNumber: body.vatNumber || null,
    fulfillFrom: findWarehouseCode(settings, body.warehouseId),
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
    shippingMethodId: findMainMethodId(settings, body.shippingMethodId),
    lines: body.orderItems.map(({ sku, quantity, name, price, vat, extra6, extra7, warehouseId }) => ({
      sku,
      quantity,
      fulfillFrom: findWarehouseCode(settings, warehouseId),
      price: price ?? null,
      vat: vat ?? null,
      name: name || null,
      metadata: keepGivenTexts({ extra6, extra7 }),
    })),
    deliveryAddress,
    billingAddress: readBillingAddress(body, settings) ?? deliveryAddress,
    pickUpPoint: readPrefixedMembers(body, 'pickUpPoint'),
    attachment: null,
  };
}

function readDeliveryAddress(body: Body): AddressLines {
  return {
    firstName: body.deliveryAddressFirstName || null,
    lastName: body.deliveryAddressLastName,
    prefix: body.deliveryAddressInsertion || null,
    street1: body.deliveryAddressStreet,
    postcode: body.deliveryAddressPostalCode,
    houseNumber: toText(body.deliveryAddressHouseNumber),
    houseNumberExtension: body.deliveryAddressHouseNumberAddition || null,
    city: body.DeliveryAddressCityName || null,
    countryCode: body.deliveryAddressCountryIso,
  };
}

function readBillingAddress(body: Body, settings: ServiceSettings): AddressLines | null {
  if (!Object.entries(body).some(([name, value]) => name.startsWith('billingAddress') && value)) return null;
  return {
    firstName: body.billingAddressFirstName || null,
    lastName: body.billingAddressLastName || null,
    prefix: body.billingAddressInsertion || null,
    street1: body.billingAddressStreet || null,
    postcode: body.billingAddressPostalCode || null,
    houseNumber: toText(body.billingAddressHouseNumber),
    houseNumberExtension: body.billingAddressHouseNumberAddition || null,
    city: body.billingAddressCityName || null,
    countryCode: body.billingAddressCountryIso ? findCountryCode(settings, body.billingAddressCountryIso) : null,
  };
}

/** Returns a house number as a text: v2 has integers, v3 has texts. */
const toText = (number: number | null | undefined) => (number === null || number === undefined ? null : String(number));

function keepGivenTexts(texts: Readonly<Record<string, string | null | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter((entry): entry is [string, string] => Boolean(entry[1])));
}
