/**
 * This folder: kinds that concern an inbound delivery. A slip is looked up by reference, warehouse,
 * day and lines, because its reference is not unique.
 */

import { z } from 'zod';
import type { Operation, Operations } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import {
  inboundPackingSlips,
  openStatuses,
  slip,
  slipItem,
} from '../../../pull/streams/inbound-packing-slips.ts';
import { listPages } from '../../../pull/walk.ts';
import {
  type Document,
  decodeDocument,
  type Resource,
  readId,
} from '../../../service/decoding/jsonapi.ts';
import { describeLineDifference, readIncluded, readResources } from '../../answers.ts';
import {
  defineKind,
  type LookUpContext,
  type LookUpResult,
  type LookUpRule,
  type PushContext,
  type PushResult,
  toNoAnswer,
} from '../../kind.ts';
import { pickGiven } from '../../payload.ts';
import {
  day,
  personalText,
  quantity,
  requiredText,
  requireUnless,
  textsNamed,
} from '../../payloads/members.ts';
import { findUnclaimedIds } from '../../sql/look-ups.ts';

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

/** A list of open slips with more pages than this counts as unreadable. */
const maxPages = 200;

/**
 * Announces goods to a warehouse (docs/interface.md, 14.4 Operations). The row's reference becomes
 * the slip's.
 */
export const inboundPackingSlipCreate = (operations: Operations) =>
  defineKind<SlipPayload>({
    name: 'inbound_packing_slip.create',
    schema: makeSlipPayload(operations),
    operation,
    notFoundMeansRoute: true,
    unknown: {
      do: 'look up',
      lookUp: {
        stream: inboundPackingSlips,
        find: findSlips,
        differs: ({ items }, resource) =>
          describeLineDifference(items ?? [], readIncluded(resource, slipItem)),
        resultOf: toResult,
        whenAbsent: 'ask operator',
        doubtsRefusal: false,
      },
    },
    push: createSlip,
  });

/** Returns the body that announces goods. `place` is the position of `included`. */
export function toSlipDocument(
  payload: SlipPayload,
  reference: string,
  place: Operation['included'],
): object {
  const { items, metadata, ...others } = payload;
  const included = (items ?? []).map((item) => ({
    type: 'inboundPackingSlipItem',
    attributes: pickGiven(item),
  }));
  const data = {
    type: 'inboundPackingSlip',
    attributes: {
      ...pickGiven({ ...others, reference }),
      ...(metadata ? { metadata: pickGiven(metadata) } : {}),
    },
  };
  return place === 'top' ? { data, included } : { data: { ...data, included } };
}

async function createSlip(payload: SlipPayload, context: PushContext): Promise<PushResult> {
  const body = toSlipDocument(
    payload,
    context.row.reference,
    context.operations[operation].included,
  );
  const answer = await context.send({ operation, body });
  const document = decodeDocument(operation, answer.body, 'single');
  const [created] = readSlips(document);
  if (created === undefined || created.row.reference !== context.row.reference)
    throw makeUndecodableError(`${operation}: the answer describes another slip`);
  const { resource } = created;
  return {
    result: toResult(resource),
    reading: { stream: inboundPackingSlips, resource, escaped: document.escaped },
  };
}

const readSlips = (document: Document) =>
  readResources(document, slip, 'a slip in the answer cannot be read');

function toResult(resource: Resource): PushResult['result'] {
  const items = readIncluded(resource, slipItem).map(({ id, sku }) => ({ id, sku }));
  return { inboundPackingSlipId: readId(resource), items };
}

/**
 * Lists the open slips once, and finds each row's slip among them by reference, warehouse, day and
 * lines.
 */
async function findSlips(
  rows: Parameters<LookUpRule<SlipPayload>['find']>[0],
  context: LookUpContext,
): Promise<Map<number, LookUpResult>> {
  let slips: ReturnType<typeof readSlips>;
  try {
    slips = await listOpenSlips(context);
  } catch (error) {
    const { why } = toNoAnswer(error);
    return new Map(rows.map(({ id }) => [id, { seen: 'no answer', why }]));
  }
  const found = new Map<number, LookUpResult>();
  const table = inboundPackingSlips.tables.parent.name;
  for (const row of rows) {
    const { expectedIn, expectedOn, items } = row.payloadRead;
    const fitting = slips.filter(
      ({ row: found, resource }) =>
        found.reference === row.reference &&
        (found.expected_in === expectedIn || isLeftOut(expectedIn)) &&
        (found.expected_on === expectedOn || isLeftOut(expectedOn)) &&
        describeLineDifference(items ?? [], readIncluded(resource, slipItem)) === null,
    );
    const fittingIds = fitting.map((slip) => slip.row.id);
    const unclaimedIds = await findUnclaimedIds(context.db, row, fittingIds, {
      table,
      resultMember: 'inboundPackingSlipId',
    });
    const [only, ...others] = fitting.filter((slip) => unclaimedIds.includes(slip.row.id));
    if (only === undefined) found.set(row.id, { seen: 'absent', basis: 'list' });
    else if (others.length === 0)
      found.set(row.id, { seen: 'there', resource: only.resource, escaped: only.escaped });
    else
      found.set(row.id, {
        seen: 'several',
        why: `slips ${unclaimedIds.join(', ')} all match the payload`,
      });
  }
  return found;
}

/**
 * Returns true if a row leaves out a member, which a switch made optional. The service may have
 * chosen any value.
 */
const isLeftOut = (value: string | null | undefined) => value === undefined || value === null;

async function listOpenSlips({
  warehouse,
  signal,
}: LookUpContext): Promise<ReturnType<typeof readSlips>> {
  const filter = {
    include: inboundPackingSlips.include,
    'page[size]': 100,
    'filter[status][in]': openStatuses,
  };
  const slips: ReturnType<typeof readSlips> = [];
  const list = listPages(warehouse, {
    operation: 'v3.inboundPackingSlips.list',
    filter,
    maxPages,
    signal,
  });
  for await (const page of list) for (const slip of readSlips(page)) slips.push(slip);
  return slips;
}
