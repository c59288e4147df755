import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import type { OrderDraft } from '../../rules/orders.ts';
import type { ClientStore } from '../../store/client-store.ts';
import type { AddressLines } from '../../store/model.ts';
import { noReplyAddress, type ServiceSettings } from '../../store/settings.ts';
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
} from '../older-fields.ts';
import { markExtra } from '../operation.ts';

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
export const orderBody = z.strictObject({
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
 * Reads the order from a body.
 * @throws Refusal if an id does not exist, or if no address has a country
 */
export function readOrder(body: Body, { zone, settings }: ClientStore, nowMs: number): OrderDraft {
  const billing = readAddress(body, 'BillingAddress', settings);
  const delivery = readAddress(body, 'DeliveryAddress', settings);
  const isGiven = (lines: AddressLines) => Object.values(lines).some((value) => value !== null);
  const deliveryAddress = isGiven(delivery) ? delivery : billing;
  if (deliveryAddress.countryCode === null) throw ruleBroken('An order needs an address with its CountryIso');
  return {
    externalOrderNumber: body.ExternalOrderNumber,
    reference: null,
    consumerReference: null,
    promotionCode: null,
    locale: findLocale(settings, body.LanguageId),
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
    shippingMethodId: findMainMethodId(settings, body.ShippingMethodId),
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

function readAddress(
  body: Body,
  prefix: 'BillingAddress' | 'DeliveryAddress',
  settings: ServiceSettings,
): AddressLines {
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
    countryCode: country === null ? null : findCountryCode(settings, country),
  };
}
