/**
 * The operations of the generation v3. Names and shapes are those of docs/interface.md.
 */

import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { cancelItems, type LineDraft, type OrderDraft, placeOrder } from '../rules/orders.ts';
import { checkPrintable } from '../rules/pdf.ts';
import type { ClientStore } from '../store/client-store.ts';
import { type Filter, SortedRows } from '../store/listing.ts';
import type { AddressLines, Order } from '../store/model.ts';
import { noReplyAddress, type ServiceLists } from '../store/service-lists.ts';
import { decimalIn, toNumber } from './older-fields.ts';
import { defineOperation } from './operation.ts';
import { day, orderNumbers, type ParameterValues, paging, uniqueTexts } from './parameters.ts';
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
} from './v3-document.ts';
import {
  orderDocument,
  orderInclude,
  orderIncludeNames,
  orderPage,
  orderSchema,
  renderOrder,
} from './v3-order-resource.ts';

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
const orderBody = documentInput(
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

const listParameters = {
  ...paging,
  ...orderInclude,
  'filter[orderedOn][gt]': day,
  'filter[orderedOn][lt]': day,
  'filter[externalOrderNumber][in]': orderNumbers,
  'filter[reference][in]': uniqueTexts,
} as const;
const links = z.strictObject({ data: z.array(z.strictObject({ id: z.int(), type: z.literal('orderItem') })) });
const cancelledOrder = z.strictObject({
  data: orderSchema,
  meta: z.strictObject({ modified: z.boolean(), modifiedItems: links }),
});
const pointers = {
  externalOrderNumber: '/data/attributes/externalOrderNumber',
  orderType: '/data/relationships/orderType',
  shippingMethod: '/data/relationships/preferredShippingMethod',
  fulfillFrom: '/data/attributes/fulfillFrom',
};

/**
 * The operations on orders (docs/interface.md, 7.4 Operations). `included` is always inside the order (docs/interface.md,
 * 2.3 v3 resource objects).
 */
export const orderOperations = [
  defineOperation({
    name: 'v3.orders.list',
    route: 'GET /v3/orders',
    summary: "The client's orders, by ascending id",
    query: listParameters,
    answer: orderPage,
    run: (call) => {
      const selection = call.store.listedOrders.select(readFilters(call.store, call.query));
      return call.renderList('order', selection, (order) => renderOrder(order, call.query.include), 'inside');
    },
  }),
  defineOperation({
    name: 'v3.orders.create',
    route: 'POST /v3/orders',
    summary: 'Creates an order with its items and addresses',
    body: orderBody,
    answer: orderDocument,
    run: async (call) => {
      const { simulation, body } = call;
      const { draft, content } = readOrder(body, simulation.store.zone.day(call.nowMs), simulation.store.lists);
      if (content !== null) {
        await checkPrintable(Buffer.from(content.base64, 'base64'), `${content.pointer}/attributes/content`);
      }
      const order = placeOrder(simulation, draft, call.nowMs, pointers);
      call.recordWrite('order', order.id, null);
      return call.renderOne(renderOrder(order, orderIncludeNames), 'inside');
    },
  }),
  defineOperation({
    name: 'v3.orders.get',
    route: 'GET /v3/orders/:id',
    summary: 'One order',
    query: orderInclude,
    answer: orderDocument,
    run: (call) =>
      call.renderOne(
        renderOrder(call.requireRow('order', call.store.orders.get(call.id)), call.query.include),
        'inside',
      ),
  }),
  defineOperation({
    name: 'v3.orders.cancel',
    route: 'DELETE /v3/orders/:id',
    summary: 'Cancels what is left of every item of an order',
    query: orderInclude,
    answer: cancelledOrder,
    run: (call) => {
      const order = call.requireRow('order', call.store.orders.get(call.id));
      call.recordWrite('order', order.id, order);
      const changed = cancelItems(call.simulation, order, order.items, call.nowMs);
      const modifiedItems = { data: changed.map(({ id }) => ({ id, type: 'orderItem' })) };
      const meta = { modified: changed.length > 0, modifiedItems };
      return { ...call.renderOne(renderOrder(order, call.query.include), 'inside'), meta };
    },
  }),
];

function readFilters(
  { listedOrders, orderByNumber }: ClientStore,
  query: ParameterValues<typeof listParameters>,
): Filter<Order>[] {
  const filters = [
    ...listedOrders.filterByDays('orderedOn', query['filter[orderedOn][gt]'], query['filter[orderedOn][lt]']),
    ...listedOrders.filterByKeys('reference', query['filter[reference][in]']),
  ];
  const numbers = query['filter[externalOrderNumber][in]'];
  if (numbers === undefined) return filters;
  const found = numbers.flatMap((number) => orderByNumber.get(number) ?? []);
  const wanted = new Set(numbers);
  return [
    ...filters,
    { sources: [SortedRows.fromRows(found)], test: ({ externalOrderNumber }) => wanted.has(externalOrderNumber) },
  ];
}

/**
 * Reads the order and the content of its attachment from a body.
 * @throws Refusal if items or addresses are missing, or if a resource is included too often
 */
function readOrder(
  body: OrderBody,
  today: string,
  lists: ServiceLists,
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
    locale: given.locale ?? lists.usualLocale,
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
interface AttachedContent {
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
