import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import type { OrderDraft } from '../../rules/place-order.ts';
import type { AddressLines } from '../../store/model.ts';
import { noReplyAddress } from '../../store/settings.ts';
import type { Zone } from '../../times.ts';
import {
  countryOf,
  dayIn,
  decimalIn,
  integerIn,
  localeOf,
  mainMethodOf,
  numberOf,
  quantityIn,
  textIn,
  warehouseDay,
} from '../older-input.ts';

const suffixes = [
  'FirstName',
  'LastName',
  'PostalCode',
  'Street',
  'HouseNumber',
  'HouseNumberAddition',
  'CityName',
] as const;
const houseNumberIn = z.union([z.int(), z.string()]).nullish();

/** `BillingAddressStreet` and so on: prefix plus suffix. */
function addressFields<P extends string>(prefix: P) {
  const fields = suffixes.map((suffix) => [`${prefix}${suffix}`, suffix === 'HouseNumber' ? houseNumberIn : textIn]);
  return {
    ...Object.fromEntries(fields),
    [`${prefix}CountryIso`]: z.union([z.string(), z.int()]).nullish(),
  } as Record<`${P}${(typeof suffixes)[number] | 'CountryIso'}`, z.ZodType<string | number | null | undefined>>;
}

/** Body of the oldest order add (interface.md, Oldest-generation operations). */
export const orderBody = z.strictObject({
  ExternalOrderNumber: z.string().min(1).max(50),
  PreferredShippingDate: dayIn,
  Email: textIn,
  LanguageId: integerIn,
  OrderTypeId: integerIn,
  PaymentMethodId: integerIn.nullish(),
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
});
type Body = z.output<typeof orderBody>;

/** @throws Refusal where an id stands for nothing */
export function readOrder(body: Body, zone: Zone, nowMs: number): OrderDraft {
  const billing = addressOf(body, 'BillingAddress');
  const delivery = addressOf(body, 'DeliveryAddress');
  const isGiven = (lines: AddressLines) => Object.values(lines).some((value) => value !== null);
  const deliveryAddress = isGiven(delivery) ? delivery : billing;
  if (deliveryAddress.countryCode === null) throw ruleBroken('An order needs an address with its CountryIso');
  return {
    externalOrderNumber: body.ExternalOrderNumber,
    reference: null,
    consumerReference: null,
    promotionCode: null,
    locale: localeOf(body.LanguageId),
    email: body.Email || noReplyAddress,
    phoneNumber: body.PhoneNumber || null,
    vatNumber: null,
    fulfillFrom: null,
    preferredShippingDate: warehouseDay(zone, body.PreferredShippingDate),
    allowPartialDelivery: null,
    onHold: false,
    metadata: {},
    orderedOn: zone.day(nowMs),
    currency: 'EUR',
    orderTypeId: body.OrderTypeId,
    shippingMethodId: mainMethodOf(body.ShippingMethodId),
    lines: body.OrderItems.map(({ Sku, Name, Price, Quantity, Vat }) => ({
      sku: Sku,
      quantity: Quantity,
      fulfillFrom: null,
      price: numberOf(Price),
      vat: Vat ?? null,
      name: Name || null,
      metadata: {},
    })),
    deliveryAddress,
    billingAddress: isGiven(billing) ? billing : deliveryAddress,
    pickUpPoint: null,
    attachment: null,
  };
}

function addressOf(body: Body, prefix: 'BillingAddress' | 'DeliveryAddress'): AddressLines {
  const field = (suffix: (typeof suffixes)[number] | 'CountryIso') => {
    const value = body[`${prefix}${suffix}`];
    return value === null || value === undefined || value === '' ? null : String(value);
  };
  const country = field('CountryIso');
  return {
    firstName: field('FirstName'),
    lastName: field('LastName'),
    prefix: null,
    street1: field('Street'),
    postcode: field('PostalCode'),
    houseNumber: field('HouseNumber'),
    houseNumberExtension: field('HouseNumberAddition'),
    city: field('CityName'),
    countryCode: country === null ? null : countryOf(country),
  };
}
