import { warn } from '../../schedule/run.ts';
import {
  count,
  date,
  defineFields,
  json,
  many,
  one,
  text,
  time,
} from '../../service/decoding/fields.ts';
import { commitReading, makeEmptyReading, unlist } from '../commit.ts';
import {
  type DateWindow,
  findUnlistedOpen,
  postponeListed,
  readOpen,
  readWhole,
  readWindow,
  type WholeWalk,
} from '../poll.ts';
import { type OpenKind, type OpenRow, recordUnlistedReads } from '../sql/unlisted.ts';
import { declareStream, type Stream, type StreamContext } from '../stream.ts';

/** The states in which a slip may still change (docs/interface.md, 14.3 States). */
export const openStatuses = ['EXPECTED', 'IN_PROGRESS', 'CHECKING'];
const openSlips: OpenKind = {
  table: 'inbound_packing_slips',
  stream: 'inbound-packing-slips',
  statuses: openStatuses,
  closed: 'COMPLETED',
};
const maxNamed = 5;
/**
 * If more open slips than this are missing from the lists at once, we doubt the lists and mark
 * none.
 */
const maxUnlisted = 20;
const noLongerListed = 'are stored as open but no longer listed (unlisted_since)';

/** Items of an inbound packing slip (docs/interface.md, 14.2 Items). */
export const slipItem = defineFields('inboundPackingSlipItem', {
  attributes: { sku: text, quantity: count, received: count },
  relationships: {},
});

/** Inbound packing slips (docs/interface.md, 14.1 Fields). */
export const slip = defineFields('inboundPackingSlip', {
  attributes: {
    expectedIn: text,
    expectedOn: date,
    receivedOn: time,
    completedOn: time,
    reference: text,
    status: text,
    comments: text,
    metadata: json,
  },
  relationships: { inbound: one, inboundPackingSlipItems: many },
});

const completedOn: DateWindow = {
  pass: 'completed',
  attribute: 'completedOn',
  firstRunDays: null,
};

/**
 * Expected deliveries with their items. There is no read by id (docs/interface.md, 14.4
 * Operations).
 */
export const inboundPackingSlips = declareStream<Stream>({
  name: 'inbound-packing-slips',
  list: 'v3.inboundPackingSlips.list',
  get: null,
  include: ['inboundPackingSlipItems'],
  resource: {
    table: 'inbound_packing_slips',
    fields: slip,
    children: [
      {
        table: 'inbound_packing_slip_items',
        fields: slipItem,
        parentColumn: 'inbound_packing_slip_id',
        listedIn: 'inboundPackingSlipItems',
      },
    ],
    erasedWithOrders: false,
    incomplete: 'an inbound packing slip came without all of its items',
  },
  rescan: {
    table: 'inbound_packing_slips',
    filter: null,
    dates: ['expected_on', 'received_on', 'completed_on'],
    moved: ['received_on', 'completed_on'],
    horizonDays: 90,
    sorted: false,
  },

  // The list's sort order is not known (docs/interface.md, 14.6 Not shown), so no pass continues
  // from the last id.
  async poll(context, pass) {
    const open = await pass(() => readOpen(context, openSlips));
    const completed = await pass(() => readWindow(context, completedOn));
    if (open === null || completed === null) return;

    const isWhole = open.ids.size + completed.rows > 0 && open.whole && completed.whole;
    await pass(() => checkUnlisted(context, open, isWhole));
  },
});

/**
 * Marks slips that are stored as open, but that two polls found in no list. Names them in a
 * warning.
 * @param isWhole false if the lists may lack slips: then none is marked
 */
async function checkUnlisted(
  context: StreamContext,
  { ids, readNo }: WholeWalk,
  isWhole: boolean,
): Promise<void> {
  const found = await findUnlistedOpen(context, openSlips, ids);
  const open = found.filter(({ isQuarantined }) => !isQuarantined);
  const select = (isWanted: (row: OpenRow) => boolean) => open.filter(isWanted).map(({ id }) => id);
  const marked = select(({ isUnlisted }) => isUnlisted);
  const unlisted = select(({ isUnlisted, isYoung }) => !isUnlisted && isYoung);
  const tooOld = select(({ isUnlisted, isYoung }) => !isUnlisted && !isYoung);

  if (tooOld.length > 0)
    warn(
      context,
      `${nameSome(tooOld)} are stored as open, but older than the 90 days that the service lists`,
    );
  if (marked.length > 0) warn(context, `${nameSome(marked)} ${noLongerListed}`);
  if (!isWhole || unlisted.length > maxUnlisted) {
    if (unlisted.length > 0)
      warn(
        context,
        `${nameSome(unlisted)} are not listed, but the lists seem incomplete, so none was marked`,
      );
    return;
  }

  const missing = unlisted.length === 0 ? [] : await findMissing(context, unlisted);

  // Marking a slip as unlisted must not undo a reading made during this poll.
  const added = await commitReading(context, makeEmptyReading(readNo), async (transaction) => {
    const ids = await recordUnlistedReads(transaction, 'poll', missing);
    return unlist(transaction, context.stream, ids, readNo);
  });
  if (added !== null && added.length > 0) warn(context, `${nameSome(added)} ${noLongerListed}`);
}

/**
 * Reads the list without a filter, and returns the slips that it lacks, too. A slip that was
 * completed days ago, or has an undocumented status, is only there.
 */
async function findMissing(
  context: StreamContext,
  unlisted: readonly number[],
): Promise<readonly number[]> {
  const { ids, whole, readNo } = await readWhole(context, 'all', {});
  const listed = unlisted.filter((id) => ids.has(id));
  await postponeListed(context, openSlips, listed, readNo);

  return whole ? unlisted.filter((id) => !ids.has(id)) : [];
}

function nameSome(ids: readonly number[]): string {
  const more = ids.length > maxNamed ? ` and ${ids.length - maxNamed} more` : '';
  return `inbound packing slips ${ids.slice(0, maxNamed).join(', ')}${more}`;
}
