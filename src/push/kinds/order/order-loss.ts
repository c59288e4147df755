import { WarehouseError } from '../../../core/errors.ts';
import { isObject, type Json } from '../../../core/json.ts';
import {
  orderAddress,
  order as orderFields,
  orderItem,
  orders,
} from '../../../pull/streams/orders.ts';
import { type Resource, readId } from '../../../service/decoding/jsonapi.ts';
import { LostMembersError, type PushContext } from '../../kind.ts';
import { readSentTarget } from '../../sql/renames.ts';
import { type AnsweredOrder, readOrderById } from './find-order.ts';

/**
 * Attributes of an order and of its parts. Others, such as a time of change, may differ after an
 * update.
 */
const orderAttributes = Object.keys(orderFields.attributes);
const itemAttributes = Object.keys(orderItem.attributes);
const addressAttributes = Object.keys(orderAddress.attributes);
/** Maximum number of members that an error names. */
const maxNamed = 20;

/**
 * Returns the members of an order that have a value, each with that value as text: attributes,
 * relationships, and the attributes of its addresses, its pick-up point and its items. Ids of
 * addresses are left out, because an update may renew them.
 */
export function listMembers(order: Resource): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  const add = (path: string, value: Json | undefined) => {
    const text = toText(value);
    if (text !== null) members.set(path, text);
  };

  const addAll = (
    prefix: string,
    attributes: Json | undefined,
    names: readonly string[] | null,
  ) => {
    if (!isObject(attributes)) return;
    for (const name of names ?? Object.keys(attributes)) {
      const value = attributes[name];
      if (isObject(value)) addAll(`${prefix}${name}.`, value, null);
      else add(`${prefix}${name}`, value);
    }
  };

  addAll('', order.attributes, orderAttributes);
  for (const name of ['orderType', 'preferredShippingMethod']) add(name, readLinkedId(order, name));
  const included = (Array.isArray(order.included) ? order.included : []).filter(isObject);
  for (const name of ['deliveryAddress', 'billingAddress']) {
    const id = readLinkedId(order, name);
    const address = included.find(
      (resource) => resource.type === 'address' && id !== null && readId(resource) === id,
    );
    addAll(`${name}.`, address?.attributes, addressAttributes);
  }

  const point = included.find(({ type }) => type === 'pickUpPoint');
  addAll('pickUpPoint.', point?.attributes, null);
  for (const item of included.filter(({ type }) => type === 'orderItem'))
    addAll(`items[${readId(item)}].`, item.attributes, itemAttributes);

  return members;
}

/**
 * Returns a value as text; null if it is empty. A decimal is the same as a number and as a text.
 */
function toText(value: Json | undefined): string | null {
  if (value === undefined || value === null || value === '') return null;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^-?\d{1,15}(\.\d+)?$/.test(text) && String(Number(text)).length < 17
    ? String(Number(text))
    : text;
}

function readLinkedId(order: Resource, name: string): number | null {
  const relationship = isObject(order.relationships) ? order.relationships[name] : undefined;
  const data = isObject(relationship) ? relationship.data : undefined;
  return data === undefined ? null : readId(data);
}

/**
 * Returns true if a change names a member. A name such as `metadata` includes `metadata.extra1`.
 */
const isNamed = (path: string, named: readonly string[]) =>
  named.some((name) => path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`));

/**
 * Compares an order with its state before an update. Members that the update names may differ.
 * @returns the names of the other members that are gone, and of those that have another value
 */
export function findLoss(
  before: Pick<ReadonlyMap<string, string>, 'get' | 'keys'>,
  after: ReadonlyMap<string, string>,
  named: readonly string[],
): { readonly gone: string[]; readonly changed: string[] } {
  const others = [...before.keys()].filter((path) => !isNamed(path, named));
  return {
    gone: others.filter((path) => !after.has(path)),
    changed: others.filter((path) => after.has(path) && before.get(path) !== after.get(path)),
  };
}

/** Describes what an update lost, without any value; null if it lost nothing. */
export function describeLoss({ gone, changed }: ReturnType<typeof findLoss>): string | null {
  const list = (names: readonly string[]) =>
    names.slice(0, maxNamed).join(', ') +
    (names.length > maxNamed ? ` and ${names.length - maxNamed} more` : '');
  const parts = [
    ...(gone.length === 0 ? [] : [`erased ${list(gone)}`]),
    ...(changed.length === 0 ? [] : [`changed ${list(changed)}`]),
  ];
  return parts.length === 0 ? null : parts.join(' and ');
}

/**
 * Checks that an update changed nothing that its row does not name. If the answer lacks something,
 * reads the order again: an answer may leave resources out.
 * @param before the members that the order had before the update
 * @throws LostMembersError if something is gone or changed. It brings the order as it is now to the
 *   tables.
 */
export async function assertKept(
  context: PushContext,
  before: ReadonlyMap<string, string>,
  answered: AnsweredOrder,
  named: readonly string[],
): Promise<void> {
  if ((await findLosses(context, before, answered, named)) === null) return;
  const again = await readOrderById(context, answered.order.id).catch((error: unknown) => {
    if (!(error instanceof WarehouseError)) throw error;
    return null;
  });

  const read = again ?? answered;
  const loss = await findLosses(context, before, read, named);
  if (loss === null) return;
  throw new LostMembersError(describeLostMembers(loss), {
    stream: orders,
    resource: read.resource,
    escaped: read.escaped,
  });
}

/** Returns the error of a row whose update lost something. */
export const describeLostMembers = (loss: string): string =>
  `the service carried the update out, but ${loss}, which the row does not name. ` +
  'Restore the order at the service, then mark the row as done. If the service erases what an ' +
  'update omits, set "sendsRelationships": true for v3.orders.update in WAREHOUSE_OPERATIONS_FILE';

/**
 * Compares also with what an earlier attempt of the row found: its update may have erased what is
 * not there any more.
 */
async function findLosses(
  { db, row }: PushContext,
  before: ReadonlyMap<string, string>,
  { resource }: AnsweredOrder,
  named: readonly string[],
): Promise<string | null> {
  const after = listMembers(resource);
  const { gone, changed } = findLoss(before, after, named);
  const earlier = (row.maybeCarriedOut ? await readSentTarget(db, row.id) : null)?.present ?? [];
  const goneBefore = earlier.filter(
    (path) => !before.has(path) && !after.has(path) && !isNamed(path, named),
  );

  return describeLoss({ gone: [...goneBefore, ...gone], changed });
}

/** Relationships that an update sends back if the switch `sendsRelationships` is on. */
const sentBack = ['deliveryAddress', 'billingAddress', 'pickUpPoint', 'preferredShippingMethod'];

/** Returns the relationships of an order as it shows them, without those that it does not have. */
export function selectRelationships({ relationships }: Resource): {
  readonly [name: string]: Json;
} {
  if (!isObject(relationships)) return {};
  const present = sentBack.flatMap((name) => {
    const relationship = relationships[name];
    return isObject(relationship) && isObject(relationship.data)
      ? [[name, { data: relationship.data }] as const]
      : [];
  });
  return Object.fromEntries(present);
}
