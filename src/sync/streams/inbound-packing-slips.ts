import { declareChildTable, declareMirrorTable, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import { recordAbsences } from '../../erp/pull/absences.ts';
import { type OpenKind, sortUnlistedOpenRows } from '../../erp/pull/open-rows.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import {
  type InboundPackingSlip,
  type InboundPackingSlipItem,
  inboundPackingSlipItemSchema,
  inboundPackingSlipSchema,
} from '../../warehouse/decoding/v3.ts';
import { commitReading, makeEmptyReading, unlist } from '../commit/commit-reading.ts';
import { cachePerZone, type DecodedResource, decodeChildren, withoutIncluded } from '../reading/decode.ts';
import { type PassResults, type Stream, toAgeColumns } from '../reading/stream.ts';
import { type PullContext, serviceNow, warn } from '../run/pull-context.ts';

/** The states in which a slip may still change (docs/interface.md, 14.3 States). */
export const openStatuses = ['EXPECTED', 'IN_PROGRESS', 'CHECKING'];
const kind: OpenKind = {
  table: 'inbound_packing_slips',
  stream: 'inbound-packing-slips',
  open: openStatuses,
  closed: 'COMPLETED',
};
const maxNamed = 5;
/** If more open slips than this are missing from the lists at once, we doubt the lists and mark none. */
const maxUnlisted = 20;
const leftTheLists = 'are stored as open but no longer listed (unlisted_since)';

/** Expected deliveries with their items. There is no read by id (docs/interface.md, 14.4 Operations). */
export const inboundPackingSlips: Stream = {
  name: 'inbound-packing-slips',
  list: 'v3.inboundPackingSlips.list',
  get: null,
  include: ['inboundPackingSlipItems'],
  rescan: {
    filter: null,
    dayColumn: 'expected_on',
    dates: ['expected_on', 'received_on', 'completed_on'],
    moved: ['received_on', 'completed_on'],
    horizonDays: 90,
    recentDays: null,
    sorted: false,
  },
  // The list's sort order is not known (docs/interface.md, 14.6 Not shown), so no pass continues from the last id.
  passes: {
    open: { statuses: openStatuses, closed: kind.closed },
    window: { pass: 'completed', attribute: 'completedOn', column: 'completed_on', firstRunDays: null },
    last: checkUnlisted,
  },
  tables: {
    parent: declareMirrorTable('inbound_packing_slips'),
    children: [declareChildTable('inbound_packing_slip_items', 'inbound_packing_slip_id')],
  },
  decoder: cachePerZone((zone) => {
    const schema = inboundPackingSlipSchema(zone);
    return (resource, onTop): DecodedResource => {
      const slip = decodeWith(schema, resource);
      if ('problem' in slip) return slip;
      const listed = slip.value.relationships.inboundPackingSlipItems;
      const { resources, complete } = findChildren(resource, 'inboundPackingSlipItem', listed, onTop);
      const items = decodeChildren('inboundPackingSlipItem', resources, inboundPackingSlipItemSchema, (item, raw) =>
        toItemRow(slip.value.id, item, raw),
      );
      if ('problem' in items) return items;
      const lines = { table: 'inbound_packing_slip_items', rows: items.children, complete };
      const family = { parent: toSlipRow(slip.value, resource), children: [lines] };
      return complete ? { family } : { family, warning: 'an inbound packing slip came without all of its items' };
    };
  }),
};

function toSlipRow(
  { id, attributes, relationships }: InboundPackingSlip,
  resource: Resource,
): TableRow<'inbound_packing_slips'> {
  return {
    id,
    raw: withoutIncluded(resource),
    expected_in: attributes.expectedIn,
    expected_on: attributes.expectedOn,
    received_on: attributes.receivedOn,
    completed_on: attributes.completedOn,
    reference: attributes.reference,
    status: attributes.status,
    comments: attributes.comments,
    metadata: attributes.metadata,
    inbound_id: relationships.inbound,
  };
}

function toItemRow(
  slipId: number,
  { id, attributes }: InboundPackingSlipItem,
  resource: Resource,
): TableRow<'inbound_packing_slip_items'> {
  return {
    id,
    raw: resource,
    inbound_packing_slip_id: slipId,
    sku: attributes.sku,
    quantity: attributes.quantity,
    received: attributes.received,
  };
}

/** Marks slips that are stored as open, but that two polls found in neither list. Names them in a warning. */
async function checkUnlisted(context: PullContext, { open, window }: PassResults): Promise<void> {
  if (open === undefined || window === undefined) return;
  const { client, db } = context;
  const whole = open.ids.size + window.rows > 0 && open.whole && window.whole;
  // Marking a slip as unlisted must not undo a reading made during this poll.
  const { readNo } = open;
  const age = toAgeColumns(inboundPackingSlips);
  const { unseen, gone, tooOld } = await sortUnlistedOpenRows(db, client, kind, age, {
    listed: [...open.ids],
    serviceNow: serviceNow(context),
  });
  if (tooOld.length > 0)
    warn(context, `${nameSome(tooOld)} are stored as open, but older than the 90 days that the service lists`);
  if (gone.length > 0) warn(context, `${nameSome(gone)} ${leftTheLists}`);
  if (!whole || unseen.length > maxUnlisted) {
    if (unseen.length > 0)
      warn(context, `${nameSome(unseen)} are not listed, but the lists seem incomplete, so none was marked`);
    return;
  }
  const { result } = await commitReading(
    context,
    inboundPackingSlips,
    makeEmptyReading(readNo),
    async (transaction) => {
      const absent = await recordAbsences(transaction, { pass: 'poll' }, unseen);
      const changes = await unlist(transaction, inboundPackingSlips, absent, readNo);
      return { changes, result: changes.map(({ id }) => id as number) };
    },
  );
  const marked = result ?? [];
  if (marked.length > 0) warn(context, `${nameSome(marked)} ${leftTheLists}`);
}

function nameSome(ids: readonly number[]): string {
  const more = ids.length > maxNamed ? ` and ${ids.length - maxNamed} more` : '';
  return `inbound packing slips ${ids.slice(0, maxNamed).join(', ')}${more}`;
}
