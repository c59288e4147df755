import { z } from 'zod';
import type { Operations } from '../../../config/operations.ts';
import { isObject, type Json } from '../../core/json.ts';
import {
  inboundPackingSlips,
  openStatuses,
  slip,
  slipItem,
} from '../../pull/streams/inbound-packing-slips.ts';
import { listPages } from '../../pull/walk.ts';
import {
  type Document,
  decodeDocument,
  type Resource,
  readId,
} from '../../service/decoding/jsonapi.ts';
import {
  defineKind,
  describeLineDifference,
  type LookUpContext,
  type LookUpResult,
  lookUpEach,
  type PushContext,
  type PushResult,
  readAnswered,
  readIncluded,
  readResources,
} from '../kind.ts';
import {
  day,
  makeBody,
  personalText,
  pickAttributes,
  pickGiven,
  quantity,
  requiredText,
  requireUnless,
  textsNamed,
} from '../payload.ts';
import { findUnclaimedSlips, type UnknownRow } from '../sql/look-ups.ts';

const operation = 'v3.inboundPackingSlips.create';

function makeSlipPayload(operations: Operations) {
  const require = requireUnless(operations[operation].optional);
  const item = z.strictObject({
    sku: require('items.sku', requiredText),
    quantity: require('items.quantity', quantity),
  });

  return z.strictObject({
    expectedIn: require('expectedIn', requiredText.meta({ description: 'warehouse code' })),
    expectedOn: require('expectedOn', day),
    comments: personalText,
    metadata: textsNamed('serviceLevel', 'purchases', 'reference'),
    items: require('items', z.array(item).min(1, 'must have at least one entry')),
  });
}
type SlipPayload = z.infer<ReturnType<typeof makeSlipPayload>>;

/**
 * Announces goods to a warehouse (docs/interface.md, 14.4 Operations). The row's reference becomes
 * the slip's. A slip is looked up by reference, warehouse, day and lines, because its reference is
 * not unique.
 */
export const inboundPackingSlipCreate = (operations: Operations) =>
  defineKind<SlipPayload>({
    name: 'inbound_packing_slip.create',
    schema: makeSlipPayload(operations),
    operation,
    notFoundMeansRoute: true,
    awaitsProducts: true,
    unknown: {
      do: 'look up',
      lookUp: {
        stream: inboundPackingSlips,
        find: findSlips,
        // The slip that is found has the lines that the row asks for.
        conclude: ({ resource }) => ({ result: toResult(resource) }),
        whenAbsent: 'ask operator',
        doubtsRefusal: false,
      },
    },
    push: createSlip,
  });

async function createSlip(
  { items, ...slipMembers }: SlipPayload,
  context: PushContext,
): Promise<PushResult> {
  const { reference } = context.row;
  const attributes = pickAttributes({ ...slipMembers, reference });
  const included = (items ?? []).map((item) => ({
    type: 'inboundPackingSlipItem',
    attributes: pickGiven(item),
  }));
  const data = { type: 'inboundPackingSlip', attributes };
  const body = makeBody(data, included, context.operations[operation]);

  const answer = await context.send({ operation, body });
  const document = decodeDocument(operation, answer.body, 'single');
  const created = readAnswered(operation, document, slip, (row) => row.reference === reference);

  return {
    result: toResult(created.resource),
    reading: { stream: inboundPackingSlips, ...created },
  };
}

function toResult(resource: Resource): PushResult['result'] {
  const items = readIncluded(resource, slipItem).map(({ id, sku }) => ({ id, sku }));
  return { inboundPackingSlipId: readId(resource), items };
}

/** A list of open slips with more pages than this counts as unreadable. */
const maxPages = 200;

/** Reads the slips of an answer. */
const readSlips = (document: Document) =>
  readResources(document, slip, 'a slip in the answer cannot be read');
type FoundSlip = ReturnType<typeof readSlips>[number];

/** An open slip of the service that cannot be read. */
interface UnreadableSlip {
  readonly id: number | null;
  readonly attributes: { readonly [member: string]: Json };
  readonly error: unknown;
}

interface OpenSlips {
  readonly slips: readonly FoundSlip[];
  readonly unreadable: readonly UnreadableSlip[];
}

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
async function findSlips(
  rows: readonly SlipRow[],
  context: LookUpContext,
): Promise<ReadonlyMap<number, LookUpResult>> {
  const open = await listOpenSlips(context);

  return lookUpEach(rows, (row) => findSlip(row, open, context));
}

/**
 * Returns the result for a row, of which one of these slips may be.
 * @throws the error of a slip that cannot be read and may be the one of this row
 */
async function findSlip(
  row: SlipRow,
  { slips, unreadable }: OpenSlips,
  { db }: LookUpContext,
): Promise<LookUpResult> {
  const fitting = slips.filter((one) => isWanted(row, one));
  const doubtful = unreadable.filter((one) => mayBeWanted(row, one));
  const ids = [...fitting.map((one) => one.row.id), ...doubtful.flatMap(({ id }) => id ?? [])];
  const unclaimedIds = await findUnclaimedSlips(db, row, ids);

  const doubt = doubtful.find(({ id }) => id === null || unclaimedIds.includes(id));
  if (doubt !== undefined) throw doubt.error;

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
 * Returns true unless a slip that cannot be read has another reference or warehouse than a row asks
 * for.
 */
function mayBeWanted({ reference, payloadRead }: SlipRow, { attributes }: UnreadableSlip): boolean {
  const mayBe = (found: Json | undefined, wanted: string | null | undefined) =>
    (found !== null && typeof found !== 'string') || isEqualOrLeftOut(found, wanted);

  return (
    mayBe(attributes.reference, reference) && mayBe(attributes.expectedIn, payloadRead.expectedIn)
  );
}

/**
 * A row may leave out a member that a switch made optional. The service may have chosen any value
 * for it.
 */
const isEqualOrLeftOut = (found: string | null, wanted: string | null | undefined) =>
  wanted === undefined || wanted === null || found === wanted;

async function listOpenSlips({ warehouse, signal }: LookUpContext): Promise<OpenSlips> {
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
  const unreadable: UnreadableSlip[] = [];
  for await (const page of list)
    for (const resource of page.data)
      try {
        for (const one of readSlips({ ...page, data: [resource] })) slips.push(one);
      } catch (error) {
        const { attributes } = isObject(resource) ? resource : {};
        const members = isObject(attributes) ? attributes : {};
        unreadable.push({ id: readId(resource), attributes: members, error });
      }
  return { slips, unreadable };
}
