import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import type { LineDraft, OrderDraft } from '../../rules/place-order.ts';
import type { AddressLines } from '../../store/model.ts';
import { noReplyAddress, settings } from '../../store/settings.ts';
import { decimalIn, numberOf } from '../older-input.ts';
import {
  dateIn,
  documentIn,
  includedIn,
  linksTo,
  linkTo,
  orNull,
  ownMembers,
  provisionalId,
  quantityIn,
  textIn,
  textsIn,
  textsOf,
} from './input.ts';

/** A link to the order itself, which has no id so far. */
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
    metadata: textsOf('serviceLevel', 'purchases', 'reference', 'extra6', 'extra7'),
  }),
  relationships: z.strictObject({ product: linkTo('product').optional(), order: anyLink.optional() }).optional(),
});
const addressIn = z.strictObject({
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
const pickUpPointIn = z.strictObject({
  type: z.literal('pickUpPoint'),
  id: provisionalId.optional(),
  attributes: ownMembers,
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

/** Body of POST /v3/orders. Which attributes are required is not shown, but for the order type (docs/sandbox.md). */
export const orderBody = documentIn(
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
        .default(settings.languages[0].code),
      email: textIn,
      phoneNumber: textIn,
      vatNumber: textIn,
      fulfillFrom: textIn,
      preferredShippingDate: dateIn.nullish(),
      allowPartialDelivery: z.boolean().nullish(),
      onHold: z.boolean().default(false),
      metadata: textsOf('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
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

/** What an order's request asks for, and its attachment's content. @throws Refusal where its parts do not fit together */
export function readOrder(body: OrderBody, today: string): { draft: OrderDraft; content: Attached | null } {
  const { attributes, relationships } = body.data;
  const lines = partsOf(body, 'orderItem').map(({ resource, pointer }) => lineOf(resource, pointer));
  if (lines.length === 0) throw ruleBroken('An order needs at least one orderItem', '/data/included');
  const [pickUpPoint, ...otherPoints] = partsOf(body, 'pickUpPoint');
  if (otherPoints[0]) throw ruleBroken('An order has one pickUpPoint at most', otherPoints[0].pointer);
  const [attachment, ...others] = partsOf(body, 'orderAttachment');
  if (others[0])
    throw ruleBroken('One orderAttachment goes along with an order; add others to it afterwards', others[0].pointer);
  const deliveryAddress = addressOf(body, 'deliveryAddress');
  const { allowPartialDelivery = null, metadata, orderedOn, preferredShippingDate, ...own } = attributes;
  const draft: OrderDraft = {
    externalOrderNumber: own.externalOrderNumber,
    reference: orNull(own.reference),
    consumerReference: orNull(own.consumerReference),
    promotionCode: orNull(own.promotionCode),
    locale: own.locale,
    email: orNull(own.email) ?? noReplyAddress,
    phoneNumber: orNull(own.phoneNumber),
    vatNumber: orNull(own.vatNumber),
    fulfillFrom: orNull(own.fulfillFrom),
    preferredShippingDate: preferredShippingDate ?? null,
    allowPartialDelivery,
    onHold: own.onHold,
    metadata: textsIn(metadata),
    orderedOn: orderedOn ?? today,
    currency: 'EUR',
    orderTypeId: relationships.orderType.data.id,
    shippingMethodId: relationships.preferredShippingMethod?.data?.id ?? null,
    lines,
    deliveryAddress,
    billingAddress: relationships.billingAddress === undefined ? deliveryAddress : addressOf(body, 'billingAddress'),
    pickUpPoint: pickUpPoint?.resource.attributes ?? null,
    attachment: attachment === undefined ? null : { filename: attachment.resource.attributes.filename },
  };
  const content = attachment && { base64: attachment.resource.attributes.content, pointer: attachment.pointer };
  return { draft, content: content ?? null };
}

export interface Attached {
  readonly base64: string;
  readonly pointer: string;
}

type Part = NonNullable<OrderBody['included']>[number];

function partsOf<T extends Part['type']>(body: OrderBody, type: T) {
  return includedIn<Part>(body).filter(
    (part): part is { resource: Extract<Part, { type: T }>; pointer: string } => part.resource.type === type,
  );
}

function lineOf({ attributes }: Extract<Part, { type: 'orderItem' }>, pointer: string): LineDraft {
  const { sku, quantity, fulfillFrom, price, vat = null, name, metadata } = attributes;
  const own = { sku, quantity, price: numberOf(price), vat, fulfillFrom: orNull(fulfillFrom), name: orNull(name) };
  return { ...own, metadata: textsIn(metadata), pointer };
}

function addressOf(body: OrderBody, role: 'deliveryAddress' | 'billingAddress'): AddressLines {
  const wanted = body.data.relationships[role]?.data.id;
  const found = partsOf(body, 'address').filter(({ resource }) => String(resource.id) === String(wanted));
  const pointer = `/data/relationships/${role}`;
  const [address, ...others] = found;
  if (address === undefined) throw ruleBroken(`No included address has the id ${wanted}`, pointer);
  if (others.length > 0) throw ruleBroken(`Several included addresses have the id ${wanted}`, pointer);
  const { countryCode, ...lines } = address.resource.attributes;
  return {
    firstName: orNull(lines.firstName),
    lastName: orNull(lines.lastName),
    prefix: orNull(lines.prefix),
    street1: orNull(lines.street1),
    postcode: orNull(lines.postcode),
    houseNumber: orNull(lines.houseNumber),
    houseNumberExtension: orNull(lines.houseNumberExtension),
    city: orNull(lines.city),
    countryCode,
  };
}
