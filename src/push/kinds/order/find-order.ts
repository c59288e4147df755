/**
 * This folder: kinds that concern an order. They find the order by its number, which is compared
 * exactly.
 */

import type { OperationName } from '../../../../config/operations.ts';
import { pauses } from '../../../core/backoff.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { isObject, parseExact } from '../../../core/json.ts';
import { addDays, toLocalDay } from '../../../core/time.ts';
import { type OrderRow, order, orderItem, orders } from '../../../pull/streams/orders.ts';
import { listPages } from '../../../pull/walk.ts';
import type { ListPage, Warehouse } from '../../../service/client.ts';
import { decodeMembers, flag, many } from '../../../service/decoding/fields.ts';
import { type Document, decodeDocument, type Resource } from '../../../service/decoding/jsonapi.ts';
import type { HttpAnswer } from '../../../service/transport/http.ts';
import { encodeQuery } from '../../../service/transport/query.ts';
import {
  isEmpty,
  NotFoundError,
  PayloadError,
  PostponedError,
  type PushContext,
  readAnswered,
  readIncluded,
  readResources,
} from '../../kind.ts';
import { findNewNumber, findRenameTo, type OtherRow } from '../../sql/renames.ts';

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
export function readAnsweredOrder(
  operation: OperationName,
  body: string,
  id: number,
): AnsweredOrder {
  const document = decodeDocument(operation, body, 'single');
  const { row, ...read } = readAnswered(operation, document, order, (found) => found.id === id);
  return { order: row, ...read };
}

/**
 * Returns an order after a change. If the answer has no body, reads the order by its id.
 * @throws WarehouseError `undecodable` if the answer shows another order, or if the service does
 *   not have it any more
 */
export async function readChangedOrder(
  operation: OperationName,
  answer: HttpAnswer,
  id: number,
  context: PushContext,
): Promise<AnsweredOrder> {
  if (!isEmpty(answer)) return readAnsweredOrder(operation, answer.body, id);
  const order = await readOrderById(context, id);
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
