import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import type { AddressLines, ChangeableRelationships, Order } from '../../store/model.ts';
import type { Ids } from '../../store/simulation.ts';
import { idIn, provisionalId, readIncluded } from './input.ts';
import { findAddress } from './order-body.ts';
import type { UpdateBody } from './order-update.ts';

interface WantedRelationshipOptions {
  readonly ids: Ids;
  readonly shown: Readonly<Record<string, unknown>>;
  readonly changeable: boolean;
}

const linkIn = z.object({ data: z.object({ id: provisionalId.optional() }).nullable() });

/**
 * Returns the relationships that an update asks for. Omitted relationships keep their values.
 * @param options `shown`: the relationships of the order as answers show them; `changeable`: the switch
 *   `changeableRelationships`
 * @throws Refusal if the update changes a relationship that it must not change
 */
export function readWantedRelationships(
  order: Order,
  body: UpdateBody,
  { ids, shown, changeable }: WantedRelationshipOptions,
): ChangeableRelationships {
  const given = body.data.relationships ?? {};
  const included = readIncluded(body);
  if (!changeable && included[0]) throw ruleBroken('An update takes no included resources', included[0].pointer);
  const changed = findChangedRelationships(shown, given);
  for (const name of changed)
    if (!changeable || !changeableNames.has(name))
      throw ruleBroken(`${name} cannot be changed by an update`, `/data/relationships/${name}`);
  const addresses = included.flatMap(({ resource }) => (resource.type === 'address' ? [resource] : []));
  const readAddress = (name: string, present: AddressLines) =>
    changed.has(name) ? findAddress(addresses, readLink(given, name)?.id, `/data/relationships/${name}`) : present;
  const readId = (name: string, present: number | null) => {
    if (!changed.has(name)) return present;
    const id = readLink(given, name)?.id;
    return id === undefined ? null : Number(id);
  };
  return {
    orderTypeId: readId('orderType', order.orderTypeId) ?? 0,
    shippingMethodId: readId('preferredShippingMethod', order.shippingMethodId),
    deliveryAddress: readAddress('deliveryAddress', order.deliveryAddress),
    billingAddress: readAddress('billingAddress', order.billingAddress),
    pickUpPoint: changed.has('pickUpPoint') ? readPickUpPoint(body, ids) : order.pickUpPoint,
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
