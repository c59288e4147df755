import { declareChildTable, declareMirrorTable, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import { findStillOpen, findUnlistedOpenRows, type OpenKind } from '../../erp/pull/open-rows.ts';
import { findQuarantinedDue } from '../../erp/pull/quarantine.ts';
import { findRereadsDue, rereadsPerRun } from '../../erp/pull/rereads.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import { type Inbound, type InboundItem, inboundItemSchema, inboundSchema } from '../../warehouse/decoding/v3.ts';
import { unlist } from '../commit/commit-reading.ts';
import { PassRunner } from '../paging/pass-runner.ts';
import { continueWalk, walkWhole } from '../paging/passes.ts';
import { readByIds } from '../paging/read-by-ids.ts';
import { readByPages } from '../paging/read-by-pages.ts';
import { cachePerZone, type DecodedResource, decodeChildren, withoutIncluded } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import { mayWait, type PullContext } from '../run/pull-context.ts';
import { interleave, postponeUnsettled } from './postpone.ts';

/** The states in which an inbound may still change (docs/interface.md, 13.3 States). */
const openStatuses = ['PROCESSING', 'CHECKING', 'CHECKED'];
const kind: OpenKind = { table: 'inbounds', stream: 'inbounds', open: openStatuses, closed: 'COMPLETED' };

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
      return { family, readById: inbound.value.attributes.status === kind.closed ? 'changed' : 'always' };
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

/**
 * Runs one poll. The pass `new` reads the inbounds that were added at the end of the list. The pass `open` reads the
 * open ones. Then the poll reads the inbounds that are stored as open but are no longer in the list of open ones: by
 * pages of the list if several are on one page, else by id.
 */
export async function pullInbounds(context: PullContext): Promise<void> {
  const passes = new PassRunner(context);
  // If the pass fails, few rows are read by id, as in every later poll.
  const firstLoadDone = (await passes.run(() => continueWalk(context, inbounds, 'new', {}))) ?? true;
  const open = { 'filter[status][in]': openStatuses };
  const listed = await passes.run(() => walkWhole(context, inbounds, 'open', open));
  if (listed !== undefined) await passes.run(() => readMoved(context, listed.ids, firstLoadDone));
  passes.end();
}

/** Reads the inbounds that are no longer open, and those that wait for a reread or are in quarantine. */
async function readMoved(context: PullContext, listed: ReadonlySet<number>, firstLoadDone: boolean): Promise<void> {
  const { db, client } = context;
  const moved = await findUnlistedOpenRows(db, client, kind, [...listed]);
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
  const waits = mayWait(context);
  const waiting = waits ? await findRereadsDue(db, client, kind) : [];
  const quarantined = waits ? await findQuarantinedDue(db, client, inbounds.name) : [];
  const unreadIds = moved.map(({ id }) => id).filter((id) => !found.has(id));
  const ids = interleave([unreadIds, waiting, quarantined], firstLoadDone ? rereadsPerRun : null);
  await readByIds(context, inbounds, ids, {
    beside: async (transaction, { absent, readNo }) => ({
      changes: await unlist(transaction, inbounds, absent, readNo),
      result: null,
    }),
    unsettled: ({ trx }, read) =>
      findStillOpen(
        trx,
        client,
        kind,
        read.filter((id) => !listed.has(id)),
      ),
  });
}
