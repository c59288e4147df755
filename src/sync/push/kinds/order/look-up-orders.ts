import { WarehouseError } from '../../../../core/errors.ts';
import { workOnHalves } from '../../../../core/work-on-halves.ts';
import { findRenames } from '../../../../erp/outbox/renames.ts';
import { encodeValue } from '../../../../warehouse/transport/query.ts';
import type { LookUpContext, LookUpResult } from '../../payload/kind.ts';
import { listByNumbers, readOrders } from './find-order.ts';

/** Maximum number of orders in one look-up: the size of a page (docs/interface.md, 5.1 Values). */
const maxNumbers = 100;
/** Maximum number of bytes in the URL of one look-up. */
const maxUrlBytes = 6_000;
/** Number of these bytes that the other parts of the query take. */
const otherQueryBytes = 400;

/** The members of a row that a look-up needs. */
interface RowToLookUp {
  readonly id: number;
  readonly reference: string;
}

/**
 * Looks up many orders at once by their numbers. Compares the numbers exactly, even if the service's filter does not.
 * An order that an `order.rename` gave its number was not made by the row: a person decides, unless the service refused
 * the row. A list that is behind may still show the former number of an order.
 */
export async function findOrders(
  rows: readonly RowToLookUp[],
  context: LookUpContext,
): Promise<Map<number, LookUpResult>> {
  const found = new Map<number, LookUpResult>();
  let failed: LookUpResult | undefined;
  for (const batch of batchRows(rows)) {
    // If the service refuses the credentials or asks to wait, the other batches are not sent.
    const seen =
      failed === undefined ? await lookUpBatch(batch, context) : batch.map(({ id }) => [id, failed] as const);
    for (const [id, one] of seen) found.set(id, one as LookUpResult);
    failed ??= [...found.values()].find(
      (one) => one.seen === 'no answer' && one.cause !== undefined && concernsAllNumbers(one.cause),
    );
  }
  return found;
}

/** Returns true if a failure concerns all numbers. An answer that cannot be read may be due to one order in it. */
const concernsAllNumbers = ({ code, status, retryAfterMs }: WarehouseError) =>
  retryAfterMs !== undefined ||
  status === 401 ||
  status === 429 ||
  code === 'credentials_refused' ||
  code === 'connect_failed';

/**
 * Divides rows into batches whose numbers fit into a URL. A number with a comma gets a batch for itself, because the
 * service might split the decoded value into two numbers.
 */
export function batchRows<T extends Pick<RowToLookUp, 'reference'>>(rows: readonly T[]): T[][] {
  const alone = rows.filter(({ reference }) => reference.includes(',')).map((row) => [row]);
  const batches: T[][] = [];
  let bytes = maxUrlBytes;
  for (const row of rows.filter(({ reference }) => !reference.includes(','))) {
    const valueBytes = encodeValue(row.reference).length + 1;
    if (bytes + valueBytes > maxUrlBytes || (batches.at(-1)?.length ?? maxNumbers) >= maxNumbers) {
      batches.push([]);
      bytes = otherQueryBytes;
    }
    batches.at(-1)?.push(row);
    bytes += valueBytes;
  }
  return [...batches, ...alone];
}

/**
 * Looks up one batch. If the answer has a number that was not asked for, it proves nothing: then looks up the two
 * halves separately, to find the row that causes it.
 */
async function lookUpBatch(rows: readonly RowToLookUp[], context: LookUpContext): Promise<Map<number, LookUpResult>> {
  const asked = new Map(rows.map((row) => [row.reference, row]));
  const noAnswer = (why: string, cause?: WarehouseError) =>
    new Map(rows.map(({ id }) => [id, { seen: 'no answer' as const, why, ...(cause && { cause }) }]));
  let orders: ReturnType<typeof readOrders>;
  try {
    const pages = await listByNumbers(context.warehouse, [...asked.keys()], context.signal);
    orders = pages.flatMap(readOrders);
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    return noAnswer(`${error.message}; the look-up is tried again`, error);
  }
  const numbers = orders.map(({ order }) => order.attributes.externalOrderNumber);
  if (numbers.some((number) => number === null || !asked.has(number))) {
    const why = 'the answer to the look-up has another order number; the look-up is tried again';
    if (rows.length === 1) return new Map(rows.map(({ id }) => [id, { seen: 'unclear', why }]));
    const halves = await workOnHalves(rows, (half) => lookUpBatch(half, context));
    return new Map(halves.flatMap((half) => [...half]));
  }
  return toResults(rows, orders, context);
}

/** Returns the result for each row: the order that has its number, unless an `order.rename` gave it or took it away. */
async function toResults(
  rows: readonly RowToLookUp[],
  orders: ReturnType<typeof readOrders>,
  { db, client }: LookUpContext,
): Promise<Map<number, LookUpResult>> {
  const byNumber = new Map(orders.map((order) => [order.order.attributes.externalOrderNumber, order]));
  const orderIds = orders.map(({ order }) => order.id);
  const renames = orderIds.length === 0 ? [] : await findRenames(db, client, orderIds);
  return new Map(
    rows.map(({ id, reference }): [number, LookUpResult] => {
      const found = byNumber.get(reference);
      if (found === undefined) return [id, { seen: 'absent' }];
      const ofOrder = renames.filter(({ orderId }) => orderId === found.order.id);
      const last = ofOrder.findLast(({ status }) => status === 'done');
      if (last?.from === reference) {
        const why = `the list still has order ${last.orderId} as ${reference}, which was renamed to ${last.to}; looked up again`;
        return [id, { seen: 'unclear', why }];
      }
      if (!ofOrder.some(({ to }) => to === reference))
        return [id, { seen: 'there', resource: found.resource, escaped: found.escaped }];
      const why = `the number ${reference} belongs to another order, which order.rename gave it`;
      return [id, { seen: 'several', why }];
    }),
  );
}
