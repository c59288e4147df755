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
import { walkWhole } from '../poll.ts';
import type { PullContext } from '../pull-context.ts';
import { findShipmentsWithOrder, requestMissingOrders } from '../sql/missing-orders.ts';
import type { OpenRow } from '../sql/open-rows.ts';
import { requestParcelReads } from '../sql/parcel-reads.ts';
import type { StreamTransaction } from '../sql/stream-transaction.ts';
import { declareStream, type Stream } from '../stream.ts';

/** The states in which a shipment may still change (docs/interface.md, 10.3 States). */
const openStatuses = ['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'ERROR'];
const maxOrderIds = 100;
const maxOrderIdCharacters = 4_000;

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
    filter: null,
    dayColumn: 'ready_to_pick_on',
    dates: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    moved: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    horizonDays: 90,
    recentDays: null,
    sorted: true,
  },
  passes: {
    new: true,
    // Also shows those with a low id that became visible late.
    open: { statuses: openStatuses, closed: 'SHIPPED' },
    settle: readByOrders,
    rereads: { absent: 'unlisted' },
  },
  afterChanges: requestWhatFollows,
  afterRefetch: ({ trx, client }, id) => requestParcelReads(trx, client, [id]),
  mayBeGone: findShipmentsWithOrder,
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

/** Reads shipments by the orders that they belong to. */
async function readByOrders(
  context: PullContext,
  stream: Stream,
  rows: readonly OpenRow[],
): Promise<ReadonlySet<number>> {
  const found = new Set<number>();
  for (const orderIds of batchOrderIds(rows)) {
    const { ids } = await walkWhole(context, stream, null, { 'filter[orderId][in]': orderIds });
    for (const id of ids) found.add(id);
  }
  return found;
}

/** Divides the order ids of the rows into batches that fit into a URL. */
function batchOrderIds(candidates: readonly OpenRow[]): number[][] {
  const batches: number[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  for (const id of new Set(
    candidates.map(({ orderId }) => orderId).filter((orderId) => orderId !== null),
  )) {
    const batch = batches.at(-1);
    characters += String(id).length + 1;
    if (batch === undefined || batch.length >= maxOrderIds || characters > maxOrderIdCharacters) {
      batches.push([id]);
      characters = String(id).length;
    } else batch.push(id);
  }
  return batches;
}
