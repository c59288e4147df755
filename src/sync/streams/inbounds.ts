import { declareChildTable, declareMirrorTable, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import { type Inbound, type InboundItem, inboundItemSchema, inboundSchema } from '../../warehouse/decoding/v3.ts';
import { readByPages } from '../paging/read-by-ids.ts';
import { cachePerZone, type DecodedResource, decodeChildren, withoutIncluded } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';

/** The states in which an inbound may still change, or no longer (docs/interface.md, 13.3 States). */
const open = { statuses: ['PROCESSING', 'CHECKING', 'CHECKED'], closed: 'COMPLETED' };

/**
 * Inbounds with their items. How items are linked to their inbound is not known (docs/interface.md, 13.5 Not shown). If
 * a list has the items beside its inbounds and without a link, each inbound is read by id.
 */
export const inbounds: Stream = {
  name: 'inbounds',
  list: 'v3.inbounds.list',
  get: 'v3.inbounds.get',
  include: ['inboundItems'],
  lines: { table: 'inbound_items', get: 'v3.inboundItems.get' },
  rescan: {
    filter: null,
    dayColumn: 'created_on',
    dates: ['created_on', 'checking_on', 'completed_on'],
    moved: ['created_on', 'checking_on', 'completed_on'],
    horizonDays: null,
    recentDays: null,
    sorted: true,
  },
  passes: { new: true, open, settle: readByPages, rereads: { until: 'unlisted', absent: 'unlisted' } },
  tables: {
    parent: declareMirrorTable('inbounds'),
    children: [declareChildTable('inbound_items', 'inbound_id')],
  },
  decoder: cachePerZone((zone) => {
    const schema = inboundSchema(zone);
    return (resource, onTop): DecodedResource => {
      const inbound = decodeWith(schema, resource);
      if ('problem' in inbound) return inbound;
      const { resources } = findChildren(resource, 'inboundItem', null, onTop);
      const items = decodeChildren('inboundItem', resources, inboundItemSchema, (item, raw) =>
        toItemRow(inbound.value.id, item, raw),
      );
      if ('problem' in items) return items;
      // No relationship lists an inbound's items. The reconciliation reads a missing item by id to see if it is gone.
      const lines = { table: 'inbound_items', rows: items.children, complete: false };
      const family = { parent: toInboundRow(inbound.value, resource), children: [lines] };
      if (onTop.size === 0 || resources.length > 0) return { family };
      return { family, readById: inbound.value.attributes.status === open.closed ? 'changed' : 'always' };
    };
  }),
};

function toInboundRow({ id, attributes, relationships }: Inbound, resource: Resource): TableRow<'inbounds'> {
  return {
    id,
    raw: withoutIncluded(resource),
    reference: attributes.reference,
    status: attributes.status,
    received_in: attributes.receivedIn,
    created_on: attributes.createdOn,
    checking_on: attributes.checkingOn,
    completed_on: attributes.completedOn,
    inbound_packing_slip_id: relationships.inboundPackingSlip,
  };
}

function toItemRow(
  inboundId: number,
  { id, attributes, relationships }: InboundItem,
  resource: Resource,
): TableRow<'inbound_items'> {
  return {
    id,
    raw: resource,
    inbound_id: inboundId,
    sku: attributes.sku,
    quantity: attributes.quantity,
    lot_number: attributes.lotNumber,
    expiration_date: attributes.expirationDate,
    product_id: relationships.product,
    inbound_packing_slip_item_id: relationships.inboundPackingSlipItem,
  };
}
