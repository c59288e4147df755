import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { announceGoods, type SlipDraft } from '../rules/announcements.ts';
import {
  type Inbound,
  type InboundItem,
  inboundStatuses,
  type Slip,
  type SlipItem,
  slipStatuses,
} from '../store/model.ts';
import { writeZulu } from '../zone.ts';
import { defineOperation } from './operation.ts';
import type { RenderedResource } from './paging.ts';
import { day, include, paging, uniqueList } from './parameters.ts';
import {
  date,
  dateIn,
  documentInput,
  documentSchema,
  emptyToNull,
  keepGivenTexts,
  linkMany,
  linkOne,
  linkOneOrNone,
  linksTo,
  metadata,
  namedTexts,
  pageSchema,
  provisionalId,
  quantityIn,
  type ResourceObject,
  readIncluded,
  resourceSchema,
  text,
  textIn,
  toMany,
  toOne,
  toOneOrNone,
  zuluDateTime,
} from './v3-document.ts';

const inboundItemSchema = resourceSchema(
  'inboundItem',
  { quantity: z.int(), sku: z.string(), lotNumber: text, expirationDate: date.nullable() },
  { product: toOne('product'), inboundPackingSlipItem: toOneOrNone('inboundPackingSlipItem') },
);
const inboundSchema = resourceSchema(
  'inbound',
  {
    reference: text,
    status: z.enum(inboundStatuses),
    receivedIn: z.string(),
    createdOn: zuluDateTime,
    checkingOn: zuluDateTime.nullable(),
    completedOn: zuluDateTime.nullable(),
  },
  { inboundPackingSlip: toOneOrNone('inboundPackingSlip') },
  inboundItemSchema,
);
const inboundDocument = documentSchema(inboundSchema, inboundItemSchema);
const inboundPage = pageSchema(inboundSchema, inboundItemSchema);

const slipItemSchema = resourceSchema(
  'inboundPackingSlipItem',
  { sku: z.string(), quantity: z.int(), received: z.int() },
  null,
);
const slipSchema = resourceSchema(
  'inboundPackingSlip',
  {
    expectedIn: z.string(),
    expectedOn: date,
    receivedOn: zuluDateTime.nullable(),
    completedOn: zuluDateTime.nullable(),
    reference: text,
    status: z.enum(slipStatuses),
    comments: text,
    metadata,
  },
  { inboundPackingSlipItems: toMany('inboundPackingSlipItem'), inbound: toOneOrNone('inbound') },
  slipItemSchema,
);
const slipDocument = documentSchema(slipSchema, slipItemSchema);
const slipPage = pageSchema(slipSchema, slipItemSchema);

const inboundInclude = { include: include('inboundItems') } as const;
const slipBody = documentInput(
  {
    type: z.literal('inboundPackingSlip'),
    id: provisionalId.optional(),
    attributes: z.strictObject({
      expectedIn: z.string().min(1),
      expectedOn: dateIn,
      reference: textIn,
      comments: textIn,
      metadata: namedTexts('serviceLevel', 'purchases', 'reference'),
    }),
    relationships: z.strictObject({ inboundPackingSlipItems: linksTo('inboundPackingSlipItem').optional() }).optional(),
  },
  z.strictObject({
    type: z.literal('inboundPackingSlipItem'),
    id: provisionalId.optional(),
    attributes: z.strictObject({ sku: z.string().min(1), quantity: quantityIn }),
  }),
);

/**
 * The operations on inbounds and inbound packing slips (docs/interface.md, 13.4 Operations and filters, 14.4
 * Operations).
 */
export const goodsOperations = [
  defineOperation({
    name: 'v3.inbounds.list',
    route: 'GET /v3/inbounds',
    summary: 'Inbounds, by ascending id',
    query: { ...paging, ...inboundInclude, 'filter[status][in]': uniqueList(z.enum(inboundStatuses)) },
    answer: inboundPage,
    run: (call) => {
      const listing = call.store.listedInbounds;
      const selection = listing.select(listing.filterByKeys('status', call.query['filter[status][in]']));
      return call.renderList('inbound', selection, (inbound) =>
        renderInbound(inbound, call.query.include !== undefined),
      );
    },
  }),
  defineOperation({
    name: 'v3.inbounds.get',
    route: 'GET /v3/inbounds/:id',
    summary: 'One inbound',
    query: inboundInclude,
    answer: inboundDocument,
    run: (call) => {
      const inbound = call.requireRow('inbound', call.store.inbounds.get(call.id));
      return call.renderOne(renderInbound(inbound, call.query.include !== undefined));
    },
  }),
  defineOperation({
    name: 'v3.inboundItems.get',
    route: 'GET /v3/inboundItems/:id',
    summary: 'One inbound item: the resource itself, not wrapped in data',
    answer: inboundItemSchema,
    run: (call) => {
      const items = call.store.inboundOfItem.get(call.id)?.items ?? [];
      return toInboundItemResource(
        call.requireRow(
          'inboundItem',
          items.find(({ id }) => id === call.id),
        ),
      );
    },
  }),
  defineOperation({
    name: 'v3.inboundPackingSlips.list',
    route: 'GET /v3/inboundPackingSlips',
    summary: 'Inbound packing slips no older than 90 days',
    query: {
      ...paging,
      include: include('inboundPackingSlipItems'),
      'filter[receivedOn][gt]': day,
      'filter[receivedOn][lt]': day,
      'filter[completedOn][gt]': day,
      'filter[completedOn][lt]': day,
      'filter[status][in]': uniqueList(z.enum(slipStatuses)),
    },
    answer: slipPage,
    run: (call) => {
      const { query } = call;
      const listing = call.store.listedSlips;
      const selection = listing.select([
        ...listing.filterByKeys('status', query['filter[status][in]']),
        ...listing.filterByDays('receivedOn', query['filter[receivedOn][gt]'], query['filter[receivedOn][lt]']),
        ...listing.filterByDays('completedOn', query['filter[completedOn][gt]'], query['filter[completedOn][lt]']),
      ]);
      return call.renderList('inboundPackingSlip', selection, (slip) => renderSlip(slip, query.include !== undefined));
    },
  }),
  defineOperation({
    name: 'v3.inboundPackingSlips.create',
    route: 'POST /v3/inboundPackingSlips',
    summary: 'Announces an expected inbound, with its items',
    documented: false,
    body: slipBody,
    answer: slipDocument,
    run: (call) => {
      const slip = announceGoods(call.simulation, readSlip(call.body), call.nowMs);
      call.recordWrite('inboundPackingSlip', slip.id, null);
      return call.renderOne(renderSlip(slip, true));
    },
  }),
];

function renderInbound(inbound: Inbound, withItems: boolean): RenderedResource {
  return { resource: toInboundResource(inbound), included: withItems ? inbound.items.map(toInboundItemResource) : [] };
}

function renderSlip(slip: Slip, withItems: boolean): RenderedResource {
  return { resource: toSlipResource(slip), included: withItems ? slip.items.map(toSlipItemResource) : [] };
}

/**
 * Reads the slip from a body.
 * @throws Refusal if it has no items
 */
function readSlip(body: z.output<typeof slipBody>): SlipDraft {
  const { expectedIn, expectedOn, reference, comments, metadata } = body.data.attributes;
  const lines = readIncluded(body).map(({ resource, pointer }) => ({ ...resource.attributes, pointer }));
  if (lines.length === 0) throw ruleBroken('An inbound packing slip needs at least one item', '/data/included');
  return {
    expectedIn,
    expectedOn,
    reference: emptyToNull(reference),
    comments: emptyToNull(comments),
    metadata: keepGivenTexts(metadata),
    lines,
  };
}

/** Returns the resource of an inbound (docs/interface.md, 13.1 Fields). It links its slip, but not its items. */
export function toInboundResource(inbound: Inbound): ResourceObject {
  return {
    id: inbound.id,
    type: 'inbound',
    attributes: {
      reference: inbound.reference,
      status: inbound.status,
      receivedIn: inbound.receivedIn,
      createdOn: writeZulu(inbound.createdOnMs),
      checkingOn: writeZulu(inbound.checkingOnMs),
      completedOn: writeZulu(inbound.completedOnMs),
    },
    relationships: { inboundPackingSlip: linkOneOrNone('inboundPackingSlip', inbound.slipId) },
  };
}

/** Returns the resource of an inbound item (docs/interface.md, 13.2 Inbound items). */
export function toInboundItemResource(item: InboundItem): ResourceObject {
  return {
    id: item.id,
    type: 'inboundItem',
    attributes: {
      quantity: item.quantity,
      sku: item.sku,
      lotNumber: item.lotNumber,
      expirationDate: item.expirationDate,
    },
    relationships: {
      product: linkOne('product', item.productId),
      inboundPackingSlipItem: linkOneOrNone('inboundPackingSlipItem', item.slipItemId),
    },
  };
}

/** Returns the resource of an inbound packing slip (docs/interface.md, 14.1 Fields). */
export function toSlipResource(slip: Slip): ResourceObject {
  return {
    id: slip.id,
    type: 'inboundPackingSlip',
    attributes: {
      expectedIn: slip.expectedIn,
      expectedOn: slip.expectedOn,
      receivedOn: writeZulu(slip.receivedOnMs),
      completedOn: writeZulu(slip.completedOnMs),
      reference: slip.reference,
      status: slip.status,
      comments: slip.comments,
      metadata: slip.metadata,
    },
    relationships: {
      inboundPackingSlipItems: linkMany(
        'inboundPackingSlipItem',
        slip.items.map(({ id }) => id),
      ),
      inbound: linkOneOrNone('inbound', slip.inboundId),
    },
  };
}

/** Returns the resource of an item of a slip (docs/interface.md, 14.2 Items). */
export function toSlipItemResource({ id, sku, quantity, received }: SlipItem): ResourceObject {
  return { id, type: 'inboundPackingSlipItem', attributes: { sku, quantity, received } };
}
