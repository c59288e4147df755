/**
 * Kinds that concern an inbound delivery. A slip is looked up by reference, warehouse, day and lines, as its number is
 * not unique.
 */

import { z } from 'zod';
import { undecodableAnswer, WarehouseError } from '../../../../core/errors.ts';
import { findUnclaimed } from '../../../../erp/outbox/look-ups.ts';
import { findChildren, indexIncluded, withAllIncluded } from '../../../../warehouse/decoding/included.ts';
import { type Document, decodeDocument, decodeWith, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import {
  type InboundPackingSlip,
  inboundPackingSlipItemSchema,
  inboundPackingSlipSchema,
} from '../../../../warehouse/decoding/v3.ts';
import { listPages } from '../../../paging/list-pages.ts';
import { inboundPackingSlips, openStatuses } from '../../../streams/inbound-packing-slips.ts';
import {
  defineKind,
  type LookUp,
  type LookUpContext,
  type LookUpRule,
  type PushContext,
  type Pushed,
} from '../../payload/kind.ts';
import { day, given, personalText, quantity, requiredText, textsNamed } from '../../payload/payload.ts';
import { linesDiffer } from '../order/order-payload.ts';

const schema = z.strictObject({
  expectedIn: requiredText.meta({ description: 'warehouse code' }),
  expectedOn: day,
  comments: personalText,
  metadata: textsNamed('serviceLevel', 'purchases', 'reference'),
  items: z.array(z.strictObject({ sku: requiredText, quantity })).min(1, 'must have at least one'),
});
type SlipPayload = z.infer<typeof schema>;

const operation = 'v3.inboundPackingSlips.create';
/** More pages of open slips than this are no answer. */
const maxPages = 200;

/** Announces goods to a warehouse (interface.md, Create inbound packing slip). The reference of the row is the slip's. */
export const inboundPackingSlipCreate = defineKind<SlipPayload>({
  name: 'inbound_packing_slip.create',
  schema,
  operation,
  notFoundMeansRoute: true,
  unknown: {
    do: 'look up',
    lookUp: {
      stream: inboundPackingSlips,
      find: findSlips,
      differs: ({ items }, resource) => linesDiffer(items, linesOf(resource)),
      resultOf,
      whenAbsent: 'ask operator',
      doubtsRefusal: false,
    },
  },
  push: createSlip,
});

async function createSlip(payload: SlipPayload, context: PushContext): Promise<Pushed> {
  const { items, metadata, ...own } = payload;
  const included = items.map((attributes) => ({ type: 'inboundPackingSlipItem', attributes }));
  const data = {
    type: 'inboundPackingSlip',
    attributes: {
      ...given({ ...own, reference: context.row.reference }),
      ...(metadata ? { metadata: given(metadata) } : {}),
    },
  };
  const body = context.included === 'inside' ? { data: { ...data, included } } : { data, included };
  const answer = await context.send({ operation, body });
  const document = decodeDocument(operation, answer.body, 'single');
  const [slip] = slipsIn(document);
  if (slip === undefined || slip.read.attributes.reference !== context.row.reference)
    throw undecodableAnswer(`${operation}: the answer is of another slip`);
  const { resource } = slip;
  return { result: resultOf(resource), reading: { stream: inboundPackingSlips, resource, escaped: document.escaped } };
}

/** Zone-less times do not matter here: only reference, warehouse and lines are looked at. */
const readable = inboundPackingSlipSchema('UTC');

function slipsIn(document: Document): { read: InboundPackingSlip; resource: Resource; escaped: boolean }[] {
  const onTop = indexIncluded(document.included);
  return document.data.map((data) => {
    const resource = withAllIncluded(data, onTop) as Resource;
    const read = decodeWith(readable, resource);
    if ('value' in read) return { read: read.value, resource, escaped: document.escaped };
    throw undecodableAnswer(`a slip in the answer cannot be read: ${read.problem.path}: ${read.problem.reason}`);
  });
}

function linesOf(resource: Resource): { id: number; sku: string | null; quantity: number | null }[] {
  return findChildren(resource, 'inboundPackingSlipItem', null, new Map()).resources.flatMap((item) => {
    const read = decodeWith(inboundPackingSlipItemSchema, item);
    if ('problem' in read) return [];
    return [{ id: read.value.id, sku: read.value.attributes.sku, quantity: read.value.attributes.quantity }];
  });
}

function resultOf(resource: Resource): Pushed['result'] {
  const read = decodeWith(readable, resource);
  const items = linesOf(resource).map(({ id, sku }) => ({ id, sku }));
  return { inboundPackingSlipId: 'value' in read ? read.value.id : null, items };
}

/** Lists the open slips once, and looks in them for every row: by reference, warehouse, day and lines. */
async function findSlips(
  rows: Parameters<LookUpRule<SlipPayload>['find']>[0],
  context: LookUpContext,
): Promise<Map<number, LookUp>> {
  let slips: ReturnType<typeof slipsIn>;
  try {
    slips = await listOpen(context);
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    const why = `${error.message}; the look-up is tried again`;
    return new Map(rows.map(({ id }) => [id, { seen: 'no answer', why }]));
  }
  const found = new Map<number, LookUp>();
  const table = inboundPackingSlips.tables.parent.name;
  for (const row of rows) {
    const { expectedIn, expectedOn, items } = row.payloadRead;
    const fitting = slips.filter(
      ({ read: { attributes }, resource }) =>
        attributes.reference === row.reference &&
        attributes.expectedIn === expectedIn &&
        attributes.expectedOn === expectedOn &&
        linesDiffer(items, linesOf(resource)) === null,
    );
    const fittingIds = fitting.map(({ read }) => read.id);
    const own = await findUnclaimed(context.db, row, fittingIds, { table, resultMember: 'inboundPackingSlipId' });
    const [only, ...others] = fitting.filter(({ read }) => own.includes(read.id));
    if (only === undefined) found.set(row.id, { seen: 'absent' });
    else if (others.length === 0) found.set(row.id, { seen: 'there', resource: only.resource, escaped: only.escaped });
    else found.set(row.id, { seen: 'several', why: `slips ${own.join(', ')} all fit` });
  }
  return found;
}

async function listOpen({ warehouse, signal }: LookUpContext): Promise<ReturnType<typeof slipsIn>> {
  const filter = { include: inboundPackingSlips.include, 'page[size]': 100, 'filter[status][in]': openStatuses };
  const slips: ReturnType<typeof slipsIn> = [];
  const list = listPages(warehouse, { operation: 'v3.inboundPackingSlips.list', filter, maxPages, signal });
  for await (const page of list) slips.push(...slipsIn(page));
  return slips;
}
