import { matchesOperation } from '../faults.ts';
import type { LoggedRequest } from '../requests/request-log.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { World } from '../world.ts';
import type { Check, Count } from './schema.ts';

/** The result of a check. */
export interface CheckResult {
  /** The step, from 1. */
  readonly step: number;
  readonly what: string;
  readonly expected: string;
  readonly actual: string;
  readonly ok: boolean;
}
type Result = Omit<CheckResult, 'step'>;

/** Compares the state of the sandbox with what a check expects. */
export function evaluateCheck(check: Check, world: World, store: ClientStore): Result[] {
  if (check.order !== undefined) return checkOrder(check.order, store);
  if (check.stock !== undefined)
    return Object.entries(check.stock).map(([sku, pieces]) =>
      compareTexts(`stock of ${sku}`, pieces, pick(store.products.get(sku)?.stock ?? {}, pieces)),
    );
  if (check.requests !== undefined) return [checkRequests(check.requests, world.log.since(0))];
  return simpleChecks.flatMap(([name, count]) => {
    const expected = check[name];
    return expected === undefined ? [] : [compareCount(name, expected, count(store, world))];
  });
}

type SimpleCheck = Exclude<keyof Check, 'order' | 'stock' | 'requests'>;
const countRows = <T>(rows: Iterable<T>, matches: (row: T) => boolean) => [...rows].filter(matches).length;
const simpleChecks: readonly (readonly [SimpleCheck, (store: ClientStore, world: World) => number])[] = [
  ['orders', ({ orders }) => orders.size],
  ['duplicates', countDuplicates],
  ['shipments', ({ shipments }) => shipments.size],
  ['shipped', ({ shipments }) => countRows(shipments, ({ status }) => status === 'SHIPPED')],
  ['authorizations', ({ authorizations }) => authorizations.size],
  ['returns', ({ returnItems }) => countRows(returnItems, ({ processedOn }) => processedOn !== null)],
  ['restocked', ({ returnItems }) => countRows(returnItems, ({ restockOnMs }) => restockOnMs !== null)],
  ['inbounds', ({ inbounds }) => countRows(inbounds, ({ status }) => status === 'COMPLETED')],
  ['slips', ({ slips }) => slips.size],
  ['disturbed', (_, { log }) => countRows(log.since(0), ({ faulty }) => faulty)],
];

function countDuplicates({ orders }: ClientStore): number {
  const times = Map.groupBy(orders, ({ externalOrderNumber }) => externalOrderNumber);
  return countRows(times.values(), ({ length }) => length > 1);
}

function checkOrder(expected: NonNullable<Check['order']>, store: ClientStore): Result[] {
  const { number } = expected;
  const found = [...store.orders].filter(({ externalOrderNumber }) => externalOrderNumber === number);
  const shipments = found.flatMap((order) => store.listShipments(order));
  const shipped = shipments.filter(({ status }) => status === 'SHIPPED').flatMap(({ items }) => items);
  const results = [compareCount(`order ${number} received`, expected.received, found.length)];
  if (expected.lines !== undefined)
    results.push(compareTexts(`order ${number} lines`, expected.lines, sumBySku(found.flatMap(({ items }) => items))));
  if (expected.shipped !== undefined)
    results.push(compareTexts(`order ${number} shipped`, expected.shipped, sumBySku(shipped)));
  if (expected.shipments !== undefined)
    results.push(compareCount(`order ${number} shipments`, expected.shipments, shipments.length));
  return results;
}

function checkRequests(
  { operation, status, per, count }: NonNullable<Check['requests']>,
  log: readonly LoggedRequest[],
): Result {
  const times = log
    .filter((row) => row.operation !== null && matchesOperation(operation, row.operation))
    .filter((row) => status === undefined || row.status === status)
    .map(({ virtualMs }) => virtualMs);
  const what = `requests ${operation}${status === undefined ? '' : ` answered ${status}`}`;
  if (per === undefined) return compareCount(what, count, times.length);
  return compareCount(`${what} within ${formatMinutes(per)}`, count, countMostWithin(times, per));
}

const formatMinutes = (ms: number) => (ms % 3_600_000 === 0 ? `${ms / 3_600_000} h` : `${ms / 60_000} min`);

/** Returns the largest number of moments within a span. The moments must ascend; the end of the span is excluded. */
function countMostWithin(times: readonly number[], spanMs: number): number {
  let [first, most] = [0, 0];
  for (const [index, atMs] of times.entries()) {
    while ((times[first] ?? atMs) <= atMs - spanMs) first++;
    most = Math.max(most, index - first + 1);
  }
  return most;
}

function compareCount(what: string, expected: Count, actual: number): Result {
  const { min = 0, max = Number.POSITIVE_INFINITY } = typeof expected === 'number' ? {} : expected;
  const ok = typeof expected === 'number' ? actual === expected : actual >= min && actual <= max;
  return { what, expected: formatCount(expected), actual: String(actual), ok };
}

function formatCount(count: Count): string {
  if (typeof count === 'number') return String(count);
  const parts = [
    count.min === undefined ? '' : `at least ${count.min}`,
    count.max === undefined ? '' : `at most ${count.max}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

type Quantities = Readonly<Record<string, number>>;

function compareTexts(what: string, expected: Quantities, actual: Quantities): Result {
  const [left, right] = [formatQuantities(expected), formatQuantities(actual)];
  return { what, expected: left, actual: right, ok: left === right };
}

function formatQuantities(quantities: Quantities): string {
  const entries = Object.entries(quantities).sort(([left], [right]) => (left < right ? -1 : 1));
  return entries.length === 0 ? 'none' : entries.map(([name, quantity]) => `${quantity} x ${name}`).join(', ');
}

const pick = (all: Quantities, wanted: Quantities) =>
  Object.fromEntries(Object.entries(all).filter(([name]) => Object.hasOwn(wanted, name)));

function sumBySku(items: readonly { readonly sku: string; readonly quantity: number }[]): Quantities {
  const sums: Record<string, number> = {};
  for (const { sku, quantity } of items) if (quantity > 0) sums[sku] = (sums[sku] ?? 0) + quantity;
  return sums;
}
