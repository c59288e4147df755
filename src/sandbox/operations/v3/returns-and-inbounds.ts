import { z } from 'zod';
import type { RenderedResource } from '../../paging.ts';
import { ruleBroken } from '../../refusal.ts';
import {
  inboundDocument,
  inboundItemSchema,
  inboundPage,
  slipDocument,
  slipPage,
  toInboundItemResource,
  toInboundResource,
  toSlipItemResource,
  toSlipResource,
} from '../../resources/inbounds.ts';
import { returnItemPage, toReturnItemResource } from '../../resources/returns.ts';
import { announceGoods, type SlipDraft } from '../../rules/slips.ts';
import type { Filter, Listing } from '../../store/listing.ts';
import { type Inbound, inboundStatuses, type Slip, slipStatuses } from '../../store/model.ts';
import type { HasId } from '../../store/sorted-rows.ts';
import { toDayNumber } from '../../zone.ts';
import { defineOperation } from '../operation.ts';
import { day, include, paging, uniqueList } from '../parameters.ts';
import {
  dateIn,
  documentInput,
  emptyToNull,
  keepGivenTexts,
  linksTo,
  namedTexts,
  provisionalId,
  quantityIn,
  readIncluded,
  textIn,
} from './input.ts';

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
 * The operations on return items, inbounds and inbound packing slips (docs/interface.md, 12.2 Operations, 13.4 Operations
 * and filters, 14.4 Operations).
 */
export const goodsOperations = [
  defineOperation({
    name: 'v3.returnItems.list',
    route: 'GET /v3/returnItems',
    summary: 'Return lines that a warehouse has processed, by ascending id',
    query: { ...paging, 'filter[processedOn][gt]': day, 'filter[processedOn][lt]': day },
    answer: returnItemPage,
    run: (call) => {
      const { store, query } = call;
      const [after, before] = [query['filter[processedOn][gt]'], query['filter[processedOn][lt]']];
      const selection = store.listedReturnItems.select(
        filterByDates(store.listedReturnItems, 'processedOn', after, before),
      );
      return call.renderList('returnItem', selection, (row) => ({
        resource: toReturnItemResource(store, row),
        included: [],
      }));
    },
  }),
  defineOperation({
    name: 'v3.inbounds.list',
    route: 'GET /v3/inbounds',
    summary: 'Inbounds, by ascending id',
    query: { ...paging, ...inboundInclude, 'filter[status][in]': uniqueList(z.enum(inboundStatuses)) },
    answer: inboundPage,
    run: (call) => {
      const statuses = call.query['filter[status][in]'];
      const listing = call.store.listedInbounds;
      const selection = listing.select(statuses ? [listing.filterByKeys('status', statuses)] : []);
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
      const statuses = query['filter[status][in]'];
      const selection = listing.select([
        ...(statuses ? [listing.filterByKeys('status', statuses)] : []),
        ...filterByDates(listing, 'receivedOn', query['filter[receivedOn][gt]'], query['filter[receivedOn][lt]']),
        ...filterByDates(listing, 'completedOn', query['filter[completedOn][gt]'], query['filter[completedOn][lt]']),
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

/** Returns the filter by days. Returns no filter if neither bound is given. */
function filterByDates<T extends HasId, Name extends string>(
  listing: Listing<T, Name>,
  name: Name,
  after: string | undefined,
  before: string | undefined,
): Filter<T>[] {
  if (after === undefined && before === undefined) return [];
  return [listing.filterByRange(name, after ? toDayNumber(after) : null, before ? toDayNumber(before) : null)];
}

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
