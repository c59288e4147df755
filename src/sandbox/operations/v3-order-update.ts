import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { changeOrder } from '../rules/orders.ts';
import type { AddressLines, ChangeableOrder, ChangeableRelationships, Order } from '../store/model.ts';
import { noReplyAddress } from '../store/service-lists.ts';
import type { Ids } from '../store/simulation.ts';
import { type Call, defineOperation } from './operation.ts';
import { showRelationships } from './v3-dialect.ts';
import {
  assertSameId,
  dateIn,
  emptyToNull,
  idIn,
  keepGivenTexts,
  namedTexts,
  provisionalId,
  readIncluded,
  textIn,
} from './v3-document.ts';
import { orderDocument, orderInclude, orderIncludeNames, renderOrder, toOrderResource } from './v3-order-resource.ts';
import { addressIn, findAddress, pickUpPointIn } from './v3-orders.ts';

const notNull = 'must not be null';

/** Resources that the relationships link to, if the switch `changeableRelationships` is on. */
const includedIn = z.array(z.discriminatedUnion('type', [addressIn, pickUpPointIn])).optional();

/**
 * The body of the update (docs/interface.md, 7.1 Fields and 7.7 Update). `orderedOn`, `currency` and
 * `channelIdentifier` may be sent, because clients send the whole state, but they change nothing.
 */
const updateBody = z.strictObject({
  data: z.strictObject({
    id: idIn,
    type: z.literal('order'),
    attributes: z.strictObject({
      externalOrderNumber: z.string(notNull).min(1).optional(),
      reference: textIn,
      orderedOn: dateIn.nullish(),
      consumerReference: textIn,
      promotionCode: textIn,
      currency: textIn,
      locale: z
        .string(notNull)
        .regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a locale such as nl-NL')
        .optional(),
      email: textIn,
      phoneNumber: textIn,
      vatNumber: textIn,
      fulfillFrom: textIn,
      preferredShippingDate: dateIn.nullish(),
      allowPartialDelivery: z.boolean().nullish(),
      onHold: z.boolean(notNull).optional(),
      metadata: namedTexts('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
      channelIdentifier: textIn,
    }),
    relationships: z.record(z.string(), z.unknown()).optional(),
    included: includedIn,
  }),
  included: includedIn,
});
type UpdateBody = z.output<typeof updateBody>;

/** The update of an order (docs/interface.md, 7.7 Update). */
export const orderUpdateOperations = [
  defineOperation({
    name: 'v3.orders.update',
    route: 'PATCH /v3/orders/:id',
    summary: 'Puts an order into the state that is sent',
    documented: false,
    query: orderInclude,
    body: updateBody,
    answer: orderDocument,
    run: (call) => {
      const order = call.requireRow('order', call.store.orders.get(call.id));
      assertSameId(call.body.data.id, order.id);
      const relationships = readWantedRelationships(call, order);
      const attributes = readWantedAttributes(call, order, relationships.orderTypeId);
      const wanted = { ...attributes, ...relationships };
      call.recordWrite('order', order.id, order);
      changeOrder(call.simulation, order, wanted, call.nowMs);
      return call.renderOne(renderOrder(order, orderIncludeNames), 'inside');
    },
  }),
];

const linkIn = z.object({ data: z.object({ id: provisionalId.optional() }).nullable() });

const noAddress: AddressLines = {
  firstName: null,
  lastName: null,
  prefix: null,
  street1: null,
  postcode: null,
  houseNumber: null,
  houseNumberExtension: null,
  city: null,
  countryCode: null,
};

/**
 * Returns the relationships that an update asks for. Omitted relationships keep their values, unless the switch
 * `omittedRelationships` erases them. The order type is always kept.
 * @throws Refusal if the update changes a relationship that it must not change
 */
function readWantedRelationships(call: Call<unknown, UpdateBody>, order: Order): ChangeableRelationships {
  const { body, store, world } = call;
  const { changeableRelationships: changeable, omittedRelationships, dialect } = world.switches;
  const shown = showRelationships(toOrderResource(order), store, dialect);
  const given = body.data.relationships ?? {};
  const included = readIncluded(body);
  if (!changeable && included[0]) throw ruleBroken('An update takes no included resources', included[0].pointer);
  const changed = findChangedRelationships(shown, given);
  for (const name of changed)
    if (!changeable || !changeableNames.has(name))
      throw ruleBroken(`${name} cannot be changed by an update`, `/data/relationships/${name}`);
  const addresses = included.flatMap(({ resource }) => (resource.type === 'address' ? [resource] : []));
  const isErased = (name: string) => omittedRelationships === 'erase' && !Object.hasOwn(given, name);
  const readAddress = (name: string, present: AddressLines) => {
    if (changed.has(name)) return findAddress(addresses, readLink(given, name)?.id, `/data/relationships/${name}`);
    return isErased(name) ? noAddress : present;
  };
  const readId = (name: string, present: number | null) => {
    if (!changed.has(name)) return present;
    const id = readLink(given, name)?.id;
    return id === undefined ? null : Number(id);
  };
  return {
    orderTypeId: readId('orderType', order.orderTypeId) ?? 0,
    shippingMethodId: isErased('preferredShippingMethod')
      ? null
      : readId('preferredShippingMethod', order.shippingMethodId),
    deliveryAddress: readAddress('deliveryAddress', order.deliveryAddress),
    billingAddress: readAddress('billingAddress', order.billingAddress),
    pickUpPoint: changed.has('pickUpPoint')
      ? readPickUpPoint(body, call.simulation.ids)
      : isErased('pickUpPoint')
        ? null
        : order.pickUpPoint,
  };
}

/**
 * Returns the attributes that an update asks for. Omitted attributes are erased. Only `externalOrderNumber`, `locale`
 * and `onHold` keep their values if they are omitted, because they cannot be null.
 * @param orderTypeId the order type after the update
 */
function readWantedAttributes(
  { body, store: { lists } }: Call<unknown, UpdateBody>,
  order: Order,
  orderTypeId: number,
): ChangeableOrder {
  const { attributes } = body.data;
  return {
    externalOrderNumber: attributes.externalOrderNumber ?? order.externalOrderNumber,
    reference: emptyToNull(attributes.reference),
    consumerReference: emptyToNull(attributes.consumerReference),
    promotionCode: emptyToNull(attributes.promotionCode),
    locale: attributes.locale ?? order.locale,
    email: emptyToNull(attributes.email) ?? noReplyAddress,
    phoneNumber: emptyToNull(attributes.phoneNumber),
    vatNumber: emptyToNull(attributes.vatNumber),
    fulfillFrom: emptyToNull(attributes.fulfillFrom),
    preferredShippingDate: attributes.preferredShippingDate ?? null,
    allowPartialDelivery: attributes.allowPartialDelivery ?? lists.isDeliveredInParts(orderTypeId),
    onHold: attributes.onHold ?? order.onHold,
    metadata: keepGivenTexts(attributes.metadata),
  };
}

const changeableNames: ReadonlySet<string> = new Set([
  'orderType',
  'preferredShippingMethod',
  'deliveryAddress',
  'billingAddress',
  'pickUpPoint',
]);

function readPickUpPoint(body: UpdateBody, ids: Ids): Order['pickUpPoint'] {
  if (readLink(body.data.relationships ?? {}, 'pickUpPoint') === null) return null;
  const points = readIncluded(body).flatMap(({ resource }) => (resource.type === 'pickUpPoint' ? [resource] : []));
  const [point, ...others] = points;
  if (point === undefined || others.length > 0)
    throw ruleBroken('An update of the pickUpPoint includes exactly one', '/data/relationships/pickUpPoint');
  return { id: ids.next(), attributes: point.attributes };
}

/** Returns the resource that a relationship links to; null if it links to none. */
function readLink(given: Readonly<Record<string, unknown>>, name: string) {
  const read = linkIn.safeParse(given[name]);
  if (!read.success) throw ruleBroken(`${name} is not a link`, `/data/relationships/${name}`);
  return read.data.data;
}

const anyLink = z.object({ data: z.union([z.object({ id: idIn }), z.array(z.object({ id: idIn })), z.null()]) });

/** Returns the names of the relationships of an update that differ from those of the order. */
function findChangedRelationships(
  current: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
): ReadonlySet<string> {
  const changed = Object.entries(given).filter(
    ([name, link]) => !Object.hasOwn(current, name) || readLinkedIds(current[name]) !== readLinkedIds(link),
  );
  return new Set(changed.map(([name]) => name));
}

/** Returns the ids of a link as one text. Returns null if the value is not a link. */
function readLinkedIds(link: unknown): string | null {
  const read = anyLink.safeParse(link);
  if (!read.success) return null;
  const { data } = read.data;
  return data === null
    ? 'none'
    : [data]
        .flat()
        .map(({ id }) => id)
        .join(' ');
}
