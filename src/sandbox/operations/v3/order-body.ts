import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import type { LineDraft, OrderDraft } from '../../rules/orders.ts';
import type { AddressLines } from '../../store/model.ts';
import { noReplyAddress, type ServiceSettings } from '../../store/settings.ts';
import { decimalIn, toNumber } from '../older-fields.ts';
import {
  clientMembers,
  dateIn,
  documentInput,
  emptyToNull,
  keepGivenTexts,
  linksTo,
  linkTo,
  namedTexts,
  provisionalId,
  quantityIn,
  readIncluded,
  textIn,
} from './input.ts';

/** A link to the order that is created. It has no id yet, so the link is not checked. */
const anyLink = z.looseObject({});
const lineIn = z.strictObject({
  type: z.literal('orderItem'),
  id: provisionalId.optional(),
  attributes: z.strictObject({
    sku: z.string().min(1),
    quantity: quantityIn,
    fulfillFrom: textIn,
    price: decimalIn.nullish(),
    vat: decimalIn.nullish(),
    name: textIn,
    channelIdentifier: textIn,
    metadata: namedTexts('serviceLevel', 'purchases', 'reference', 'extra6', 'extra7'),
  }),
  relationships: z.strictObject({ product: linkTo('product').optional(), order: anyLink.optional() }).optional(),
});
export const addressIn = z.strictObject({
  type: z.literal('address'),
  id: provisionalId,
  attributes: z.strictObject({
    firstName: textIn,
    lastName: textIn,
    prefix: textIn,
    street1: textIn,
    postcode: textIn,
    houseNumber: textIn,
    houseNumberExtension: textIn,
    city: textIn,
    countryCode: z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters'),
  }),
});
export const pickUpPointIn = z.strictObject({
  type: z.literal('pickUpPoint'),
  id: provisionalId.optional(),
  attributes: clientMembers,
});
export const attachmentAttributes = z.strictObject({
  externalOrderNumber: z.string().optional(),
  filename: z.string().min(1),
  contentType: z.literal('application/pdf').default('application/pdf'),
  printStrategy: z.literal('REQUIRED').default('REQUIRED'),
  content: z.base64('must be base64').min(1),
});
const attachmentIn = z.strictObject({
  type: z.literal('orderAttachment'),
  id: provisionalId.optional(),
  attributes: attachmentAttributes,
  relationships: z.strictObject({ order: anyLink.optional() }).optional(),
});
const linkToAddress = z.strictObject({ data: z.strictObject({ id: provisionalId, type: z.literal('address') }) });

/**
 * The body of `POST /v3/orders` (docs/interface.md, 7.6 Create). Which attributes are required is not shown; our choice
 * is in docs/sandbox.md.
 */
export const orderBody = documentInput(
  {
    type: z.literal('order'),
    id: provisionalId.optional(),
    attributes: z.strictObject({
      externalOrderNumber: z.string().min(1).max(50),
      reference: textIn,
      orderedOn: dateIn.nullish(),
      consumerReference: textIn,
      promotionCode: textIn,
      locale: z
        .string()
        .regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a locale such as nl-NL')
        .optional(),
      email: textIn,
      phoneNumber: textIn,
      vatNumber: textIn,
      fulfillFrom: textIn,
      preferredShippingDate: dateIn.nullish(),
      allowPartialDelivery: z.boolean().nullish(),
      onHold: z.boolean().default(false),
      metadata: namedTexts('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
    }),
    relationships: z.strictObject({
      orderType: linkTo('orderType'),
      orderItems: linksTo('orderItem').optional(),
      deliveryAddress: linkToAddress,
      billingAddress: linkToAddress.optional(),
      pickUpPoint: z
        .strictObject({
          data: z.strictObject({ id: provisionalId.optional(), type: z.literal('pickUpPoint') }).nullable(),
        })
        .optional(),
      preferredShippingMethod: z.union([linkTo('shippingMethod'), z.strictObject({ data: z.null() })]).optional(),
    }),
  },
  z.discriminatedUnion('type', [lineIn, addressIn, pickUpPointIn, attachmentIn]),
);
type OrderBody = z.output<typeof orderBody>;

/**
 * Reads the order and the content of its attachment from a body.
 * @throws Refusal if items or addresses are missing, or if a resource is included too often
 */
export function readOrder(
  body: OrderBody,
  today: string,
  settings: ServiceSettings,
): { draft: OrderDraft; content: AttachedContent | null } {
  const { attributes, relationships } = body.data;
  const lines = selectParts(body, 'orderItem').map(({ resource, pointer }) => readLine(resource, pointer));
  if (lines.length === 0) throw ruleBroken('An order needs at least one orderItem', '/data/included');
  const [pickUpPoint, ...otherPoints] = selectParts(body, 'pickUpPoint');
  if (otherPoints[0]) throw ruleBroken('An order has one pickUpPoint at most', otherPoints[0].pointer);
  const [attachment, ...others] = selectParts(body, 'orderAttachment');
  if (others[0])
    throw ruleBroken('One orderAttachment goes along with an order; add others to it afterwards', others[0].pointer);
  const deliveryAddress = readAddress(body, 'deliveryAddress');
  const { allowPartialDelivery = null, metadata, orderedOn, preferredShippingDate, ...given } = attributes;
  const draft: OrderDraft = {
    externalOrderNumber: given.externalOrderNumber,
    reference: emptyToNull(given.reference),
    consumerReference: emptyToNull(given.consumerReference),
    promotionCode: emptyToNull(given.promotionCode),
    locale: given.locale ?? settings.usualLocale,
    email: emptyToNull(given.email) ?? noReplyAddress,
    phoneNumber: emptyToNull(given.phoneNumber),
    vatNumber: emptyToNull(given.vatNumber),
    fulfillFrom: emptyToNull(given.fulfillFrom),
    preferredShippingDate: preferredShippingDate ?? null,
    allowPartialDelivery,
    onHold: given.onHold,
    metadata: keepGivenTexts(metadata),
    orderedOn: orderedOn ?? today,
    currency: 'EUR',
    orderTypeId: relationships.orderType.data.id,
    shippingMethodId: relationships.preferredShippingMethod?.data?.id ?? null,
    lines,
    deliveryAddress,
    billingAddress: relationships.billingAddress === undefined ? deliveryAddress : readAddress(body, 'billingAddress'),
    pickUpPoint: pickUpPoint?.resource.attributes ?? null,
    attachment: attachment === undefined ? null : { filename: attachment.resource.attributes.filename },
  };
  const content = attachment && { base64: attachment.resource.attributes.content, pointer: attachment.pointer };
  return { draft, content: content ?? null };
}

/** The content of an attachment, with its place in the request. */
export interface AttachedContent {
  readonly base64: string;
  readonly pointer: string;
}

type Part = NonNullable<OrderBody['included']>[number];

function selectParts<T extends Part['type']>(body: OrderBody, type: T) {
  return readIncluded<Part>(body).filter(
    (part): part is { resource: Extract<Part, { type: T }>; pointer: string } => part.resource.type === type,
  );
}

function readLine({ attributes }: Extract<Part, { type: 'orderItem' }>, pointer: string): LineDraft {
  const { sku, quantity, fulfillFrom, price, vat = null, name, channelIdentifier, metadata } = attributes;
  const line = {
    sku,
    quantity,
    price: toNumber(price),
    vat,
    fulfillFrom: emptyToNull(fulfillFrom),
    name: emptyToNull(name),
    channelIdentifier: emptyToNull(channelIdentifier),
  };
  return { ...line, metadata: keepGivenTexts(metadata), pointer };
}

function readAddress(body: OrderBody, role: 'deliveryAddress' | 'billingAddress'): AddressLines {
  const addresses = selectParts(body, 'address').map(({ resource }) => resource);
  return findAddress(addresses, body.data.relationships[role]?.data.id, `/data/relationships/${role}`);
}

/**
 * Returns the lines of the included address with a provisional id.
 * @param pointer place of the link, for errors
 * @throws Refusal if there is not exactly one
 */
export function findAddress(
  addresses: readonly z.output<typeof addressIn>[],
  wanted: string | number | undefined,
  pointer: string,
): AddressLines {
  const [address, ...others] = addresses.filter(({ id }) => String(id) === String(wanted));
  if (address === undefined) throw ruleBroken(`No included address has the id ${wanted}`, pointer);
  if (others.length > 0) throw ruleBroken(`Several included addresses have the id ${wanted}`, pointer);
  const { countryCode, ...lines } = address.attributes;
  return {
    firstName: emptyToNull(lines.firstName),
    lastName: emptyToNull(lines.lastName),
    prefix: emptyToNull(lines.prefix),
    street1: emptyToNull(lines.street1),
    postcode: emptyToNull(lines.postcode),
    houseNumber: emptyToNull(lines.houseNumber),
    houseNumberExtension: emptyToNull(lines.houseNumberExtension),
    city: emptyToNull(lines.city),
    countryCode,
  };
}
