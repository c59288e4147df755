import { describeError } from '../../core/errors.ts';
import { warn } from '../../schedule/run.ts';
import {
  count,
  date,
  defineFields,
  many,
  one,
  personalField,
  text,
  texts,
  time,
} from '../../service/decoding/fields.ts';
import {
  findUnlistedOpen,
  postponeListed,
  readNew,
  readOpen,
  readWaiting,
  readWhole,
  type WholeWalk,
} from '../poll.ts';
import type { StreamTransaction } from '../sql/stream-transaction.ts';
import type { OpenKind, OpenRow } from '../sql/unlisted.ts';
import { requestMissingOrders, requestParcelReads } from '../sql/waiting-reads.ts';
import { declareStream, type Stream, type StreamContext } from '../stream.ts';
import { isErrorOfOnePass } from '../walk.ts';

/** Shipments that may still change (docs/interface.md, 10.3 States). */
const open: OpenKind = {
  table: 'shipments',
  stream: 'shipments',
  statuses: ['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'ERROR'],
  closed: 'SHIPPED',
};
const maxOrderIds = 100;
const maxOrderIdCharacters = 4_000;
/** Number of failed readings by orders after which a poll tries no others. */
const maxFailedReads = 3;
/** A list with more shipments for each order on average is not filtered. */
const maxShipmentsPerOrder = 20;

/** Items of a shipment (docs/interface.md, 10.2 Shipment items). */
export const shipmentItem = defineFields('shipmentItem', {
  attributes: {
    sku: text,
    quantity: count,
    lotNumber: text,
    expirationDate: date,
    serialNumbers: texts,
  },
  relationships: { orderItem: one, product: one },
});

/**
 * Shipments with their items (docs/interface.md, 10.1 Fields). Their times have no zone designator.
 */
export const shipments = declareStream<Stream>({
  name: 'shipments',
  list: 'v3.shipments.list',
  get: 'v3.shipments.get',
  // docs/interface.md, 10.4 Operations
  readableWith: 'order_id',
  include: ['shipmentItems'],
  resource: {
    table: 'shipments',
    fields: defineFields('shipment', {
      attributes: {
        status: text,
        readyToPickOn: time,
        readyToShipOn: time,
        shippedOn: time,
        warehouseCode: text,
        returnLabel: personalField(text),
      },
      relationships: { order: one, orderType: one, shippingMethod: one, shipmentItems: many },
    }),
    children: [
      {
        table: 'shipment_items',
        fields: shipmentItem,
        parentColumn: 'shipment_id',
        listedIn: 'shipmentItems',
      },
    ],
    erasedWithOrders: true,
    incomplete: 'a shipment came without all of its items',
  },
  rescan: {
    table: 'shipments',
    filter: null,
    dates: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    moved: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    horizonDays: 90,
    sorted: true,
  },
  afterChanges: requestWhatFollows,

  async poll(context, pass) {
    const added = await pass(() => readNew(context));
    // Also shows those with a low id that became visible late.
    const listed = await pass(() => readOpen(context, open));
    // Only a complete list of the open rows shows which ones are no longer open.
    if (listed === null) return;

    const isFirstLoad = added?.isFirstLoad ?? false;
    const unlisted = (await pass(() => readByOrders(context, listed.ids))) ?? [];
    const rows = { kind: open, listed: listed.ids, unlisted };
    await pass(() => readWaiting(context, { isFirstLoad, open: rows }));
  },
});

/**
 * Requests to read the packages of changed shipments, and the orders that they name and that are
 * not stored.
 */
async function requestWhatFollows(
  transaction: StreamTransaction,
  ids: readonly number[],
): Promise<void> {
  await requestParcelReads(transaction.trx, transaction.client, ids);
  await requestMissingOrders(transaction, ids);
}

/**
 * Reads the shipments that are stored as open but that the list of open ones lacks, by the orders
 * that they belong to: fewer requests than by id. Those that are still open, for example by an
 * undocumented status, are postponed, or every poll would ask for them.
 * @returns the ids that were not found so
 */
async function readByOrders(
  context: StreamContext,
  listed: ReadonlySet<number>,
): Promise<readonly number[]> {
  const unlisted = await findUnlistedOpen(context, open, listed);
  const found = new Set<number>();
  let firstReadNo = Number.POSITIVE_INFINITY;
  let failures = 0;

  for (const orderIds of batchOrderIds(unlisted.filter(({ isUnlisted }) => !isUnlisted))) {
    const read = await readOrders(context, orderIds);
    if (read === null && ++failures >= maxFailedReads) break;
    if (read === null) continue;

    firstReadNo = Math.min(firstReadNo, read.readNo);
    for (const id of read.ids) found.add(id);
    if (read.ids.size > orderIds.length * maxShipmentsPerOrder) {
      warn(context, 'the list of shipments by order has others; the service may ignore its filter');
      break;
    }
  }

  const ids = unlisted.map(({ id }) => id);
  const read = ids.filter((id) => found.has(id));
  await postponeListed(context, open, read, firstReadNo);

  return ids.filter((id) => !found.has(id));
}

/** Reads the shipments of some orders; null if they cannot be listed. Then they are read by id. */
async function readOrders(
  context: StreamContext,
  orderIds: readonly number[],
): Promise<WholeWalk | null> {
  try {
    return await readWhole(context, null, { 'filter[orderId][in]': orderIds });
  } catch (error) {
    if (!isErrorOfOnePass(error)) throw error;
    warn(
      context,
      `the shipments of ${orderIds.length} orders cannot be listed, so they are read by id: ` +
        describeError(error),
    );
    return null;
  }
}

/** Divides the order ids of the rows into batches that fit into a URL. */
function batchOrderIds(candidates: readonly OpenRow[]): number[][] {
  const batches: number[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  const ids = candidates.map(({ orderId }) => orderId).filter((id) => id !== null);

  for (const id of new Set(ids)) {
    const batch = batches.at(-1);
    characters += String(id).length + 1;
    if (batch === undefined || batch.length >= maxOrderIds || characters > maxOrderIdCharacters) {
      batches.push([id]);
      characters = String(id).length;
    } else batch.push(id);
  }

  return batches;
}
