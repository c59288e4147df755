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
import type { ClientStore } from '../store/client-store.ts';
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
import type { Ids } from '../store/simulation.ts';
import { decimalIn, members, toNumber } from './older-fields.ts';
import { type Call, defineOperation, orderNumbers, uniqueList } from './operation.ts';
import { showRelationships } from './v3-dialect.ts';
import {
  assertSameId,
  clientMembers,
  date,
  dateIn,
  documentIn,
  emptyToNull,
  idIn,
  keepGivenTexts,
  linksTo,
  linkTo,
  metadata,
  namedTexts,
  provisionalId,
  quantityIn,
  readIncluded,
  readTexts,
  resourceIn,
  text,
  textIn,
} from './v3-document.ts';
import {
  byDays,
  byKeys,
  byValues,
  defineGet,
  defineList,
  defineResource,
  include,
  many,
  one,
  oneOrNone,
  renderDocument,
} from './v3-resource.ts';

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
    order: one('order', ({ id }, store) => store.findOrderOfItem(id)?.id ?? 0),
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
    orderedOn: date,
    currency: z.string(),
    locale: z.string(),
    email: z.string(),
    preferredShippingDate: date.nullable(),
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

/** The attributes that a creation and an update of an order have in common. */
const commonAttributes = {
  ...members(textIn, orderTexts),
  orderedOn: dateIn.nullish(),
  email: textIn,
  preferredShippingDate: dateIn.nullish(),
  allowPartialDelivery: z.boolean().nullish(),
  metadata: namedTexts('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
};
const notNull = 'must not be null';
const localeIn = z
  .string(notNull)
  .regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a locale such as nl-NL')
  .optional();

/** A link to the order that is created. It has no id yet, so the link is not checked. */
const anyLink = z.looseObject({});
const lineIn = resourceIn('orderItem', {
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
  relationships: z
    .strictObject({ product: linkTo('product').optional(), order: anyLink.optional() })
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
  relationships: z.strictObject({ order: anyLink.optional() }).optional(),
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
      locale: localeIn,
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
      locale: localeIn,
      onHold: z.boolean(notNull).optional(),
      currency: textIn,
      channelIdentifier: textIn,
    }),
    relationships: z.record(z.string(), z.unknown()).optional(),
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
    relationships: z.record(z.string(), z.unknown()).optional(),
  }),
});
const attachmentBody = z.strictObject({
  data: resourceIn('orderAttachment', {
    attributes: attachmentAttributes,
    relationships: z.strictObject({ order: linkTo('order') }).optional(),
  }),
});
type LinkedAttachment = StoredRow & { readonly orderId: number } & z.output<
    typeof attachmentAttributes
  >;
const attachmentResource = defineResource<LinkedAttachment>('orderAttachment', {
  attributes: {
    externalOrderNumber: z.string(),
    filename: z.string(),
    contentType: z.literal('application/pdf'),
    printStrategy: z.literal('REQUIRED'),
  },
  relationships: { order: one('order', ({ orderId }) => orderId) },
});

const cancelledOrder = z.strictObject({
  data: orderResource.schema,
  meta: z.strictObject({ modified: z.boolean(), modifiedItems: itemLinks.schema }),
});
const requireOrder = (call: Call) => call.requireRow('order', call.store.orders.get(call.id));

/**
 * The operations on orders, their items and their attachments (docs/interface.md, 7.4, 8.2 and 9.2
 * Operations).
 */
export const orderOperations = [
  defineList(orderResource, {
    summary: "The client's orders, by ascending id",
    listing: ({ listedOrders }) => listedOrders,
    filters: [
      byDays('orderedOn'),
      byValues('filter[externalOrderNumber][in]', orderNumbers, (numbers, { orderByNumber }) => {
        const wanted = new Set(numbers);
        const found = numbers.flatMap((number) => orderByNumber.get(number) ?? []);
        return {
          sources: [SortedRows.fromRows(found)],
          test: ({ externalOrderNumber }) => wanted.has(externalOrderNumber),
        };
      }),
      byKeys('reference', uniqueList(z.string())),
    ],
  }),
  defineOperation({
    name: 'v3.orders.create',
    route: 'POST /v3/orders',
    summary: 'Creates an order with its items and addresses',
    body: orderBody,
    answer: orderResource.document,
    run: async (call) => {
      const { simulation, body } = call;
      const draft = readOrder(body, simulation.store.zone.day(call.nowMs), simulation.store.lists);
      for (const { resource, pointer } of selectParts(body, 'orderAttachment')) {
        const content = Buffer.from(resource.attributes.content, 'base64');
        await checkPrintable(content, `${pointer}/attributes/content`);
      }
      const order = placeOrder(simulation, draft, call.nowMs);
      call.recordWrite('order', order.id, null);
      return renderDocument(call, orderResource, order, orderResource.includeNames);
    },
  }),
  defineGet(orderResource, { summary: 'One order', find: ({ id, store }) => store.orders.get(id) }),
  defineOperation({
    name: 'v3.orders.cancel',
    route: 'DELETE /v3/orders/:id',
    summary: 'Cancels what is left of every item of an order',
    query: orderResource.query,
    answer: cancelledOrder,
    run: (call) => {
      const order = requireOrder(call);
      call.recordWrite('order', order.id, order);
      const changed = cancelItems(call.simulation, order, order.items, call.nowMs);
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
      const wanted = {
        ...readWantedAttributes(call, order, relationships.orderTypeId),
        ...relationships,
      };
      call.recordWrite('order', order.id, order);
      changeOrder(call.simulation, order, wanted, call.nowMs);
      return renderDocument(call, orderResource, order, orderResource.includeNames);
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
      call.recordWrite('order', order.id, order);
      const modified = cancelItems(call.simulation, order, [item], call.nowMs).length > 0;
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
      const { attributes, relationships } = call.body.data;
      const order = findNamedOrder(
        call.store,
        attributes.externalOrderNumber,
        relationships?.order.data.id,
      );
      await checkPrintable(Buffer.from(attributes.content, 'base64'), '/data/attributes/content');
      // Checked after the `await`, because the order may have been fulfilled in the meantime.
      if (isFulfilled(order))
        throw ruleBroken(
          'The order is completely fulfilled: nothing remains to print for',
          '/data',
        );
      const attachment = { id: call.simulation.ids.next(), filename: attributes.filename };
      order.attachments = [...order.attachments, attachment];
      const { id: orderId, externalOrderNumber } = order;
      return renderDocument(call, attachmentResource, {
        ...attributes,
        ...attachment,
        externalOrderNumber,
        orderId,
      });
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
    readLine(resource, pointer),
  );
  if (lines.length === 0)
    throw ruleBroken('An order needs at least one orderItem', '/data/included');
  const [pickUpPoint, secondPoint] = selectParts(body, 'pickUpPoint');
  if (secondPoint) throw ruleBroken('An order has one pickUpPoint at most', secondPoint.pointer);
  const [attachment, second] = selectParts(body, 'orderAttachment');
  if (second)
    throw ruleBroken(
      'One orderAttachment goes along with an order; add others afterwards',
      second.pointer,
    );
  const deliveryAddress = readAddress(body, 'deliveryAddress');
  return {
    ...readTexts(attributes, orderTexts),
    externalOrderNumber: attributes.externalOrderNumber,
    locale: attributes.locale ?? lists.usualLocale,
    email: emptyToNull(attributes.email) ?? noReplyAddress,
    preferredShippingDate: attributes.preferredShippingDate ?? null,
    allowPartialDelivery: attributes.allowPartialDelivery ?? null,
    onHold: attributes.onHold,
    metadata: keepGivenTexts(attributes.metadata),
    orderedOn: attributes.orderedOn ?? today,
    currency: 'EUR',
    orderTypeId: relationships.orderType.data.id,
    shippingMethodId: relationships.preferredShippingMethod?.data?.id ?? null,
    lines,
    deliveryAddress,
    billingAddress:
      relationships.billingAddress === undefined
        ? deliveryAddress
        : readAddress(body, 'billingAddress'),
    pickUpPoint: pickUpPoint?.resource.attributes ?? null,
    attachment:
      attachment === undefined ? null : { filename: attachment.resource.attributes.filename },
  };
}

type Part = NonNullable<OrderBody['included']>[number];

function selectParts<T extends Part['type']>(body: OrderBody, type: T) {
  return readIncluded<Part>(body).filter(
    (part): part is { resource: Extract<Part, { type: T }>; pointer: string } =>
      part.resource.type === type,
  );
}

function readLine(
  { attributes }: Extract<Part, { type: 'orderItem' }>,
  pointer: string,
): LineDraft {
  const { sku, quantity, price, vat = null, metadata } = attributes;
  const texts = readTexts(attributes, ['fulfillFrom', 'name', 'channelIdentifier']);
  return {
    sku,
    quantity,
    price: toNumber(price),
    vat,
    ...texts,
    metadata: keepGivenTexts(metadata),
    pointer,
  };
}

function readAddress(body: OrderBody, role: 'deliveryAddress' | 'billingAddress'): AddressLines {
  const addresses = selectParts(body, 'address').map(({ resource }) => resource);
  return findAddress(
    addresses,
    body.data.relationships[role]?.data.id,
    `/data/relationships/${role}`,
  );
}

/**
 * Returns the lines of the one included address with a provisional id. `pointer` is the place of
 * the link.
 */
function findAddress(
  addresses: readonly z.output<typeof addressIn>[],
  wanted: string | number | undefined,
  pointer: string,
): AddressLines {
  const [address, ...others] = addresses.filter(({ id }) => String(id) === String(wanted));
  if (address === undefined) throw ruleBroken(`No included address has the id ${wanted}`, pointer);
  if (others.length > 0)
    throw ruleBroken(`Several included addresses have the id ${wanted}`, pointer);
  return {
    ...readTexts(address.attributes, addressTexts),
    countryCode: address.attributes.countryCode,
  };
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
  call: Call<unknown, UpdateBody>,
  order: Order,
): ChangeableRelationships {
  const { changeableRelationships: changeable, omittedRelationships, dialect } = call.switches;
  const shown = showRelationships(orderResource.render(order, call.store), call.store, dialect);
  const given = call.body.data.relationships ?? {};
  const included = readIncluded(call.body);
  if (!changeable && included[0])
    throw ruleBroken('An update takes no included resources', included[0].pointer);
  const changed = Object.keys(given).filter(
    (name) =>
      !Object.hasOwn(shown, name) || readLinkedIds(shown[name]) !== readLinkedIds(given[name]),
  );
  const refused = changed.find((name) => !changeable || !changeableNames.includes(name));
  if (refused)
    throw ruleBroken(`${refused} cannot be changed by an update`, `/data/relationships/${refused}`);
  /**
   * Returns the link that the update asks for: null for none, undefined if the present one stays.
   */
  const readWish = (name: string) => {
    if (changed.includes(name)) return readLink(given, name);
    return omittedRelationships === 'erase' && !Object.hasOwn(given, name) ? null : undefined;
  };
  const addresses = included.flatMap(({ resource }) =>
    resource.type === 'address' ? [resource] : [],
  );
  const readAddress = (name: 'deliveryAddress' | 'billingAddress') => {
    const wish = readWish(name);
    if (wish === undefined) return order[name];
    return changed.includes(name)
      ? findAddress(addresses, wish?.id, `/data/relationships/${name}`)
      : noAddress;
  };
  const [method, point] = [readWish('preferredShippingMethod'), readWish('pickUpPoint')];
  return {
    orderTypeId: changed.includes('orderType')
      ? Number(readLink(given, 'orderType')?.id ?? 0)
      : order.orderTypeId,
    shippingMethodId:
      method === undefined ? order.shippingMethodId : method && Number(method.id ?? 0),
    deliveryAddress: readAddress('deliveryAddress'),
    billingAddress: readAddress('billingAddress'),
    pickUpPoint:
      point === undefined
        ? order.pickUpPoint
        : point && readPickUpPoint(call.body, call.simulation.ids),
  };
}

const linkIn = z.object({ data: z.object({ id: provisionalId.optional() }).nullable() });

/** Returns the resource that a relationship links to; null if it links to none. */
function readLink(given: Readonly<Record<string, unknown>>, name: string) {
  const read = linkIn.safeParse(given[name]);
  if (!read.success) throw ruleBroken(`${name} is not a link`, `/data/relationships/${name}`);
  return read.data.data;
}

const anyLinks = z.object({
  data: z.union([z.object({ id: idIn }), z.array(z.object({ id: idIn })), z.null()]),
});

/** Returns the ids that a relationship links to, as a text. Returns null if it is not a link. */
function readLinkedIds(link: unknown): string | null {
  const read = anyLinks.safeParse(link);
  if (!read.success) return null;
  const linked = [read.data.data].flat();
  return linked.map((resource) => resource?.id ?? 'none').join(' ');
}

function readPickUpPoint(body: UpdateBody, ids: Ids): Order['pickUpPoint'] {
  const points = readIncluded(body).flatMap(({ resource }) =>
    resource.type === 'pickUpPoint' ? [resource] : [],
  );
  const [point, ...others] = points;
  if (point === undefined || others.length > 0)
    throw ruleBroken(
      'An update of the pickUpPoint includes exactly one',
      '/data/relationships/pickUpPoint',
    );
  return { id: ids.next(), attributes: point.attributes };
}

/**
 * Returns the attributes that an update asks for. Omitted ones are erased, except
 * `externalOrderNumber`, `locale` and `onHold`, which cannot be null. `orderTypeId` is the order
 * type after the update.
 */
function readWantedAttributes(
  { body, store: { lists } }: Call<unknown, UpdateBody>,
  order: Order,
  orderTypeId: number,
): ChangeableOrder {
  const { attributes } = body.data;
  return {
    ...readTexts(attributes, orderTexts),
    externalOrderNumber: attributes.externalOrderNumber ?? order.externalOrderNumber,
    locale: attributes.locale ?? order.locale,
    email: emptyToNull(attributes.email) ?? noReplyAddress,
    preferredShippingDate: attributes.preferredShippingDate ?? null,
    allowPartialDelivery: attributes.allowPartialDelivery ?? lists.isDeliveredInParts(orderTypeId),
    onHold: attributes.onHold ?? order.onHold,
    metadata: keepGivenTexts(attributes.metadata),
  };
}

function findItem(call: Call) {
  const order = call.store.findOrderOfItem(call.id);
  const item = order?.items.find(({ id }) => id === call.id);
  if (order === undefined || item === undefined) throw notFound('orderItem');
  call.requireRow('order', order);
  return { order, item };
}

/**
 * Returns the order that an attachment names by number, by relationship or by both, if they do not
 * differ.
 */
function findNamedOrder(
  store: ClientStore,
  number: string | undefined,
  id: number | undefined,
): Order {
  const byNumber = number === undefined ? undefined : store.orderByNumber.get(number);
  const byId = id === undefined ? undefined : store.orders.get(id);
  if (number !== undefined && byNumber === undefined)
    throw ruleBroken(
      `There is no order with externalOrderNumber ${number}`,
      '/data/attributes/externalOrderNumber',
    );
  if (id !== undefined && byId === undefined)
    throw ruleBroken(`There is no order ${id}`, '/data/relationships/order');
  const order = byId ?? byNumber;
  if (order === undefined)
    throw ruleBroken('An orderAttachment names its order', '/data/relationships/order');
  if (byNumber !== undefined && byNumber !== order)
    throw ruleBroken(
      'externalOrderNumber and the relationship name different orders',
      '/data/relationships/order',
    );
  return order;
}
