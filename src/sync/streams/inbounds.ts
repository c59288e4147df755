import { childTable, mirrorTable, type TableRow } from '../../erp/mirror/tables.ts';
import { findUnlistedOpen, type OpenKind, stillOpen } from '../../erp/pull/open-rows.ts';
import { findQuarantinedDue } from '../../erp/pull/quarantine.ts';
import { findRereadsDue, rereadsPerRun } from '../../erp/pull/rereads.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import { type Inbound, type InboundItem, inboundItemSchema, inboundSchema } from '../../warehouse/decoding/v3.ts';
import { unlistAbsent } from '../commit/unlist.ts';
import { readByIds } from '../paging/by-id.ts';
import { PassRunner } from '../paging/pass-runner.ts';
import { walkOn, walkWhole } from '../paging/passes.ts';
import { readByPages } from '../paging/read-by-pages.ts';
import { type Decoded, decodeChildren, oncePerZone, withoutIncluded } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import type { PullContext } from '../run/pull-context.ts';
import { interleave, postponeUnsettled } from './postpone.ts';

/** The states in which an inbound still moves (interface.md, States and transitions). */
const openStatuses = ['PROCESSING', 'CHECKING', 'CHECKED'];
const kind: OpenKind = { table: 'inbounds', stream: 'inbounds', open: openStatuses, closed: 'COMPLETED' };

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
    parent: mirrorTable('inbounds'),
    children: [childTable('inbound_items', 'inbound_id')],
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

function inboundRow({ id, attributes, relationships }: Inbound, resource: Resource): TableRow<'inbounds'> {
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

function itemRow(
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

/**
 * One poll. `new` finds what was added at the end of the list, `open` everything that still moves, `settle` what has moved
 * on since: it is open here but no longer among the open ones. It is read by the pages of the list where several stand on
 * one, else by id.
 */
export async function pullInbounds(context: PullContext): Promise<void> {
  const passes = new PassRunner(context);
  // If the pass fails, few rows are read by id, as in every later poll.
  const firstLoadDone = (await passes.run(() => walkOn(context, inbounds, 'new', {}))) ?? true;
  const open = { 'filter[status][in]': openStatuses };
  const listed = await passes.run(() => walkWhole(context, inbounds, 'open', open));
  if (listed !== undefined) await passes.run(() => settle(context, listed.ids, firstLoadDone));
  passes.end();
}

async function settle(context: PullContext, listed: ReadonlySet<number>, firstLoadDone: boolean): Promise<void> {
  const { db, client } = context;
  const moved = await findUnlistedOpen(db, client, kind, [...listed]);
  const found = await readByPages(
    context,
    inbounds,
    moved.filter(({ gone }) => !gone).map(({ id }) => id),
  );
  await postponeUnsettled(
    context,
    kind,
    moved.filter(({ id }) => found.has(id)),
  );
  const waiting = await findRereadsDue(db, client, kind);
  const quarantined = await findQuarantinedDue(db, client, inbounds.name);
  const alone = moved.map(({ id }) => id).filter((id) => !found.has(id));
  const ids = interleave([alone, waiting, quarantined], firstLoadDone ? rereadsPerRun : null);
  await readByIds(context, inbounds, ids, {
    beside: (trx, batch) => unlistAbsent(trx, client, inbounds, batch),
    unsettled: (trx, read) =>
      stillOpen(
        trx,
        client,
        kind,
        read.filter((id) => !listed.has(id)),
      ),
  });
}
