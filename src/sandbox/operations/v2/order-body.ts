import { z } from 'zod';
import type { OrderDraft } from '../../rules/place-order.ts';
import type { AddressLines } from '../../store/model.ts';
import { noReplyAddress } from '../../store/settings.ts';
import type { Zone } from '../../times.ts';
import { countryOf, dayIn, localeOf, mainMethodOf, textIn, warehouseDay, warehouseOf } from '../older-input.ts';

const textFields = <const Names extends readonly string[]>(...names: Names) =>
  Object.fromEntries(names.map((name) => [name, textIn])) as Record<Names[number], typeof textIn>;
const requiredText = z.string().min(1, 'must not be empty');

/** Body of the v2 add order (interface.md, v2 add-order request fields), spelled as there. */
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
  ...textFields('bankAccountNumber', 'bankAccountHolderName', 'bankAccountCityName'),
  paymentMethodId: z.literal(1, 'must be 1'),
  shippingMethodId: z.int('must be a whole number').nullish(),
  deliveryAddressLastName: requiredText,
  deliveryAddressPostalCode: requiredText,
  deliveryAddressStreet: requiredText,
  deliveryAddressCountryIso: z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters'),
  deliveryAddressHouseNumber: z.int('must be a whole number').nullish(),
  // Written with a capital D (interface.md).
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

/** @throws Refusal where an id stands for nothing */
export function readOrder(body: Body, zone: Zone, nowMs: number): OrderDraft {
  const deliveryAddress = deliveryOf(body);
  const pickUpPoint = Object.fromEntries(
    Object.entries(body).flatMap(([name, value]) => {
      const suffix = /^pickUpPoint(.+)$/.exec(name)?.[1];
      return suffix === undefined || value === null || value === undefined ? [] : [[lowerFirst(suffix), value]];
    }),
  );
  return {
    externalOrderNumber: body.externalOrderNumber,
    reference: body.extraReference || null,
    consumerReference: body.clientReference || null,
    promotionCode: body.actionCode || null,
    locale: localeOf(body.languageId),
    email: body.email || noReplyAddress,
    phoneNumber: body.phoneNumber || null,
    vatNumber: body.vatNumber || null,
    fulfillFrom: warehouseOf(body.warehouseId),
    preferredShippingDate: warehouseDay(zone, body.preferredShippingDate),
    allowPartialDelivery: body.partialDelivery ?? null,
    onHold: body.onHold ?? false,
    metadata: givenTexts({
      extra1: body.extra1,
      extra2: body.extra2,
      extra3: body.extra3,
      extra4: body.extra4,
      extra5: body.extra5,
    }),
    orderedOn: zone.day(nowMs),
    currency: body.currency,
    orderTypeId: body.orderTypeId,
    shippingMethodId: mainMethodOf(body.shippingMethodId),
    lines: body.orderItems.map(({ sku, quantity, name, price, vat, extra6, extra7, warehouseId }) => ({
      sku,
      quantity,
      fulfillFrom: warehouseOf(warehouseId),
      price: price ?? null,
      vat: vat ?? null,
      name: name || null,
      metadata: givenTexts({ extra6, extra7 }),
    })),
    deliveryAddress,
    billingAddress: billingOf(body) ?? deliveryAddress,
    pickUpPoint: Object.keys(pickUpPoint).length === 0 ? null : pickUpPoint,
    attachment: null,
  };
}

function deliveryOf(body: Body): AddressLines {
  return {
    firstName: body.deliveryAddressFirstName || null,
    lastName: body.deliveryAddressLastName,
    prefix: body.deliveryAddressInsertion || null,
    street1: body.deliveryAddressStreet,
    postcode: body.deliveryAddressPostalCode,
    houseNumber: digits(body.deliveryAddressHouseNumber),
    houseNumberExtension: body.deliveryAddressHouseNumberAddition || null,
    city: body.DeliveryAddressCityName || null,
    countryCode: body.deliveryAddressCountryIso,
  };
}

function billingOf(body: Body): AddressLines | null {
  if (!Object.entries(body).some(([name, value]) => name.startsWith('billingAddress') && value)) return null;
  return {
    firstName: body.billingAddressFirstName || null,
    lastName: body.billingAddressLastName || null,
    prefix: body.billingAddressInsertion || null,
    street1: body.billingAddressStreet || null,
    postcode: body.billingAddressPostalCode || null,
    houseNumber: digits(body.billingAddressHouseNumber),
    houseNumberExtension: body.billingAddressHouseNumberAddition || null,
    city: body.billingAddressCityName || null,
    countryCode: body.billingAddressCountryIso ? countryOf(body.billingAddressCountryIso) : null,
  };
}

/** v2 has house numbers as integers, v3 as texts. */
const digits = (number: number | null | undefined) => (number === null || number === undefined ? null : String(number));

const lowerFirst = (text: string) => `${text.charAt(0).toLowerCase()}${text.slice(1)}`;

function givenTexts(texts: Readonly<Record<string, string | null | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter((entry): entry is [string, string] => Boolean(entry[1])));
}
