import {
  inboundPackingSlips,
  openStatuses,
  slip,
  slipItem,
} from '../../../pull/streams/inbound-packing-slips.ts';
import { listPages } from '../../../pull/walk.ts';
import type { Document } from '../../../service/decoding/jsonapi.ts';
import { describeLineDifference, readIncluded, readResources } from '../../answers.ts';
import { type LookUpContext, type LookUpResult, toNoAnswer } from '../../kind.ts';
import { findUnclaimedIds, type UnknownRow } from '../../sql/look-ups.ts';

/** A list of open slips with more pages than this counts as unreadable. */
const maxPages = 200;

/** Reads the slips of an answer. */
export const readSlips = (document: Document) =>
  readResources(document, slip, 'a slip in the answer cannot be read');
type FoundSlip = ReturnType<typeof readSlips>[number];

/** What a slip is recognised by, besides its reference. */
interface WantedSlip {
  readonly expectedIn?: string | null | undefined;
  readonly expectedOn?: string | null | undefined;
  readonly items?: Parameters<typeof describeLineDifference>[0] | null | undefined;
}
type SlipRow = UnknownRow & { readonly payloadRead: WantedSlip };

/**
 * Lists the open slips once, and finds each row's slip among them by reference, warehouse, day and
 * lines.
 */
export async function findSlips(
  rows: readonly SlipRow[],
  context: LookUpContext,
): Promise<ReadonlyMap<number, LookUpResult>> {
  let slips: readonly FoundSlip[];
  try {
    slips = await listOpenSlips(context);
  } catch (error) {
    const { why } = toNoAnswer(error);
    return new Map(rows.map(({ id }) => [id, { seen: 'no answer', why }]));
  }

  const found = new Map<number, LookUpResult>();
  for (const row of rows)
    found.set(
      row.id,
      await findOne(
        row,
        slips.filter((one) => isWanted(row, one)),
        context,
      ),
    );
  return found;
}

/** Returns the result for a row that these slips fit. */
async function findOne(
  row: SlipRow,
  fitting: readonly FoundSlip[],
  { db }: LookUpContext,
): Promise<LookUpResult> {
  const ids = fitting.map((one) => one.row.id);
  const unclaimedIds = await findUnclaimedIds(db, row, ids, {
    table: inboundPackingSlips.tables.parent.name,
    resultMember: 'inboundPackingSlipId',
  });
  const [only, ...others] = fitting.filter((one) => unclaimedIds.includes(one.row.id));

  if (only === undefined) return { seen: 'absent', basis: 'list' };
  if (others.length === 0) return { seen: 'there', resource: only.resource, escaped: only.escaped };
  return { seen: 'several', why: `slips ${unclaimedIds.join(', ')} all match the payload` };
}

/** Returns true if a slip is what a row asks for. */
function isWanted({ reference, payloadRead }: SlipRow, { row, resource }: FoundSlip): boolean {
  const { expectedIn, expectedOn, items } = payloadRead;

  return (
    row.reference === reference &&
    isEqualOrLeftOut(row.expected_in, expectedIn) &&
    isEqualOrLeftOut(row.expected_on, expectedOn) &&
    describeLineDifference(items ?? [], readIncluded(resource, slipItem)) === null
  );
}

/**
 * A row may leave out a member that a switch made optional. The service may have chosen any value
 * for it.
 */
const isEqualOrLeftOut = (found: string | null, wanted: string | null | undefined) =>
  wanted === undefined || wanted === null || found === wanted;

async function listOpenSlips({ warehouse, signal }: LookUpContext): Promise<readonly FoundSlip[]> {
  const filter = {
    include: inboundPackingSlips.include,
    'page[size]': 100,
    'filter[status][in]': openStatuses,
  };
  const list = listPages(warehouse, {
    operation: 'v3.inboundPackingSlips.list',
    filter,
    maxPages,
    signal,
  });

  const slips: FoundSlip[] = [];
  for await (const page of list) for (const one of readSlips(page)) slips.push(one);
  return slips;
}
