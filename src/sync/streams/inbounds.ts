import type { MirrorRow, ParentRow } from '../../erp/mirror.ts';
import { findUnlistedOpen, type OpenKind, stillOpen } from '../../erp/open-rows.ts';
import { findQuarantinedDue } from '../../erp/quarantine.ts';
import { findRereadsDue, rereadsPerRun } from '../../erp/rereads.ts';
import { findChildren } from '../../warehouse/included.ts';
import { decodeWith, type Resource } from '../../warehouse/jsonapi.ts';
import { type Inbound, type InboundItem, inboundItemSchema, inboundSchema } from '../../warehouse/v3.ts';
import { readByIds } from '../by-id.ts';
import { type Decoded, decodeChildren, oncePerZone, withoutIncluded } from '../decode.ts';
import { walkOn, walkWhole } from '../passes.ts';
import type { PullContext } from '../pull-context.ts';
import type { Stream } from '../stream.ts';
import { unlist } from '../unlist.ts';

/** The states in which an inbound still moves (interface.md, States and transitions). */
const openStatuses = ['PROCESSING', 'CHECKING', 'CHECKED'];
const kind: OpenKind = { table: 'inbounds', stream: 'inbounds', closed: 'COMPLETED' };

/**
 * Inbounds with their items. The items have no link to their inbound (interface.md, v3 inbound): where they came on top
 * of a list, each inbound is read by id.
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
  tables: {
    parent: {
      name: 'inbounds',
      columns: {
        reference: 'text',
        status: 'text',
        received_in: 'text',
        created_on: 'timestamptz',
        checking_on: 'timestamptz',
        completed_on: 'timestamptz',
        inbound_packing_slip_id: 'bigint',
      },
    },
    children: [
      {
        name: 'inbound_items',
        parentColumn: 'inbound_id',
        columns: {
          inbound_id: 'bigint',
          sku: 'text',
          quantity: 'integer',
          lot_number: 'text',
          expiration_date: 'date',
          product_id: 'bigint',
          inbound_packing_slip_item_id: 'bigint',
        },
      },
    ],
  },
  decoder: oncePerZone((zone) => {
    const schema = inboundSchema(zone);
    return (resource, onTop): Decoded => {
      const inbound = decodeWith(schema, resource);
      if ('problem' in inbound) return inbound;
      const { resources } = findChildren(resource, 'inboundItem', null, onTop);
      const items = decodeChildren('inboundItem', resources, inboundItemSchema, (item, own) =>
        itemRow(inbound.value.id, item, own),
      );
      if ('problem' in items) return items;
      // Nothing lists an inbound's items: whether one is gone is asked of it alone, by reconciliation.
      const lines = { table: 'inbound_items', rows: items.children, complete: false };
      const family = { parent: inboundRow(inbound.value, resource), children: [lines] };
      if (onTop.size === 0 || resources.length > 0) return { family };
      return { family, readById: inbound.value.attributes.status === kind.closed ? 'changed' : 'always' };
    };
  }),
};

function inboundRow({ id, attributes, relationships }: Inbound, resource: Resource): ParentRow {
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

function itemRow(inboundId: number, { id, attributes, relationships }: InboundItem, resource: Resource): MirrorRow {
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

/**
 * One poll. `new` finds what was added at the end of the list, `open` everything that still moves, `settle` by id what has
 * moved on since: it is open here but no longer among the open ones.
 */
export async function pullInbounds(context: PullContext): Promise<void> {
  const { db, client } = context;
  const firstLoadDone = await walkOn(context, inbounds, 'new', {});
  const { ids: listed } = await walkWhole(context, inbounds, 'open', { 'filter[status][in]': openStatuses });
  const moved = await findUnlistedOpen(db, client, kind, [...listed]);
  const waiting = await findRereadsDue(db, client, kind);
  const quarantined = await findQuarantinedDue(db, client, inbounds.name);
  const due = moved.filter(({ readDue }) => readDue).map(({ id }) => id);
  const ids = [...new Set([...due, ...waiting, ...quarantined])];
  await readByIds(context, inbounds, firstLoadDone ? ids.slice(0, rereadsPerRun) : ids, {
    onAbsent: (trx, absent, readNo) => unlist(trx, client, inbounds, absent, readNo),
    unsettled: (trx, found) =>
      stillOpen(
        trx,
        client,
        kind,
        found.filter((id) => !listed.has(id)),
      ),
  });
}
