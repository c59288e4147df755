import { drawReadNo } from '../../erp/mirror/read-no.ts';
import { childTable, mirrorTable, type TableRow } from '../../erp/mirror/tables.ts';
import { noteAbsences } from '../../erp/pull/absences.ts';
import { type OpenKind, sortUnlistedOpen } from '../../erp/pull/open-rows.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import {
  type InboundPackingSlip,
  type InboundPackingSlipItem,
  inboundPackingSlipItemSchema,
  inboundPackingSlipSchema,
} from '../../warehouse/decoding/v3.ts';
import { commitReading, nothingRead } from '../commit/commit-reading.ts';
import { unlist } from '../commit/unlist.ts';
import { PassRunner } from '../paging/pass-runner.ts';
import { walkWhole, walkWindow } from '../paging/passes.ts';
import { type Decoded, decodeChildren, oncePerZone, withoutIncluded } from '../reading/decode.ts';
import { ageColumns, type Stream } from '../reading/stream.ts';
import { type PullContext, serviceNow, warn } from '../run/pull-context.ts';

/** The states in which a slip still moves (interface.md, States and transitions). */
export const openStatuses = ['EXPECTED', 'IN_PROGRESS', 'CHECKING'];
const kind: OpenKind = {
  table: 'inbound_packing_slips',
  stream: 'inbound-packing-slips',
  open: openStatuses,
  closed: 'COMPLETED',
};
const maxNamed = 5;
/** So many may leave the lists at once before it is the lists that are doubted. */
const maxUnlisted = 20;
const leftTheLists = 'left the lists while open here (unlisted_since)';

/** Announced deliveries with their items. There is no read by id (interface.md, v3 inbound packing slips). */
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
  tables: {
    parent: mirrorTable('inbound_packing_slips'),
    children: [childTable('inbound_packing_slip_items', 'inbound_packing_slip_id')],
  },
  decoder: oncePerZone((zone) => {
    const schema = inboundPackingSlipSchema(zone);
    return (resource, onTop): Decoded => {
      const slip = decodeWith(schema, resource);
      if ('problem' in slip) return slip;
      const listed = slip.value.relationships.inboundPackingSlipItems;
      const { resources, complete } = findChildren(resource, 'inboundPackingSlipItem', listed, onTop);
      const items = decodeChildren('inboundPackingSlipItem', resources, inboundPackingSlipItemSchema, (item, own) =>
        itemRow(slip.value.id, item, own),
      );
      if ('problem' in items) return items;
      const lines = { table: 'inbound_packing_slip_items', rows: items.children, complete };
      const family = { parent: slipRow(slip.value, resource), children: [lines] };
      return complete ? { family } : { family, warning: 'an inbound packing slip came without all of its items' };
    };
  }),
};

function slipRow(
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

function itemRow(
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

/**
 * One poll. `open` finds everything that still moves, `completed` what was completed since the watermark less the lookback
 * (at first: everything). The order of the list is not stated, so there is no walk that goes on from the last id.
 */
export async function pullInboundPackingSlips(context: PullContext): Promise<void> {
  // As old as the first request: what is found absent later must not undo what somebody else reads meanwhile.
  const readNo = await drawReadNo(context.db);
  const passes = new PassRunner(context);
  const moving = { 'filter[status][in]': openStatuses };
  const open = await passes.run(() => walkWhole(context, inboundPackingSlips, 'open', moving));
  const window = { filter: 'filter[completedOn][gt]', column: 'completed_on', firstRunDays: null };
  const completed = await passes.run(() => walkWindow(context, inboundPackingSlips, 'completed', window, {}));
  passes.end();
  if (open === undefined || completed === undefined) return;
  const shown = open.ids.size + completed.rows > 0;
  await dealWithUnlisted(context, [...open.ids], shown && open.whole && completed.whole, readNo);
}

/** A slip that is open here and on neither list: marked after two polls, and named. */
async function dealWithUnlisted(
  context: PullContext,
  listed: readonly number[],
  whole: boolean,
  readNo: number,
): Promise<void> {
  const { client, db } = context;
  const age = ageColumns(inboundPackingSlips);
  const { unseen, gone, tooOld } = await sortUnlistedOpen(db, client, kind, age, {
    listed,
    serviceNow: serviceNow(context),
  });
  if (tooOld.length > 0) warn(context, `${nameSome(tooOld)} are open here and older than the 90 days that are listed`);
  if (gone.length > 0) warn(context, `${nameSome(gone)} ${leftTheLists}`);
  if (!whole || unseen.length > maxUnlisted) {
    if (unseen.length > 0) warn(context, `${nameSome(unseen)} are not listed; the lists are doubted, none is marked`);
    return;
  }
  const { result } = await commitReading(context, inboundPackingSlips, nothingRead(readNo), async (trx) => {
    const absent = await noteAbsences(trx, { client, stream: inboundPackingSlips.name, pass: 'poll' }, unseen);
    const changes = await unlist(trx, client, inboundPackingSlips, absent, readNo);
    return { changes, result: changes.map(({ id }) => id as number) };
  });
  const marked = result ?? [];
  if (marked.length > 0) warn(context, `${nameSome(marked)} ${leftTheLists}`);
}

function nameSome(ids: readonly number[]): string {
  const more = ids.length > maxNamed ? ` and ${ids.length - maxNamed} more` : '';
  return `inbound packing slips ${ids.slice(0, maxNamed).join(', ')}${more}`;
}
