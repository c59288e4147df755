/**
 * What the kinds that concern an order have in common: they find it by its number, which is
 * compared exactly, and check that a change of it changed nothing else.
 */

import type { Operation, OperationName } from '../../../config/operations.ts';
import { pauses } from '../../core/backoff.ts';
import { makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { addDays, toLocalDay } from '../../core/time.ts';
import {
  type OrderRow,
  order,
  orderAddress,
  order as orderFields,
  orderItem,
  orders,
} from '../../pull/streams/orders.ts';
import { listPages } from '../../pull/walk.ts';
import type { ListPage, Warehouse } from '../../service/client.ts';
import { decodeMembers, flag, many, toColumn } from '../../service/decoding/fields.ts';
import {
  type Document,
  decodeDocument,
  findChildren,
  type Resource,
  readId,
} from '../../service/decoding/jsonapi.ts';
import type { HttpAnswer } from '../../service/transport/http.ts';
import { encodeQuery } from '../../service/transport/query.ts';
import {
  isEmpty,
  LostMembersError,
  NotFoundError,
  PayloadError,
  PostponedError,
  type PushContext,
  problemAt,
  readAfterChange,
  readAnswered,
  readIncluded,
  readResources,
} from '../kind.ts';
import { makeBody } from '../payload.ts';
import { findNewNumber, findRenameTo, type OtherRow, readSentTarget } from '../sql/renames.ts';

/**
 * A list with more pages than this counts as unreadable: a look-up finds at most one order for each
 * number.
 */
const maxPages = 5;
/** Query by which an operation on one order includes everything that belongs to it. */
export const orderInclude = encodeQuery({ include: orders.include });

/** An order in an answer of the service, with everything that belongs to it. */
export interface AnsweredOrder {
  readonly order: OrderRow;
  readonly resource: Resource;
  readonly escaped: boolean;
}

/** The current state of an order at the service. */
export interface FoundOrder extends AnsweredOrder {
  /** Today by the service's clock, in the client's time zone. */
  readonly today: string;
}

/**
 * Finds the order of a row. Tries the id in our tables first, because the service's lists may be
 * behind. Checks that this order still has the number, because orders can be renamed. Otherwise
 * searches the list by the number.
 * @throws NotFoundError if the service has no such order
 * @throws PostponedError if an `order.rename` that is still open gives an order this number
 * @throws WarehouseError `undecodable` if the list is behind
 */
export async function findOrder(context: PushContext): Promise<FoundOrder> {
  const { reference, knownId } = context.row;
  const known = knownId === null ? null : await readOrderById(context, knownId);
  return known?.order.external_order_number === reference ? known : searchOrder(context);
}

/**
 * Reads an order by its id, whatever its number is. Returns null if the service does not have it.
 */
export async function readOrderById(
  { warehouse, signal, zone }: Pick<PushContext, 'warehouse' | 'signal' | 'zone'>,
  id: number,
): Promise<FoundOrder | null> {
  const document = await warehouse.get('v3.orders.get', id, orderInclude, { signal });
  const found =
    document === null ? undefined : readOrders(document).find(({ order }) => order.id === id);
  return found === undefined
    ? null
    : { ...found, today: toServiceDay(document?.dateMs ?? null, zone) };
}

/**
 * Searches the list of orders for the number of a row. The list may be behind: it may show a former
 * number, or a former state. What it shows is therefore read by id.
 * @throws NotFoundError if the service has no such order
 * @throws PostponedError if an `order.rename` that is still open gives an order this number
 * @throws WarehouseError `undecodable` if the list shows only an order that has another number now
 */
export async function searchOrder(context: PushContext): Promise<FoundOrder> {
  const { db, row, warehouse, signal } = context;
  const number = row.reference;
  assertSearchable(number);
  const pages = await listByNumbers(warehouse, [number], signal);
  const listed = pages
    .flatMap(readOrders)
    .filter(({ order }) => order.external_order_number === number);
  for (const { order } of listed) {
    const current = await readOrderById(context, order.id);
    if (current?.order.external_order_number === number) return current;
  }

  const rename = await findRenameTo(db, row, row.kind);
  if (rename !== null) throw makeRenameAwaited(rename, `gives the order the number ${number}`);

  const newNumber = await findNewNumber(db, row);
  if (newNumber !== null)
    throw new NotFoundError(
      `the order ${number} was renamed to ${newNumber}; ` +
        `cancel this row and insert it with the reference ${newNumber}`,
    );

  // Another order may have the number now, which the list does not show yet.
  if (listed.length > 0)
    throw makeUndecodableError(
      `the list of orders is behind: it shows order ${listed[0]?.order.id} as ${number}, ` +
        'which has another number now, or is gone; nothing was changed',
      'v3.orders.list',
    );
  throw new NotFoundError(
    `the service has no order with the number ${number}; ` +
      'once it has, retry this row, or replace its payload by the same one',
  );
}

/** Makes the error of a row that waits for an `order.rename`. */
export const makeRenameAwaited = (
  { id, reference, status }: OtherRow,
  does: string,
): PostponedError =>
  new PostponedError(
    'rename_awaited',
    `row ${id} (order.rename of ${reference}) ${does} and is ${status}; this row waits for it`,
    (status === 'dead' ? pauses.deadRename : pauses.awaitedRename).firstMs,
  );

/**
 * @throws PayloadError if the list of orders cannot be searched for that number (docs/interface.md,
 * 5.1 Values)
 */
function assertSearchable(number: string): void {
  if (number.length >= 1 && number.length <= 50) return;
  const text =
    'reference: must have 1 to 50 characters, because no order with that number is in the ' +
    'tables, and the service searches only for such numbers';
  throw new PayloadError([{ path: [], text }]);
}

/**
 * Lists orders by their numbers (docs/interface.md, 7.5 Filters).
 * @throws WarehouseError if the list cannot be read to its end
 */
export async function listByNumbers(
  warehouse: Warehouse,
  numbers: readonly string[],
  signal: AbortSignal,
): Promise<ListPage[]> {
  const filter = {
    include: orders.include,
    'page[size]': 100,
    'filter[externalOrderNumber][in]': numbers,
  };

  const pages: ListPage[] = [];
  const list = listPages(warehouse, { operation: 'v3.orders.list', filter, maxPages, signal });
  for await (const page of list) pages.push(page);

  return pages;
}

/**
 * Returns the orders of a document, each with its included resources.
 * @throws WarehouseError `undecodable` if one of them cannot be read; then the whole answer proves
 *   nothing
 */
export function readOrders(document: Document): AnsweredOrder[] {
  const read = readResources(document, order, 'an order in the answer cannot be read');
  return read.map(({ row, resource, escaped }) => ({ order: row, resource, escaped }));
}

/**
 * Returns the order of an answer.
 * @throws WarehouseError `undecodable` if it is not the one that we changed
 */
function readAnsweredOrder(operation: OperationName, body: string, id: number): AnsweredOrder {
  const document = decodeDocument(operation, body, 'single');
  const { row, ...read } = readAnswered(operation, document, order, (found) => found.id === id);
  return { order: row, ...read };
}

/**
 * Returns an order after a change. If the answer has no body, reads the order by its id.
 * @throws WarehouseError `undecodable` if the answer shows another order, or if the service does
 *   not have it any more
 */
async function readChangedOrder(
  operation: OperationName,
  answer: HttpAnswer,
  id: number,
  context: PushContext,
): Promise<AnsweredOrder> {
  if (!isEmpty(answer)) return readAnsweredOrder(operation, answer.body, id);
  const order = await readAfterChange(operation, () => readOrderById(context, id));
  if (order !== null) return order;

  throw makeUndecodableError(
    `${operation}: the answer is empty, and the service does not have order ${id} any more`,
  );
}

/**
 * Returns today by the service's clock; without a Date header yesterday by ours: no date may pass
 * too early.
 */
function toServiceDay(dateMs: number | null, zone: string): string {
  const day = toLocalDay(new Date(dateMs ?? Date.now()).toISOString(), zone);
  return dateMs === null ? addDays(day, -1) : day;
}

const metaFields = { modified: flag, modifiedItems: many };

/** Returns the lines of an order. Skips lines that cannot be read. */
export function readLines(
  resource: Resource,
): { id: number; sku: string | null; quantity: number | null }[] {
  return readIncluded(resource, orderItem).map(({ id, sku, quantity }) => ({ id, sku, quantity }));
}

/**
 * Returns `meta` from the answer to a cancellation (docs/interface.md, 7.8 Cancel and 8.2
 * Operations).
 * @throws WarehouseError `undecodable` if the answer has no such `meta`
 */
export function readMeta(
  operation: string,
  body: string,
): { modified: boolean; modifiedItems: number[] } {
  const document = parseExact(body);
  const meta = decodeMembers(metaFields, isObject(document) ? (document.meta ?? null) : null);
  if ('problem' in meta || meta.value.modified === null)
    throw makeUndecodableError(`${operation}: the answer does not say what was modified`);
  return { modified: meta.value.modified, modifiedItems: [...(meta.value.modifiedItems ?? [])] };
}

/** The attributes of an order that a change may name. An absent member keeps its value. */
interface ChangedAttributes {
  readonly preferredShippingDate?: string | null | undefined;
  readonly metadata?: Readonly<Record<string, string | null | undefined>> | null | undefined;
}

/** Members of an order that the service sets. An update never sends them back. */
const setByService = ['orderedOn', 'currency', 'channelIdentifier'];
/** Members of an order that an update sends. */
const members = Object.keys(orderFields.attributes).filter((name) => !setByService.includes(name));
/**
 * Members that must not be null (docs/interface.md, 7.1 Fields). If the order does not show them,
 * they are omitted.
 */
const neverNull: ReadonlySet<string> = new Set(['externalOrderNumber', 'locale', 'onHold']);
/** Members that an empty text erases (docs/interface.md, 7.1 Fields). Null erases the others. */
const erasedByEmpty: ReadonlySet<string> = new Set([
  'reference',
  'consumerReference',
  'promotionCode',
]);

/**
 * Returns the state to send: the order's current values with the change applied. An absent member
 * keeps its value, null is sent as null, and '' erases. Merges metadata member by member. The
 * service refuses a preferred shipping date in the past: if the order has one that the change
 * keeps, null is sent instead, with a note.
 * @param today today by the service's clock, in the client's time zone
 * @param maybeCarriedOut true if an earlier attempt may have been carried out; then its date may
 *   have passed since
 * @throws PayloadError if the change asks for a date in the past
 */
export function buildWantedState(
  current: OrderRow,
  change: ChangedAttributes,
  today: string,
  maybeCarriedOut = false,
): { attributes: { readonly [member: string]: Json }; note: string | null } {
  const asked: Readonly<Record<string, unknown>> = { ...change };
  const stored: Readonly<Record<string, unknown>> = current;
  const state = Object.fromEntries(
    members.map((name) => [name, asked[name] === undefined ? stored[toColumn(name)] : asked[name]]),
  );
  const wantedDate = change.preferredShippingDate;
  const isSetAlready = maybeCarriedOut && current.preferred_shipping_date === wantedDate;
  if (typeof wantedDate === 'string' && wantedDate < today && !isSetAlready)
    throw new PayloadError([
      problemAt(
        ['preferredShippingDate'],
        `${wantedDate} is before today, ${today}, which the service refuses`,
      ),
    ]);
  if (change.metadata) state.metadata = mergeMetadata(current.metadata, change.metadata);

  const { preferredShippingDate: date } = state;
  const passed = typeof date === 'string' && date < today;
  if (passed) state.preferredShippingDate = null;
  const erased = Object.entries(state).map(
    ([name, value]) => [name, value === '' && !erasedByEmpty.has(name) ? null : value] as const,
  );
  const sent = erased.filter(([name, value]) => value !== null || !neverNull.has(name));
  const note = passed ? `preferredShippingDate ${date} had passed and was sent as null` : null;

  return { attributes: Object.fromEntries(sent) as { [member: string]: Json }, note };
}

function mergeMetadata(
  current: Readonly<Record<string, unknown>> | null,
  change: Readonly<Record<string, string | null | undefined>>,
): Record<string, unknown> {
  const merged = { ...current, ...change };
  return Object.fromEntries(
    Object.entries(merged).filter(([, value]) => value !== null && value !== undefined),
  );
}

/** A change of an order, as the body of an update asks for it. */
interface WantedChange {
  readonly attributes: { readonly [member: string]: Json };
  readonly relationships?: Readonly<Record<string, object>>;
  readonly included?: readonly object[];
}

/**
 * Returns the body of an update (docs/interface.md, 7.7 Update). Relationships that the change does
 * not name are omitted, or sent back as they are if a switch says so.
 */
export function buildUpdate(
  order: Resource,
  { attributes, relationships: changed = {}, included = [] }: WantedChange,
  operation: Pick<Operation, 'included' | 'sendsRelationships'>,
): object {
  const kept = operation.sendsRelationships ? selectRelationships(order) : {};
  const relationships = { ...kept, ...changed };
  const data = {
    id: order.id,
    type: 'order',
    attributes,
    ...(Object.keys(relationships).length > 0 && { relationships }),
  };

  return included.length === 0 ? { data } : makeBody(data, included, operation);
}

/**
 * Changes the number of an order. Its other members stay, except a preferred shipping date in the
 * past.
 * @returns the order with its new number, and the note of `buildWantedState`
 * @throws LostMembersError if something else is gone or changed
 */
export async function changeNumber(
  context: PushContext,
  found: FoundOrder,
  number: string,
): Promise<AnsweredOrder & { readonly note: string | null }> {
  const { attributes, note } = buildWantedState(found.order, {}, found.today);
  const change = { attributes: { ...attributes, externalOrderNumber: number } };
  const named = ['externalOrderNumber', ...(note === null ? [] : ['preferredShippingDate'])];
  const renamed = await sendUpdate(context, found, change, named);
  if (renamed.order.external_order_number === number) return { ...renamed, note };
  throw makeUndecodableError('v3.orders.update: the answer does not have the new number');
}

/**
 * Sends an update of an order, and checks that it changed nothing that the row does not name.
 * @param named the members that the row names
 * @throws LostMembersError if something else is gone or changed
 */
export async function sendUpdate(
  context: PushContext,
  { order: { id }, resource }: FoundOrder,
  change: WantedChange,
  named: readonly string[],
): Promise<AnsweredOrder> {
  const operation = 'v3.orders.update';
  const before = listMembers(resource);
  const body = buildUpdate(resource, change, context.operations[operation]);
  const request = { operation, path: { id }, query: orderInclude, body } as const;
  const answer = await context.send(request, { id, present: before.keys() });
  const changed = await readChangedOrder(operation, answer, id, context);
  await assertKept(context, before, changed, named);

  return changed;
}

/**
 * Returns true if an order shows every item with its quantity: those that it names, and those that
 * it had before. An answer may leave items out, and an item may be unreadable.
 * @param before the order before the change; null if it is not known
 */
export function showsAllItems(
  { order, resource }: Pick<AnsweredOrder, 'order' | 'resource'>,
  before: Resource | null,
): boolean {
  const lines = readLines(resource).filter(({ quantity }) => quantity !== null);
  const shown = new Set(lines.map(({ id }) => id));
  const included = findChildren(resource, orderItem.type, null, new Map()).resources;
  const formerIds = before === null ? [] : readLines(before).map(({ id }) => id);

  return (
    shown.size > 0 &&
    included.length === lines.length &&
    [...(order.order_items_ids ?? []), ...formerIds].every((id) => shown.has(id))
  );
}

/**
 * Returns an order after a cancellation. Reads it by its id if the answer does not show all of its
 * items. Returns null if the service does not have it any more.
 */
export async function readCancelledOrder(
  context: PushContext,
  answer: HttpAnswer,
  before: AnsweredOrder,
): Promise<AnsweredOrder | null> {
  const { id } = before.order;
  const answered = isEmpty(answer) ? null : readAnsweredOrder('v3.orders.cancel', answer.body, id);
  if (answered !== null && showsAllItems(answered, before.resource)) return answered;
  return readAfterChange('v3.orders.cancel', () => readOrderById(context, id));
}

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
 * Returns a value as text; null if it is empty. A decimal is the same as a number and as a text. A
 * text with a leading zero is no decimal: without it, a postcode or a telephone number is another.
 */
function toText(value: Json | undefined): string | null {
  if (value === undefined || value === null || value === '') return null;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^-?(0|[1-9]\d{0,14})(\.\d+)?$/.test(text) && String(Number(text)).length < 17
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
 * @param earlier names of the members that it had before an earlier update
 * @returns the names of the other members that are gone, and of those that have another value, in
 *   words; null: there are none
 */
export function describeLoss(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
  named: readonly string[],
  earlier: readonly string[] = [],
): string | null {
  const names = [...earlier.filter((path) => !before.has(path)), ...before.keys()];
  const others = names.filter((path) => !isNamed(path, named));
  const lost = {
    erased: others.filter((path) => !after.has(path)),
    changed: others.filter((path) => {
      const [former, now] = [before.get(path), after.get(path)];
      return former !== undefined && now !== undefined && former !== now;
    }),
  };

  const parts = Object.entries(lost).flatMap(([verb, paths]) => {
    const more = paths.length > maxNamed ? ` and ${paths.length - maxNamed} more` : '';
    return paths.length === 0 ? [] : [`${verb} ${paths.slice(0, maxNamed).join(', ')}${more}`];
  });
  return parts.length === 0 ? null : parts.join(' and ');
}

/**
 * Checks that an update changed nothing that its row does not name. If the answer lacks something,
 * reads the order again: an answer may leave resources out.
 * @param before the members that the order had before the update
 * @throws LostMembersError if something is gone or changed. It brings the order as it is now to the
 *   tables.
 */
async function assertKept(
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
  throw new LostMembersError(describeLostMembers(loss), loss, { stream: orders, ...read });
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
  const sent = row.maybeCarriedOut ? await readSentTarget(db, row.id) : null;
  return describeLoss(before, listMembers(resource), named, sent?.present);
}

/** Relationships that an update sends back if the switch `sendsRelationships` is on. */
const sentBack = ['deliveryAddress', 'billingAddress', 'pickUpPoint', 'preferredShippingMethod'];

/** Returns the relationships of an order as it shows them, without those that it does not have. */
function selectRelationships({ relationships }: Resource): {
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
