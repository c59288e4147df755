import { z } from 'zod';
import {
  anyMembers,
  assumedRequired,
  codeOf,
  codeOrId,
  day,
  decimal,
  documentContent,
  idNumber,
  optionalText,
  personal,
  personalText,
  quantity,
  rate,
  requiredText,
  textsNamed,
} from './members.ts';

/**
 * The form of a locale. The codes of the list `languages` are compared with it if all of them have
 * this form.
 */
export const localeForm = /^[a-z]{2}-[A-Z]{2}$/;
const locale = z
  .string()
  .regex(localeForm, 'must be a language and a region, such as nl-NL')
  .meta(codeOf('languages'));
/**
 * The form of a country code. The codes of the list `countries` are compared with it if all of them
 * have this form.
 */
export const countryForm = /^[A-Z]{2}$/;
const countryCode = z
  .string()
  .regex(countryForm, 'must be a country code of two letters, such as NL');

/** Schema of an address. Those of an order and of a change have the same members. */
export const address = z.strictObject({
  firstName: personalText,
  prefix: personalText,
  lastName: assumedRequired(requiredText.meta(personal)),
  street1: assumedRequired(requiredText.meta(personal)),
  houseNumber: personalText,
  houseNumberExtension: personalText,
  postcode: personalText,
  city: personalText,
  countryCode: assumedRequired(countryCode),
});
/** Schema of the address that the goods go to. */
export const deliveryAddress = address.extend({
  countryCode: assumedRequired(countryCode.meta(codeOf('countries'))),
});

const item = z.strictObject({
  sku: assumedRequired(requiredText),
  quantity: assumedRequired(quantity),
  price: decimal.nullish(),
  vat: rate.nullish(),
  name: optionalText,
  fulfillFrom: optionalText,
  channelIdentifier: optionalText,
  metadata: textsNamed('serviceLevel', 'purchases', 'reference', 'extra6', 'extra7'),
});

const email = z
  .string()
  .nullish()
  .meta({ ...personal, description: 'null or none: the service uses its no-reply address' });
const allowPartialDelivery = z
  .boolean()
  .nullish()
  .meta({ description: 'null: the default of the order type' });
const orderNumber = z
  .string()
  .min(1, 'must have 1 to 50 characters')
  .max(50, 'must have 1 to 50 characters');
const orderMetadata = textsNamed('extra1', 'extra2', 'extra3', 'extra4', 'extra5');

/** An attachment: sent with its order, or alone as the payload of order_attachment.create. */
export const attachment = z.strictObject({
  filename: assumedRequired(requiredText.meta(personal)),
  content: documentContent,
  contentType: z.literal('application/pdf', 'must be application/pdf').nullish(),
  printStrategy: z.literal('REQUIRED', 'must be REQUIRED').nullish(),
});

/**
 * Payload of order.create (docs/interface.md, 7.1 Fields and 7.6 Create). Null is the same as
 * absent.
 */
export const orderPayload = z.strictObject({
  externalOrderNumber: orderNumber,
  orderType: requiredText.nullish().meta(codeOrId('orderTypes', 'orderTypeId')),
  orderTypeId: idNumber.nullish(),
  shippingMethod: requiredText.nullish().meta(codeOf('mainShippingMethods')),
  shippingMethodId: idNumber.nullish(),
  locale: assumedRequired(locale),
  email,
  phoneNumber: personalText,
  vatNumber: personalText,
  reference: optionalText,
  consumerReference: personalText,
  promotionCode: optionalText,
  orderedOn: day.nullish(),
  fulfillFrom: optionalText,
  preferredShippingDate: day.nullish(),
  allowPartialDelivery,
  onHold: z.boolean().nullish(),
  metadata: orderMetadata,
  items: z.array(item).min(1, 'must have at least one entry'),
  deliveryAddress,
  billingAddress: address.nullish(),
  pickUpPoint: anyMembers,
  attachments: z.array(attachment).nullish(),
});
export type OrderPayload = z.infer<typeof orderPayload>;
export type OrderAttachment = z.infer<typeof attachment>;

/** Payload of order.update. A member that is absent is kept. */
export const orderChange = z.strictObject({
  reference: optionalText,
  consumerReference: personalText,
  promotionCode: optionalText,
  locale: locale.optional(),
  email,
  phoneNumber: personalText,
  vatNumber: personalText,
  fulfillFrom: optionalText,
  preferredShippingDate: day.nullish(),
  allowPartialDelivery,
  onHold: z.boolean().optional(),
  metadata: orderMetadata,
});

/** Payload of order.rename. */
export const orderRenamePayload = z.strictObject({
  externalOrderNumber: orderNumber.meta({
    description: 'the new number; the reference of the row is the present one',
  }),
});

/**
 * Payload of order_item.cancel. The interface cancels what is left of an item, not a part of it.
 */
export const cancelledItem = z.strictObject({
  orderItemId: idNumber.nullish(),
  sku: requiredText.nullish(),
});
