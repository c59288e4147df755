/**
 * Kinds that concern an order. An order is found by its number, which is compared exactly.
 */

import type { OperationName } from '../../../../../config/operations.ts';
import { undecodableAnswer } from '../../../../core/errors.ts';
import { addDays, localDay } from '../../../../core/time.ts';
import type { ListPage, Warehouse } from '../../../../warehouse/client.ts';
import { indexIncluded, withAllIncluded } from '../../../../warehouse/decoding/included.ts';
import { type Document, decodeDocument, decodeWith, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import { type Order, orderSchema } from '../../../../warehouse/decoding/v3-orders.ts';
import { encodeQuery } from '../../../../warehouse/transport/query.ts';
import { listPages } from '../../../paging/list-pages.ts';
import { orders } from '../../../streams/orders.ts';
import { NotThereError, PayloadError, type PushContext } from '../../payload/kind.ts';

/** A look-up answers with at most one order per number; more pages than this are no answer. */
const maxPages = 5;
export const orderInclude = encodeQuery({ include: orders.include });

/** An order as it is at the service now, with everything that belongs to it inside. */
export interface FoundOrder {
  readonly order: Order;
  readonly resource: Resource;
  readonly escaped: boolean;
  /** The service's day, in the client's zone. */
  readonly today: string;
}

/**
 * Finds the order that a row speaks of. The id that the tables know is tried first, as lists may lag behind; whether it
 * still bears the number is checked, as numbers can be renamed.
 * @throws NotThereError where the service has no such order
 */
export async function findOrder({ row, warehouse, signal, zone }: PushContext): Promise<FoundOrder> {
  const number = row.reference;
  assertOrderNumber(number);
  const byId =
    row.knownId === null ? null : await warehouse.get('v3.orders.get', row.knownId, orderInclude, { signal });
  const found = byId === null ? null : orderIn(byId, number);
  if (byId !== null && found !== null) return { ...found, today: serviceDay(byId.dateMs, zone) };
  const pages = await listByNumbers(warehouse, [number], signal);
  const listed = pages.map((page) => orderIn(page, number)).find((order) => order !== null);
  if (listed === undefined || listed === null)
    throw new NotThereError(`the service has no order with the number ${number}; once it has, retry this row`);
  return { ...listed, today: serviceDay(pages.at(-1)?.dateMs ?? null, zone) };
}

/** @throws PayloadError where no order can have that number (interface.md, Limits) */
export function assertOrderNumber(number: string): void {
  if (number.length < 1 || number.length > 50) throw new PayloadError(['reference: must have 1 to 50 characters']);
}

/** Asks the list for orders by their numbers (interface.md, GET /v3/orders). @throws WarehouseError where it cannot be relied upon */
export async function listByNumbers(
  warehouse: Warehouse,
  numbers: readonly string[],
  signal: AbortSignal,
): Promise<ListPage[]> {
  const filter = { include: orders.include, 'page[size]': 100, 'filter[externalOrderNumber][in]': numbers };
  const pages: ListPage[] = [];
  const list = listPages(warehouse, { operation: 'v3.orders.list', filter, maxPages, signal });
  for await (const page of list) pages.push(page);
  return pages;
}

/** The order with exactly that number among the resources of a document. */
function orderIn(document: Document, number: string): Omit<FoundOrder, 'today'> | null {
  return ordersIn(document).find(({ order }) => order.attributes.externalOrderNumber === number) ?? null;
}

/**
 * The orders of a document, each with what was included for it.
 * @throws WarehouseError `undecodable` where one cannot be read: such an answer says nothing
 */
export function ordersIn(document: Document): Omit<FoundOrder, 'today'>[] {
  const onTop = indexIncluded(document.included);
  return document.data.map((data) => {
    const resource = withAllIncluded(data, onTop);
    const read = decodeWith(orderSchema, resource);
    if ('value' in read) return { order: read.value, resource: resource as Resource, escaped: document.escaped };
    const { path, reason } = read.problem;
    throw undecodableAnswer(`an order in the answer cannot be read: ${path}: ${reason}`);
  });
}

/**
 * The order that an answer holds.
 * @throws WarehouseError `undecodable` where it is another than the one that was asked to be changed
 */
export function answeredOrder(operation: OperationName, body: string, id: number): Omit<FoundOrder, 'today'> {
  const [order] = ordersIn(decodeDocument(operation, body, 'single'));
  if (order?.order.id === id) return order;
  throw undecodableAnswer(`${operation}: the answer is of another order`);
}

/** The service's day; where it sends no Date, yesterday of this machine, so that no date is taken for past too early. */
function serviceDay(dateMs: number | null, zone: string): string {
  const day = localDay(new Date(dateMs ?? Date.now()).toISOString(), zone);
  return dateMs === null ? addDays(day, -1) : day;
}
