import { WarehouseError } from '../../../../core/errors.ts';
import { workOnHalves } from '../../../../core/halves.ts';
import { encodeValue } from '../../../../warehouse/transport/query.ts';
import type { LookUp, LookUpContext } from '../../payload/kind.ts';
import { listByNumbers, ordersIn } from './find-order.ts';

/** Numbers of one look-up (interface.md, Limits: a page has 100 rows), and bytes of its URL. */
const maxNumbers = 100;
const maxUrlBytes = 6_000;
/** What the rest of the query takes of them. */
const restBytes = 400;

interface Asked {
  readonly id: number;
  readonly reference: string;
}

/** Looks orders up by their numbers, many at once. Numbers are compared exactly, whatever the service's filter does. */
export async function findOrders(rows: readonly Asked[], context: LookUpContext): Promise<Map<number, LookUp>> {
  const found = new Map<number, LookUp>();
  let failed: LookUp | undefined;
  for (const batch of batchesOf(rows)) {
    // Who is not let in, or was asked to wait, does not ask on.
    const seen = failed === undefined ? await lookUp(batch, context) : batch.map(({ id }) => [id, failed] as const);
    for (const [id, one] of seen) found.set(id, one as LookUp);
    failed ??= [...found.values()].find(
      (one) => one.seen === 'no answer' && one.cause !== undefined && endsRound(one.cause),
    );
  }
  return found;
}

/** Whether a failure concerns all numbers alike. An answer that cannot be read may be the fault of one order in it. */
const endsRound = ({ code, status, retryAfterMs }: WarehouseError) =>
  retryAfterMs !== undefined ||
  status === 401 ||
  status === 429 ||
  code === 'credentials_refused' ||
  code === 'connect_failed';

/** A number with a comma is asked for alone: a service that splits what it decodes would make two of it. */
export function batchesOf<T extends Pick<Asked, 'reference'>>(rows: readonly T[]): T[][] {
  const alone = rows.filter(({ reference }) => reference.includes(',')).map((row) => [row]);
  const batches: T[][] = [];
  let bytes = maxUrlBytes;
  for (const row of rows.filter(({ reference }) => !reference.includes(','))) {
    const own = encodeValue(row.reference).length + 1;
    if (bytes + own > maxUrlBytes || (batches.at(-1)?.length ?? maxNumbers) >= maxNumbers) {
      batches.push([]);
      bytes = restBytes;
    }
    batches.at(-1)?.push(row);
    bytes += own;
  }
  return [...batches, ...alone];
}

/** An answer with a number that was not asked for says nothing; of several rows it is found by halves whose that is. */
async function lookUp(rows: readonly Asked[], context: LookUpContext): Promise<Map<number, LookUp>> {
  const asked = new Map(rows.map((row) => [row.reference, row]));
  const noAnswer = (why: string, cause?: WarehouseError) =>
    new Map(rows.map(({ id }) => [id, { seen: 'no answer' as const, why, ...(cause && { cause }) }]));
  let orders: ReturnType<typeof ordersIn>;
  try {
    const pages = await listByNumbers(context.warehouse, [...asked.keys()], context.signal);
    orders = pages.flatMap(ordersIn);
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    return noAnswer(`${error.message}; the look-up is tried again`, error);
  }
  const numbers = orders.map(({ order }) => order.attributes.externalOrderNumber);
  if (numbers.some((number) => number === null || !asked.has(number))) {
    if (rows.length === 1) return noAnswer('the look-up brought a number that was not asked for; it is tried again');
    const halves = await workOnHalves(rows, (half) => lookUp(half, context));
    return new Map(halves.flatMap((half) => [...half]));
  }
  const byNumber = new Map(orders.map((order) => [order.order.attributes.externalOrderNumber, order]));
  return new Map(
    rows.map(({ id, reference }): [number, LookUp] => {
      const order = byNumber.get(reference);
      return [
        id,
        order === undefined ? { seen: 'absent' } : { seen: 'there', resource: order.resource, escaped: order.escaped },
      ];
    }),
  );
}
