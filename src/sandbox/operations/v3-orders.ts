import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
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
import type { StoredRow } from '../store/sorted-rows.ts';

import {
  assertSameId,
  type Call,
  clientMembers,
  countryCodeIn,
  dateIn,
  decimal,
  defineOperation,
  documentIn,
  integerIn,
  keepGivenTexts,
  linksTo,
  linkTo,
  members,
  namedTexts,
  numberIn,
  orderNumbers,
  provisionalId,
  quantityIn,
  readId,
  readIncluded,
  readTexts,
  recordWrite,
  requireRow,
  resourceIn,
  selectIncluded,
  textIn,
  uniqueList,
} from './operation.ts';
import {
  byDays,
  byKeys,
  defineGet,
  defineList,
  defineResource,
  include,
  many,
  metadata,
  one,
  oneOrNone,
  ownLinks,
  productLink,
  renderDocument,
  renderWhole,
  text,
  writeResource,
} from './resource.ts';

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
    ...productLink,
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
  render: ({ id, attributes }: NonNullable<Order['pickUpPoint']>, client: Client) =>
    writeResource({ id, type: 'pickUpPoint', attributes }, client),
};

const addressRoles = ['deliveryAddress', 'billingAddress'] as const;
type AddressRole = (typeof addressRoles)[number];
/** Returns what is declared for each address of an order, by its role. */
const eachAddress = <T>(declare: (role: AddressRole) => T) =>
  Object.fromEntries(addressRoles.map((role) => [role, declare(role)]));

/** Returns the id of an address. In the dialect `rich`, it counts within its order. */
function readAddressId(order: Order, role: AddressRole, { options }: Client): number {
  return options.dialect === 'plain' ? order[`${role}Id`] : addressRoles.indexOf(role) + 1;
}
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
    ...ownLinks('orderType'),
    orderItems: itemLinks,
    ...eachAddress((role) =>
      one('address', (order: Order, client) => readAddressId(order, role, client)),
    ),
    pickUpPoint: oneOrNone('pickUpPoint', ({ pickUpPoint }) => pickUpPoint?.id ?? null),
    preferredShippingMethod: oneOrNone(
      'shippingMethod',
      ({ shippingMethodId }) => shippingMethodId,
    ),
  },
  includes: {
    orderItems: include(orderItemResource, ({ items }) => items),
    ...eachAddress((role) =>
      include(addressResource, (order: Order, client) => [
        { id: readAddressId(order, role, client), ...order[role] },
      ]),
    ),
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
    price: numberIn.nullish(),
    vat: decimal.nullish(),
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
    countryCode: countryCodeIn,
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
    id: integerIn,
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
    id: integerIn,
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
  relationships: ownLinks('order'),
});

const requireOrder = (call: Call) =>
  requireRow(call, 'order', call.client.orders.get(readId(call)));

/**
 * The operations on orders, their items and their attachments (docs/interface.md, 7.4, 8.2 and 9.2
 * Operations).
 */
export const orderOperations = [
  defineList(orderResource, "The client's orders, by ascending id", {
    rows: ({ orders }) => orders,
    filters: [
      byDays('orderedOn', ({ orderedOn }) => orderedOn),
      byKeys('externalOrderNumber', orderNumbers, (order) => order.externalOrderNumber),
      byKeys('reference', uniqueList(z.string()), ({ reference }) => reference),
    ],
  }),
  defineOperation({
    name: 'v3.orders.create',
    route: 'POST /v3/orders',
    summary: 'Creates an order with its items and addresses',
    body: orderBody,
    answer: orderResource.document,
    run: async (call) => {
      const { client, body, nowMs } = call;
      const draft = readOrder(body, client.zone.day(nowMs), client.lists);
      for (const { attributes } of selectIncluded(body, 'orderAttachment'))
        await checkPrintable(attributes.content);

      const order = placeOrder(client, draft, nowMs);
      recordWrite(call, order, 'creation');
      return renderWhole(call, orderResource, order);
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
      recordWrite(call, order);
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

      recordWrite(call, order);
      changeOrder(call.client, order, { ...attributes, ...relationships }, call.nowMs);
      return renderWhole(call, orderResource, order);
    },
  }),
  defineGet(orderItemResource, 'One order item', (client, id) =>
    client.findOrderOfItem(id)?.items.find((known) => known.id === id),
  ),
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
      const id = readId(call);
      const order = requireRow(call, 'orderItem', call.client.findOrderOfItem(id));
      const item = order.items.find((known) => known.id === id) as OrderItem;
      assertSameId(call.body.data.id, id);
      recordWrite(call, order);
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
      await checkPrintable(attributes.content);
      // Checked after the `await`, because the order may have been fulfilled in the meantime.
      if (isFulfilled(order))
        throw ruleBroken('The order is completely fulfilled: nothing remains to print for');

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
  const lines = selectIncluded(body, 'orderItem').map(readLine);
  if (lines.length === 0) throw ruleBroken('An order needs at least one orderItem');

  const [attachment, second] = selectIncluded(body, 'orderAttachment');
  if (second)
    throw ruleBroken('One orderAttachment goes along with an order; add others afterwards');

  const { billingAddress } = relationships;
  const deliveryAddress = findAddress(
    body,
    'deliveryAddress',
    relationships.deliveryAddress.data.id,
  );
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
    billingAddress: billingAddress
      ? findAddress(body, 'billingAddress', billingAddress.data.id)
      : deliveryAddress,
    pickUpPoint: readPickUpPoint(body),
    attachment: attachment ? { filename: attachment.attributes.filename } : null,
  };
}

/** Reads the attributes that a creation and an update treat alike. */
const readCommonAttributes = (attributes: UpdateBody['data']['attributes']) => ({
  ...readTexts(attributes, orderTexts),
  email: attributes.email || noReplyAddress,
  preferredShippingDate: attributes.preferredShippingDate ?? null,
  metadata: keepGivenTexts(attributes.metadata),
});

function readLine({ attributes }: z.output<typeof lineIn>): LineDraft {
  const { sku, quantity, price = null, vat = null, metadata } = attributes;
  return {
    sku,
    quantity,
    price,
    vat,
    ...readTexts(attributes, ['fulfillFrom', 'name', 'channelIdentifier']),
    metadata: keepGivenTexts(metadata),
  };
}

/** Returns the lines of the one included address with a provisional id. */
function findAddress(body: OrderBody | UpdateBody, role: string, wanted: unknown): AddressLines {
  const included = selectIncluded(body, 'address');
  const [address, second] = included.filter(({ id }) => String(id) === String(wanted));
  if (address === undefined || second) {
    const problem = `${address ? 'Several' : 'No'} included addresses have the id ${wanted}`;
    throw ruleBroken(`${role}: ${problem}`);
  }

  const { attributes } = address;
  return { ...readTexts(attributes, addressTexts), countryCode: attributes.countryCode };
}

/** Returns the members of the included pick-up point, if there is one. */
function readPickUpPoint(body: OrderBody | UpdateBody) {
  const [point, second] = selectIncluded(body, 'pickUpPoint');
  if (second) throw ruleBroken('An order has one pickUpPoint at most');
  return point?.attributes ?? null;
}

const noAddress: AddressLines = { ...readTexts({}, addressTexts), countryCode: null };

/**
 * Returns the relationships that an update asks for, and refuses changes that it must not make. The
 * switch `omittedRelationships` says what happens to omitted ones; the order type is always kept.
 */
function readWantedRelationships(
  { client, body, world: { switches } }: Call<unknown, UpdateBody>,
  order: Order,
): ChangeableRelationships {
  const given = body.data.relationships ?? {};
  const { relationships: present = {} } = orderResource.render(order, client);
  const changed = listChanges(given, present as Links);
  const mayChange = switches.changeableRelationships;
  const isFixed = (name: string) => name === 'orderItems' || !Object.hasOwn(present, name);
  const refused = changed.find((name) => !mayChange || isFixed(name));
  if (refused) throw ruleBroken(`${refused} cannot be changed by an update`);
  if (!mayChange && readIncluded(body).length > 0)
    throw ruleBroken('An update takes no included resources');

  /** Returns the present value, the one that is linked to, or that of an omitted relationship. */
  const choose = <T>(name: string, present: T, none: T, read: (id: unknown) => T): T => {
    const [linked] = [given[name]?.data].flat();
    if (changed.includes(name)) return linked ? read(linked.id) : none;
    const isErased = switches.omittedRelationships === 'erase' && !Object.hasOwn(given, name);
    return isErased ? none : present;
  };
  const chooseAddress = (name: AddressRole) =>
    choose(name, order[name], noAddress, (id) => findAddress(body, name, id));
  const { orderTypeId, shippingMethodId, pickUpPoint } = order;
  return {
    orderTypeId: choose('orderType', orderTypeId, orderTypeId, Number),
    shippingMethodId: choose('preferredShippingMethod', shippingMethodId, null, Number),
    deliveryAddress: chooseAddress('deliveryAddress'),
    billingAddress: chooseAddress('billingAddress'),
    pickUpPoint: choose('pickUpPoint', pickUpPoint, null, () => {
      return { id: client.nextId(), attributes: readPickUpPoint(body) ?? {} };
    }),
  };
}

type Links = NonNullable<UpdateBody['data']['relationships']>;

/** Returns the names of the relationships that link to other resources than those of the order. */
function listChanges(given: Links, present: Links): string[] {
  const writeIds = (link: Links[string] | undefined) =>
    JSON.stringify([link?.data].flat().map((resource) => resource && String(resource.id)));

  return Object.keys(given).filter((name) => writeIds(present[name]) !== writeIds(given[name]));
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

/** Returns the order that an attachment names by number, by relationship or by both alike. */
function findNamedOrder({ orderByNumber, orders }: Client, { data }: AttachmentBody): Order {
  const { externalOrderNumber: number } = data.attributes;
  const id = data.relationships?.order.data.id;
  const order = id === undefined ? orderByNumber.get(number ?? '') : orders.get(id);
  if (order !== undefined && (number ?? order.externalOrderNumber) === order.externalOrderNumber)
    return order;
  throw ruleBroken(`There is no order ${[number, id].filter(Boolean).join(' with id ')}`);
}
