import { z } from 'zod';
import type { Rendered } from '../../paging.ts';
import { ruleBroken } from '../../refusal.ts';
import {
  inboundDocument,
  inboundItemResource,
  inboundItemSchema,
  inboundPage,
  inboundResource,
  slipDocument,
  slipItemResource,
  slipPage,
  slipResource,
} from '../../resources/inbounds.ts';
import { returnItemPage, returnItemResource } from '../../resources/returns.ts';
import { announceGoods, type SlipDraft } from '../../rules/slips.ts';
import type { Filter, Listing } from '../../store/listing.ts';
import { type Inbound, inboundStatuses, type Slip, slipStatuses } from '../../store/model.ts';
import type { HasId } from '../../store/sorted-rows.ts';
import { dayNumberOf } from '../../times.ts';
import { operation } from '../operation.ts';
import { day, include, listOf, paging } from '../parameters.ts';
import {
  dateIn,
  documentIn,
  includedIn,
  linksTo,
  orNull,
  provisionalId,
  quantityIn,
  textIn,
  textsIn,
  textsOf,
} from './input.ts';

const inboundInclude = { include: include('inboundItems') } as const;
const slipBody = documentIn(
  {
    type: z.literal('inboundPackingSlip'),
    id: provisionalId.optional(),
    attributes: z.strictObject({
      expectedIn: z.string().min(1),
      expectedOn: dateIn,
      reference: textIn,
      comments: textIn,
      metadata: textsOf('serviceLevel', 'purchases', 'reference'),
    }),
    relationships: z.strictObject({ inboundPackingSlipItems: linksTo('inboundPackingSlipItem').optional() }).optional(),
  },
  z.strictObject({
    type: z.literal('inboundPackingSlipItem'),
    id: provisionalId.optional(),
    attributes: z.strictObject({ sku: z.string().min(1), quantity: quantityIn }),
  }),
);

/** interface.md, v3 returnItems, inbounds and inbound packing slips. */
export const goodsOperations = [
  operation({
    name: 'v3.returnItems.list',
    route: 'GET /v3/returnItems',
    summary: 'Return lines that a warehouse has processed, by ascending id',
    query: { ...paging, 'filter[processedOn][gt]': day, 'filter[processedOn][lt]': day },
    answer: returnItemPage,
    run: (call) => {
      const { store, query } = call;
      const [after, before] = [query['filter[processedOn][gt]'], query['filter[processedOn][lt]']];
      const selection = store.listedReturnItems.select(dates(store.listedReturnItems, 'processedOn', after, before));
      return call.list('returnItem', selection, (row) => ({ resource: returnItemResource(store, row), included: [] }));
    },
  }),
  operation({
    name: 'v3.inbounds.list',
    route: 'GET /v3/inbounds',
    summary: 'Inbounds, by ascending id',
    query: { ...paging, ...inboundInclude, 'filter[status][in]': listOf(z.enum(inboundStatuses)) },
    answer: inboundPage,
    run: (call) => {
      const statuses = call.query['filter[status][in]'];
      const listing = call.store.listedInbounds;
      const selection = listing.select(statuses ? [listing.where('status', statuses)] : []);
      return call.list('inbound', selection, (inbound) => renderInbound(inbound, call.query.include !== undefined));
    },
  }),
  operation({
    name: 'v3.inbounds.get',
    route: 'GET /v3/inbounds/:id',
    summary: 'One inbound',
    query: inboundInclude,
    answer: inboundDocument,
    run: (call) => {
      const inbound = call.found('inbound', call.store.inbounds.get(call.id));
      return call.one(renderInbound(inbound, call.query.include !== undefined));
    },
  }),
  operation({
    name: 'v3.inboundItems.get',
    route: 'GET /v3/inboundItems/:id',
    summary: 'One inbound item: the resource itself, not wrapped in data',
    answer: inboundItemSchema,
    run: (call) => {
      const items = call.store.inboundOfItem.get(call.id)?.items ?? [];
      return inboundItemResource(
        call.found(
          'inboundItem',
          items.find(({ id }) => id === call.id),
        ),
      );
    },
  }),
  operation({
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
      'filter[status][in]': listOf(z.enum(slipStatuses)),
    },
    answer: slipPage,
    run: (call) => {
      const { query } = call;
      const listing = call.store.listedSlips;
      const statuses = query['filter[status][in]'];
      const selection = listing.select([
        ...(statuses ? [listing.where('status', statuses)] : []),
        ...dates(listing, 'receivedOn', query['filter[receivedOn][gt]'], query['filter[receivedOn][lt]']),
        ...dates(listing, 'completedOn', query['filter[completedOn][gt]'], query['filter[completedOn][lt]']),
      ]);
      return call.list('inboundPackingSlip', selection, (slip) => renderSlip(slip, query.include !== undefined));
    },
  }),
  operation({
    name: 'v3.inboundPackingSlips.create',
    route: 'POST /v3/inboundPackingSlips',
    summary: 'Announces an expected inbound, with its items',
    documented: false,
    body: slipBody,
    answer: slipDocument,
    run: (call) => {
      const slip = announceGoods(call.life, readSlip(call.body), call.nowMs);
      call.wrote('inboundPackingSlip', slip.id, null);
      return call.one(renderSlip(slip, true));
    },
  }),
];

/** A filter by days, where one is asked for. */
function dates<T extends HasId, Name extends string>(
  listing: Listing<T, Name>,
  name: Name,
  after: string | undefined,
  before: string | undefined,
): Filter<T>[] {
  if (after === undefined && before === undefined) return [];
  return [listing.between(name, after ? dayNumberOf(after) : null, before ? dayNumberOf(before) : null)];
}

function renderInbound(inbound: Inbound, withItems: boolean): Rendered {
  return { resource: inboundResource(inbound), included: withItems ? inbound.items.map(inboundItemResource) : [] };
}

function renderSlip(slip: Slip, withItems: boolean): Rendered {
  return { resource: slipResource(slip), included: withItems ? slip.items.map(slipItemResource) : [] };
}

function readSlip(body: z.output<typeof slipBody>): SlipDraft {
  const { expectedIn, expectedOn, reference, comments, metadata } = body.data.attributes;
  const lines = includedIn(body).map(({ resource, pointer }) => ({ ...resource.attributes, pointer }));
  if (lines.length === 0) throw ruleBroken('An inbound packing slip needs at least one item', '/data/included');
  return {
    expectedIn,
    expectedOn,
    reference: orNull(reference),
    comments: orNull(comments),
    metadata: textsIn(metadata),
    lines,
  };
}
