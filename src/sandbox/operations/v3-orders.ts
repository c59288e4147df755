import { z } from 'zod';
import { notFound, ruleBroken } from '../refusal.ts';
import {
  cancelItems,
  changeOrder,
  isFulfilled,
  type LineDraft,
  type OrderDraft,
  placeOrder,
} from '../rules/orders.ts';
import { checkPrintable } from '../rules/pdf.ts';
import type { Client } from '../store/client.ts';
import { SortedRows, type StoredRow } from '../store/listing.ts';
import {
  type AddressLines,
  addressTexts,
  type ChangeableOrder,
  type ChangeableRelationships,
  type Order,
  type OrderItem,
  orderTexts,
} from '../store/model.ts';
import { noReplyAddress, type ServiceLists } from '../store/service-lists.ts';
import { showRelationships } from './dialect.ts';
import {
  assertSameId,
  clientMembers,
  dateIn,
  documentIn,
  idIn,
  keepGivenTexts,
  linksTo,
  linkTo,
  namedTexts,
  provisionalId,
  quantityIn,
  readIncluded,
  readTexts,
  resourceIn,
  selectParts,
  textIn,
} from './document.ts';
import { decimalIn, toNumber } from './older-fields.ts';
import {
  type Call,
  defineOperation,
  members,
  orderNumbers,
  readId,
  recordWrite,
  requireRow,
  uniqueList,
} from './operation.ts';
import {
  byDays,
  byKeys,
  byValues,
  defineGet,
  defineList,
  defineResource,
  include,
  many,
  metadata,
  one,
  oneOrNone,
  renderDocument,
  text,
} from './resource.ts';

const decimal = z.union([z.number(), z.string().regex(/^-?\d+(\.\d+)?$/, 'must be a decimal')]);

/** docs/interface.md, 8.1 Fields. */
const orderItemResource = defineResource<OrderItem>('orderItem', {
  attributes: {
    sku: z.string(),
    quantity: z.int(),
    fulfillFrom: text,
    price: z.number().nullable(),
    vat: decimal.nullable(),
    name: text,
    channelIdentifier: text,
    metadata,
  },
  relationships: {
    order: one('order', ({ id }, client) => client.findOrderOfItem(id)?.id ?? 0),
    product: one('product', ({ productId }) => productId),
  },
});
const addressResource = defineResource<AddressLines & StoredRow>('address', {
  attributes: members(text, [...addressTexts, 'countryCode']),
});
/**
 * docs/interface.md does not show the fields of a pick-up point, so all members that were sent are
 * shown.
 */
const pickUpPointResource = {
  schema: z.strictObject({ id: z.int(), type: z.literal('pickUpPoint'), attributes: metadata }),
  render: ({ id, attributes }: NonNullable<Order['pickUpPoint']>) => ({
    id,
    type: 'pickUpPoint',
    attributes,
  }),
};

const itemLinks = many('orderItem', ({ items }: Order) => items);
/** docs/interface.md, 7.1 Fields, 7.5 Filters (`include`) and 2.3 v3 resource objects. */
export const orderResource = defineResource<Order>('order', {
  attributes: {
    ...members(text, orderTexts),
    externalOrderNumber: z.string(),
    orderedOn: z.iso.date(),
    currency: z.string(),
    locale: z.string(),
    email: z.string(),
    preferredShippingDate: z.iso.date().nullable(),
    allowPartialDelivery: z.boolean(),
    onHold: z.boolean(),
    metadata,
    channelIdentifier: text,
  },
  relationships: {
    orderType: one('orderType', ({ orderTypeId }) => orderTypeId),
    orderItems: itemLinks,
    deliveryAddress: one('address', ({ deliveryAddressId }) => deliveryAddressId),
    billingAddress: one('address', ({ billingAddressId }) => billingAddressId),
    pickUpPoint: oneOrNone('pickUpPoint', ({ pickUpPoint }) => pickUpPoint?.id ?? null),
    preferredShippingMethod: oneOrNone(
      'shippingMethod',
      ({ shippingMethodId }) => shippingMethodId,
    ),
  },
  includes: {
    orderItems: include(orderItemResource, ({ items }) => items),
    deliveryAddress: include(addressResource, (row) => [
      { id: row.deliveryAddressId, ...row.deliveryAddress },
    ]),
    billingAddress: include(addressResource, (row) => [
      { id: row.billingAddressId, ...row.billingAddress },
    ]),
    pickUpPoint: include(pickUpPointResource, ({ pickUpPoint }) =>
      pickUpPoint === null ? [] : [pickUpPoint],
    ),
  },
  isInsideOnly: true,
});

const notNull = 'must not be null';
/** The attributes that a creation and an update of an order have in common. */
const commonAttributes = {
  ...members(textIn, orderTexts),
  orderedOn: dateIn.nullish(),
  email: textIn,
  preferredShippingDate: dateIn.nullish(),
  allowPartialDelivery: z.boolean().nullish(),
  metadata: namedTexts('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
  locale: z
    .string(notNull)
    .regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a locale such as nl-NL')
    .optional(),
};

/** A link to the order that is created. It has no id yet, so the link is not checked. */
const anyLink = z.looseObject({}).optional();
const lineIn = resourceIn('orderItem', {
  attributes: z.strictObject({
    sku: z.string().min(1),
    quantity: quantityIn,
    price: decimalIn.nullish(),
    vat: decimalIn.nullish(),
    ...members(textIn, ['fulfillFrom', 'name', 'channelIdentifier']),
    metadata: namedTexts('serviceLevel', 'purchases', 'reference', 'extra6', 'extra7'),
  }),
  relationships: z
    .strictObject({ product: linkTo('product').optional(), order: anyLink })
    .optional(),
});
const addressIn = resourceIn('address', {
  id: provisionalId,
  attributes: z.strictObject({
    ...members(textIn, addressTexts),
    countryCode: z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters'),
  }),
});
const pickUpPointIn = resourceIn('pickUpPoint', { attributes: clientMembers });
const attachmentAttributes = z.strictObject({
  externalOrderNumber: z.string().optional(),
  filename: z.string().min(1),
  contentType: z.literal('application/pdf').default('application/pdf'),
  printStrategy: z.literal('REQUIRED').default('REQUIRED'),
  content: z.base64('must be base64').min(1),
});
const attachmentIn = resourceIn('orderAttachment', {
  attributes: attachmentAttributes,
  relationships: z.strictObject({ order: anyLink }).optional(),
});
const linkToAddress = z.strictObject({
  data: z.strictObject({ id: provisionalId, type: z.literal('address') }),
});

/**
 * docs/interface.md, 7.6 Create. Which attributes are required is not shown; our choice is in
 * docs/sandbox.md.
 */
const orderBody = documentIn(
  'order',
  {
    attributes: z.strictObject({
      ...commonAttributes,
      externalOrderNumber: z.string().min(1).max(50),
      onHold: z.boolean().default(false),
    }),
    relationships: z.strictObject({
      orderType: linkTo('orderType'),
      orderItems: linksTo('orderItem').optional(),
      deliveryAddress: linkToAddress,
      billingAddress: linkToAddress.optional(),
      pickUpPoint: z.strictObject({ data: resourceIn('pickUpPoint', {}).nullable() }).optional(),
      preferredShippingMethod: z
        .union([linkTo('shippingMethod'), z.strictObject({ data: z.null() })])
        .optional(),
    }),
  },
  z.discriminatedUnion('type', [lineIn, addressIn, pickUpPointIn, attachmentIn]),
);
type OrderBody = z.output<typeof orderBody>;

/** Resources that the relationships link to, if the switch `changeableRelationships` is on. */
const includedIn = z.array(z.discriminatedUnion('type', [addressIn, pickUpPointIn])).optional();
const linkIn = z.object({ id: provisionalId.optional() });
const anyRelationship = z.object({ data: z.union([linkIn, z.array(linkIn), z.null()]) }).nullable();
const anyRelationships = z.record(z.string(), anyRelationship).optional();

/**
 * docs/interface.md, 7.7 Update. `orderedOn`, `currency` and `channelIdentifier` may be sent, but
 * change nothing.
 */
const updateBody = z.strictObject({
  data: z.strictObject({
    id: idIn,
    type: z.literal('order'),
    attributes: z.strictObject({
      ...commonAttributes,
      externalOrderNumber: z.string(notNull).min(1).optional(),
      onHold: z.boolean(notNull).optional(),
      ...members(textIn, ['currency', 'channelIdentifier']),
    }),
    relationships: anyRelationships,
    included: includedIn,
  }),
  included: includedIn,
});
type UpdateBody = z.output<typeof updateBody>;

const cancelBody = z.strictObject({
  data: z.strictObject({
    id: idIn,
    type: z.literal('orderItem'),
    attributes: z.looseObject({
      quantity: z.literal(0, 'must be 0: an order item can be cancelled, not changed'),
    }),
    relationships: anyRelationships,
  }),
});
const attachmentBody = z.strictObject({
  data: resourceIn('orderAttachment', {
    attributes: attachmentAttributes,
    relationships: z.strictObject({ order: linkTo('order') }).optional(),
  }),
});
type AttachmentBody = z.output<typeof attachmentBody>;
type LinkedAttachment = StoredRow & { readonly orderId: number };
const attachmentResource = defineResource<LinkedAttachment>('orderAttachment', {
  attributes: {
    externalOrderNumber: z.string(),
    filename: z.string(),
    contentType: z.literal('application/pdf'),
    printStrategy: z.literal('REQUIRED'),
  },
  relationships: { order: one('order', ({ orderId }) => orderId) },
});

const requireOrder = (call: Call) =>
  requireRow(call, 'order', call.client.orders.get(readId(call)));

const answerWhole = (call: Call, order: Order) =>
  renderDocument(call, orderResource, order, orderResource.includeNames);

/**
 * The operations on orders, their items and their attachments (docs/interface.md, 7.4, 8.2 and 9.2
 * Operations).
 */
export const orderOperations = [
  defineList(orderResource, "The client's orders, by ascending id", ({ orders }) => orders, [
    byDays('orderedOn'),
    byValues('filter[externalOrderNumber][in]', orderNumbers, (numbers, { orderByNumber }) => ({
      sources: [new SortedRows(numbers.flatMap((number) => orderByNumber.get(number) ?? []))],
      test: ({ externalOrderNumber }) => numbers.includes(externalOrderNumber),
    })),
    byKeys('reference', uniqueList(z.string())),
  ]),
  defineOperation({
    name: 'v3.orders.create',
    route: 'POST /v3/orders',
    summary: 'Creates an order with its items and addresses',
    body: orderBody,
    answer: orderResource.document,
    run: async (call) => {
      const { client, body, nowMs } = call;
      const draft = readOrder(body, client.zone.day(nowMs), client.lists);
      for (const { resource, pointer } of selectParts(body, 'orderAttachment'))
        await checkPrintable(resource.attributes.content, `${pointer}/attributes/content`);

      const order = placeOrder(client, draft, nowMs);
      recordWrite(call, 'order', order, 'creation');
      return answerWhole(call, order);
    },
  }),
  defineGet(orderResource, 'One order', ({ orders }, id) => orders.get(id)),
  defineOperation({
    name: 'v3.orders.cancel',
    route: 'DELETE /v3/orders/:id',
    summary: 'Cancels what is left of every item of an order',
    query: orderResource.query,
    answer: z.strictObject({
      data: orderResource.schema,
      meta: z.strictObject({ modified: z.boolean(), modifiedItems: itemLinks[0] }),
    }),
    run: (call) => {
      const order = requireOrder(call);
      recordWrite(call, 'order', order);
      const changed = cancelItems(call.client, order, order.items, call.nowMs);
      const modifiedItems = { data: changed.map(({ id }) => ({ id, type: 'orderItem' })) };
      const meta = { modified: changed.length > 0, modifiedItems };
      return { ...renderDocument(call, orderResource, order), meta };
    },
  }),
  defineOperation({
    name: 'v3.orders.update',
    route: 'PATCH /v3/orders/:id',
    summary: 'Puts an order into the state that is sent',
    documented: false,
    query: orderResource.query,
    body: updateBody,
    answer: orderResource.document,
    run: (call) => {
      const order = requireOrder(call);
      assertSameId(call.body.data.id, order.id);
      const relationships = readWantedRelationships(call, order);
      const attributes = readWantedAttributes(call, order, relationships.orderTypeId);

      recordWrite(call, 'order', order);
      changeOrder(call.client, order, { ...attributes, ...relationships }, call.nowMs);
      return answerWhole(call, order);
    },
  }),
  defineOperation({
    name: 'v3.orderItems.get',
    route: 'GET /v3/orderItems/:id',
    summary: 'One order item',
    answer: orderItemResource.document,
    run: (call) => renderDocument(call, orderItemResource, findItem(call).item),
  }),
  defineOperation({
    name: 'v3.orderItems.cancel',
    route: 'PATCH /v3/orderItems/:id',
    summary: 'Cancels what is left of one order item',
    documented: false,
    body: cancelBody,
    answer: z.strictObject({
      data: orderItemResource.schema,
      meta: z.strictObject({ modified: z.boolean() }),
    }),
    run: (call) => {
      const { order, item } = findItem(call);
      assertSameId(call.body.data.id, item.id);
      recordWrite(call, 'order', order);
      const modified = cancelItems(call.client, order, [item], call.nowMs).length > 0;
      return { ...renderDocument(call, orderItemResource, item), meta: { modified } };
    },
  }),
  defineOperation({
    name: 'v3.orderAttachments.create',
    route: 'POST /v3/orderAttachments',
    summary: 'Links a pdf document to an order, to be printed during picking',
    body: attachmentBody,
    answer: attachmentResource.document,
    run: async (call) => {
      const { attributes } = call.body.data;
      const order = findNamedOrder(call.client, call.body);
      await checkPrintable(attributes.content, '/data/attributes/content');
      // Checked after the `await`, because the order may have been fulfilled in the meantime.
      if (isFulfilled(order)) {
        const problem = 'The order is completely fulfilled: nothing remains to print for';
        throw ruleBroken(problem, '/data');
      }

      const attachment = { id: call.client.nextId(), filename: attributes.filename };
      order.attachments = [...order.attachments, attachment];
      const { id: orderId, externalOrderNumber } = order;
      const shown = { ...attributes, ...attachment, externalOrderNumber, orderId };
      return renderDocument(call, attachmentResource, shown);
    },
  }),
];

/**
 * Reads the order from a body. Refuses missing items or addresses, and resources that are included
 * too often.
 */
function readOrder(body: OrderBody, today: string, lists: ServiceLists): OrderDraft {
  const { attributes, relationships } = body.data;
  const lines = selectParts(body, 'orderItem').map(({ resource, pointer }) =>
    readLine(resource.attributes, pointer),
  );
  if (lines.length === 0)
    throw ruleBroken('An order needs at least one orderItem', '/data/included');

  const [pickUpPoint, secondPoint] = selectParts(body, 'pickUpPoint');
  if (secondPoint) throw ruleBroken('An order has one pickUpPoint at most', secondPoint.pointer);
  const [attachment, second] = selectParts(body, 'orderAttachment');
  if (second) {
    const problem = 'One orderAttachment goes along with an order; add others afterwards';
    throw ruleBroken(problem, second.pointer);
  }

  const addresses = selectParts(body, 'address').map(({ resource }) => resource);
  const findRole = (role: 'deliveryAddress' | 'billingAddress') =>
    findAddress(addresses, role, relationships[role]?.data.id);
  const deliveryAddress = findRole('deliveryAddress');
  return {
    ...readCommonAttributes(attributes),
    externalOrderNumber: attributes.externalOrderNumber,
    locale: attributes.locale ?? lists.usualLocale,
    allowPartialDelivery: attributes.allowPartialDelivery ?? null,
    onHold: attributes.onHold,
    orderedOn: attributes.orderedOn ?? today,
    currency: 'EUR',
    orderTypeId: relationships.orderType.data.id,
    shippingMethodId: relationships.preferredShippingMethod?.data?.id ?? null,
    lines,
    deliveryAddress,
    billingAddress: relationships.billingAddress ? findRole('billingAddress') : deliveryAddress,
    pickUpPoint: pickUpPoint?.resource.attributes ?? null,
    attachment: attachment ? { filename: attachment.resource.attributes.filename } : null,
  };
}

/** Reads the attributes that a creation and an update treat alike. */
const readCommonAttributes = (attributes: UpdateBody['data']['attributes']) => ({
  ...readTexts(attributes, orderTexts),
  email: attributes.email || noReplyAddress,
  preferredShippingDate: attributes.preferredShippingDate ?? null,
  metadata: keepGivenTexts(attributes.metadata),
});

function readLine(attributes: z.output<typeof lineIn>['attributes'], pointer: string): LineDraft {
  const { sku, quantity, price, vat = null, metadata } = attributes;
  return {
    sku,
    quantity,
    price: toNumber(price),
    vat,
    ...readTexts(attributes, ['fulfillFrom', 'name', 'channelIdentifier']),
    metadata: keepGivenTexts(metadata),
    pointer,
  };
}

/** Returns the lines of the one included address with a provisional id. */
function findAddress(
  addresses: readonly z.output<typeof addressIn>[],
  role: string,
  wanted: unknown,
): AddressLines {
  const pointer = `/data/relationships/${role}`;
  const [address, ...others] = addresses.filter(({ id }) => String(id) === String(wanted));
  if (address === undefined) throw ruleBroken(`No included address has the id ${wanted}`, pointer);
  if (others.length > 0)
    throw ruleBroken(`Several included addresses have the id ${wanted}`, pointer);

  const { countryCode } = address.attributes;
  return { ...readTexts(address.attributes, addressTexts), countryCode };
}

const noAddress: AddressLines = { ...readTexts({}, addressTexts), countryCode: null };
const changeableNames = [
  'orderType',
  'preferredShippingMethod',
  'deliveryAddress',
  'billingAddress',
  'pickUpPoint',
];

/**
 * Returns the relationships that an update asks for, and refuses changes that it must not make. The
 * switch `omittedRelationships` says what happens to omitted ones; the order type is always kept.
 */
function readWantedRelationships(
  { client, body, world: { switches } }: Call<unknown, UpdateBody>,
  order: Order,
): ChangeableRelationships {
  const given = body.data.relationships ?? {};
  const included = readIncluded(body).map(({ resource }) => resource);
  const addresses = included.filter((resource) => resource.type === 'address');
  const changed = listChanges(given, order, client, switches.dialect === 'rich');
  const isChangeable = (name: string) =>
    switches.changeableRelationships && changeableNames.includes(name);
  const refused = changed.find((name) => !isChangeable(name));
  if (refused)
    throw ruleBroken(`${refused} cannot be changed by an update`, `/data/relationships/${refused}`);
  if (included.length > 0 && !switches.changeableRelationships) {
    const pointer = body.included ? '/included/0' : '/data/included/0';
    throw ruleBroken('An update takes no included resources', pointer);
  }

  /** Returns the present value, the one that is linked to, or that of an omitted relationship. */
  const choose = <T>(name: string, present: T, none: T, read: (id: unknown) => T): T => {
    const { data } = given[name] ?? { data: null };
    if (changed.includes(name)) return data === null ? none : read([data].flat()[0]?.id);
    const isErased = switches.omittedRelationships === 'erase' && !Object.hasOwn(given, name);
    return isErased ? none : present;
  };
  const chooseAddress = (name: 'deliveryAddress' | 'billingAddress') =>
    choose(name, order[name], noAddress, (id) => findAddress(addresses, name, id));
  const { orderTypeId, shippingMethodId, pickUpPoint } = order;
  return {
    orderTypeId: choose('orderType', orderTypeId, orderTypeId, Number),
    shippingMethodId: choose('preferredShippingMethod', shippingMethodId, null, Number),
    deliveryAddress: chooseAddress('deliveryAddress'),
    billingAddress: chooseAddress('billingAddress'),
    pickUpPoint: choose('pickUpPoint', pickUpPoint, null, () => {
      return { id: client.nextId(), attributes: readPickUpPoint(included) };
    }),
  };
}

/** Returns the names of the relationships that link to other resources than those of the order. */
function listChanges(
  given: NonNullable<UpdateBody['data']['relationships']>,
  order: Order,
  client: Client,
  isRich: boolean,
): string[] {
  const rendered = orderResource.render(order, client);
  const shown = showRelationships(rendered, client, isRich) as typeof given;
  const writeIds = (link: (typeof given)[string] | undefined) =>
    JSON.stringify(link && [link.data].flat().map((resource) => resource && String(resource.id)));

  return Object.keys(given).filter((name) => writeIds(shown[name]) !== writeIds(given[name]));
}

function readPickUpPoint(included: NonNullable<UpdateBody['included']>) {
  const [point, ...others] = included.filter((resource) => resource.type === 'pickUpPoint');
  if (point !== undefined && others.length === 0) return point.attributes;
  const problem = 'An update of the pickUpPoint includes exactly one';
  throw ruleBroken(problem, '/data/relationships/pickUpPoint');
}

/**
 * Returns the attributes that an update asks for. Omitted ones are erased, except
 * `externalOrderNumber`, `locale` and `onHold`, which cannot be null. `orderTypeId` is the order
 * type after the update.
 */
function readWantedAttributes(
  { body, client: { lists } }: Call<unknown, UpdateBody>,
  order: Order,
  orderTypeId: number,
): ChangeableOrder {
  const { attributes } = body.data;
  return {
    ...readCommonAttributes(attributes),
    externalOrderNumber: attributes.externalOrderNumber ?? order.externalOrderNumber,
    locale: attributes.locale ?? order.locale,
    allowPartialDelivery: attributes.allowPartialDelivery ?? lists.isDeliveredInParts(orderTypeId),
    onHold: attributes.onHold ?? order.onHold,
  };
}

function findItem(call: Call): { readonly order: Order; readonly item: OrderItem } {
  const id = readId(call);
  const order = call.client.findOrderOfItem(id);
  const item = order?.items.find((known) => known.id === id);
  if (order === undefined || item === undefined) throw notFound('orderItem');
  requireRow(call, 'order', order);
  return { order, item };
}

/** Returns the order that an attachment names by number, by relationship or by both alike. */
function findNamedOrder({ orderByNumber, orders }: Client, { data }: AttachmentBody): Order {
  const { externalOrderNumber: number } = data.attributes;
  const id = data.relationships?.order.data.id;
  const found = [
    ...(number === undefined ? [] : [orderByNumber.get(number)]),
    ...(id === undefined ? [] : [orders.get(id)]),
  ];
  const [order] = found;
  if (order !== undefined && found.every((other) => other === order)) return order;

  if (found.length === 0) throw ruleBroken('An orderAttachment names its order', '/data');
  const problem = found.includes(undefined)
    ? `There is no order ${[number, id].filter(Boolean).join(' and ')}`
    : 'externalOrderNumber and the relationship name different orders';
  throw ruleBroken(problem, '/data');
}
