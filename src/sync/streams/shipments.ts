import { declareChildTable, declareMirrorTable, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import { findStillOpen, findUnlistedOpenRows, type OpenKind, type OpenRow } from '../../erp/pull/open-rows.ts';
import { findQuarantinedDue } from '../../erp/pull/quarantine.ts';
import { findRequestedRereads, rereadsPerRun } from '../../erp/pull/rereads.ts';
import { requestParcelReads } from '../../erp/resources/parcel-reads.ts';
import { findShipmentsWithOrder, healOrderNumbers } from '../../erp/resources/shipment-rows.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import { type Shipment, type ShipmentItem, shipmentItemSchema, shipmentSchema } from '../../warehouse/decoding/v3.ts';
import { unlist } from '../commit/commit-reading.ts';
import { PassRunner } from '../paging/pass-runner.ts';
import { continueWalk, walkWhole } from '../paging/passes.ts';
import { readByIds } from '../paging/read-by-ids.ts';
import { cachePerZone, type DecodedResource, decodeChildren, withoutIncluded } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import { mayWait, type PullContext } from '../run/pull-context.ts';
import { repairOrderNumbers } from './order-numbers.ts';
import { interleave, postponeUnsettled } from './postpone.ts';

/** The states in which a shipment may still change (docs/interface.md, 10.3 States). */
const openStatuses = ['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'ERROR'];
const kind: OpenKind = { table: 'shipments', stream: 'shipments', open: openStatuses, closed: 'SHIPPED' };
/** Number of days that the list reaches back (docs/interface.md, 5.1 Values). */
const listDays = 90;
const maxOrderIds = 100;
const maxOrderIdCharacters = 4_000;

/** Shipments with their items. */
export const shipments: Stream = {
  name: 'shipments',
  list: 'v3.shipments.list',
  get: 'v3.shipments.get',
  include: ['shipmentItems'],
  rescan: {
    filter: null,
    dayColumn: 'ready_to_pick_on',
    dates: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    moved: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    horizonDays: listDays,
    recentDays: null,
    sorted: true,
  },
  tables: {
    parent: declareMirrorTable('shipments', { external_order_number: 'order_id' }),
    children: [declareChildTable('shipment_items', 'shipment_id')],
  },
  healDerived: ({ trx, client }, ids) => healOrderNumbers(trx, client, ids),
  afterChanges: async ({ trx, client }, changes) => {
    const ids = changes.map(({ id }) => id).filter((id) => id !== null);
    await requestParcelReads(trx, client, ids);
    return [];
  },
  afterRefetch: ({ trx, client }, id) => requestParcelReads(trx, client, [id]),
  mayBeGone: ({ trx, client }, ids) => findShipmentsWithOrder(trx, client, ids),
  afterRescan: repairOrderNumbers,
  decoder: cachePerZone((zone) => {
    const schema = shipmentSchema(zone);
    return (resource, onTop): DecodedResource => {
      const shipment = decodeWith(schema, resource);
      if ('problem' in shipment) return shipment;
      const listed = shipment.value.relationships.shipmentItems;
      const { resources, complete } = findChildren(resource, 'shipmentItem', listed, onTop);
      const items = decodeChildren('shipmentItem', resources, shipmentItemSchema, (item, raw) =>
        toItemRow(shipment.value.id, item, raw),
      );
      if ('problem' in items) return items;
      const lines = { table: 'shipment_items', rows: items.children, complete };
      const family = { parent: toShipmentRow(shipment.value, resource), children: [lines] };
      return complete ? { family } : { family, warning: 'a shipment came without all of its items' };
    };
  }),
};

function toShipmentRow(
  { id, attributes, relationships }: Shipment,
  resource: Resource,
): TableRow<'shipments', 'external_order_number'> {
  return {
    id,
    raw: withoutIncluded(resource),
    status: attributes.status,
    ready_to_pick_on: attributes.readyToPickOn,
    ready_to_ship_on: attributes.readyToShipOn,
    shipped_on: attributes.shippedOn,
    warehouse_code: attributes.warehouseCode,
    return_label: attributes.returnLabel,
    order_id: relationships.order,
    order_type_id: relationships.orderType,
    shipping_method_id: relationships.shippingMethod,
  };
}

function toItemRow(
  shipmentId: number,
  { id, attributes, relationships }: ShipmentItem,
  resource: Resource,
): TableRow<'shipment_items'> {
  return {
    id,
    raw: resource,
    shipment_id: shipmentId,
    sku: attributes.sku,
    quantity: attributes.quantity,
    lot_number: attributes.lotNumber,
    expiration_date: attributes.expirationDate,
    serial_numbers: attributes.serialNumbers,
    order_item_id: relationships.orderItem,
    product_id: relationships.product,
  };
}

/**
 * Runs one poll. The pass `new` reads the shipments that were added at the end of the list. The pass `open` reads the
 * open ones, also those with a low id that became visible late. The pass `settle` reads the shipments that are stored
 * as open but are no longer in the list of open ones.
 */
export async function pullShipments(context: PullContext): Promise<void> {
  const passes = new PassRunner(context);
  // If the pass fails, few rows are read by id, as in every later poll.
  const firstLoadDone = (await passes.run(() => continueWalk(context, shipments, 'new', {}))) ?? true;
  const open = { 'filter[status][in]': openStatuses };
  const listed = await passes.run(() => walkWhole(context, shipments, 'open', open));
  // Only a complete list of the open shipments shows which ones are no longer open.
  if (listed !== undefined) await passes.run(() => readMoved(context, [...listed.ids], firstLoadDone));
  await repairOrderNumbers(context);
  passes.end();
}

/** Reads the shipments that are no longer open, those that wait for a reread, and those in quarantine. */
async function readMoved(context: PullContext, listed: readonly number[], firstLoadDone: boolean): Promise<void> {
  const candidates = await findUnlistedOpenRows(context.db, context.client, kind, listed);
  const found = new Set<number>();
  for (const orderIds of batchOrderIds(candidates.filter(({ gone }) => !gone))) {
    const parameters = { 'filter[orderId][in]': orderIds };
    const { ids } = await walkWhole(context, shipments, 'settle', parameters, false);
    for (const id of ids) found.add(id);
  }
  await postponeUnsettled(
    context,
    kind,
    candidates.filter(({ id }) => found.has(id)),
  );
  const unseen = candidates.map(({ id }) => id).filter((id) => !found.has(id));
  const waits = mayWait(context);
  const quarantined = waits ? await findQuarantinedDue(context.db, context.client, shipments.name) : [];
  const requested = waits ? await findRequestedRereads(context.db, context.client, shipments.name) : [];
  const ids = interleave([requested, unseen, quarantined], firstLoadDone ? rereadsPerRun : null);
  await readByIds(context, shipments, ids, {
    beside: async (transaction, { absent, readNo }) => ({
      changes: await unlist(transaction, shipments, absent, readNo),
      result: null,
    }),
    unsettled: ({ trx }, ids) => findStillOpen(trx, context.client, kind, ids),
  });
}

/** Divides the order ids of the rows into batches that fit into a URL. */
function batchOrderIds(candidates: readonly OpenRow[]): number[][] {
  const batches: number[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  for (const id of new Set(candidates.map(({ orderId }) => orderId).filter((orderId) => orderId !== null))) {
    const batch = batches.at(-1);
    characters += String(id).length + 1;
    if (batch === undefined || batch.length >= maxOrderIds || characters > maxOrderIdCharacters) {
      batches.push([id]);
      characters = String(id).length;
    } else batch.push(id);
  }
  return batches;
}
