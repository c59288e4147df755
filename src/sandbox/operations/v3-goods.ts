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
import { writeInstant } from '../zone.ts';
import { defineOperation, paging, uniqueList } from './operation.ts';
import { product } from './v3-dialect.ts';
import {
  date,
  dateIn,
  documentIn,
  keepGivenTexts,
  linksTo,
  metadata,
  namedTexts,
  quantityIn,
  readIncluded,
  readTexts,
  resourceIn,
  text,
  textIn,
} from './v3-document.ts';
import {
  byDays,
  byKeys,
  defineGet,
  defineList,
  defineResource,
  include,
  many,
  one,
  oneOrNone,
  renderDocument,
  renderPage,
} from './v3-resource.ts';

/** An inbound time, which ends in Z. */
const zuluDateTime = z.iso.datetime();
const zulu = <Row>(read: (row: Row) => number | null) => ({
  schema: zuluDateTime.nullable(),
  read: (row: Row) => writeInstant(read(row)),
});

/** docs/interface.md, 13.2 Inbound items. */
export const inboundItemResource = defineResource<InboundItem>('inboundItem', {
  attributes: {
    quantity: z.int(),
    sku: z.string(),
    lotNumber: text,
    expirationDate: date.nullable(),
  },
  relationships: {
    product: one('product', ({ productId }) => productId),
    inboundPackingSlipItem: oneOrNone('inboundPackingSlipItem', ({ slipItemId }) => slipItemId),
  },
});

/** docs/interface.md, 13.1 Fields. An inbound links its slip, but not its items. */
export const inboundResource = defineResource<Inbound>('inbound', {
  attributes: { reference: text, status: z.enum(inboundStatuses), receivedIn: z.string() },
  computed: {
    createdOn: { schema: zuluDateTime, read: ({ createdOnMs }) => writeInstant(createdOnMs) },
    checkingOn: zulu(({ checkingOnMs }) => checkingOnMs),
    completedOn: zulu(({ completedOnMs }) => completedOnMs),
  },
  relationships: { inboundPackingSlip: oneOrNone('inboundPackingSlip', ({ slipId }) => slipId) },
  includes: { inboundItems: include(inboundItemResource, ({ items }) => items) },
});

/** docs/interface.md, 14.2 Items. */
export const slipItemResource = defineResource<SlipItem>('inboundPackingSlipItem', {
  attributes: { sku: z.string(), quantity: z.int(), received: z.int() },
});

/** docs/interface.md, 14.1 Fields. */
export const slipResource = defineResource<Slip>('inboundPackingSlip', {
  attributes: {
    expectedIn: z.string(),
    expectedOn: date,
    reference: text,
    status: z.enum(slipStatuses),
    comments: text,
    metadata,
  },
  computed: {
    receivedOn: zulu(({ receivedOnMs }) => receivedOnMs),
    completedOn: zulu(({ completedOnMs }) => completedOnMs),
  },
  relationships: {
    inboundPackingSlipItems: many('inboundPackingSlipItem', ({ items }) => items),
    inbound: oneOrNone('inbound', ({ inboundId }) => inboundId),
  },
  includes: { inboundPackingSlipItems: include(slipItemResource, ({ items }) => items) },
});

const slipBody = documentIn(
  'inboundPackingSlip',
  {
    attributes: z.strictObject({
      expectedIn: z.string().min(1),
      expectedOn: dateIn,
      reference: textIn,
      comments: textIn,
      metadata: namedTexts('serviceLevel', 'purchases', 'reference'),
    }),
    relationships: z
      .strictObject({ inboundPackingSlipItems: linksTo('inboundPackingSlipItem').optional() })
      .optional(),
  },
  resourceIn('inboundPackingSlipItem', {
    attributes: z.strictObject({ sku: z.string().min(1), quantity: quantityIn }),
  }),
);

/**
 * The operations on inbounds, slips (docs/interface.md, 13.4 Operations and filters, 14.4
 * Operations) and products.
 */
export const goodsOperations = [
  defineList(inboundResource, {
    summary: 'Inbounds, by ascending id',
    listing: ({ listedInbounds }) => listedInbounds,
    filters: [byKeys('status', uniqueList(z.enum(inboundStatuses)))],
  }),
  defineGet(inboundResource, {
    summary: 'One inbound',
    find: ({ id, store }) => store.inbounds.get(id),
  }),
  defineOperation({
    name: 'v3.inboundItems.get',
    route: 'GET /v3/inboundItems/:id',
    summary: 'One inbound item: the resource itself, not wrapped in data',
    answer: inboundItemResource.schema,
    run: (call) => {
      const item = call.store.inboundOfItem.get(call.id)?.items.find(({ id }) => id === call.id);
      return inboundItemResource.render(call.requireRow('inboundItem', item), call.store);
    },
  }),
  defineList(slipResource, {
    summary: 'Inbound packing slips no older than 90 days',
    listing: ({ listedSlips }) => listedSlips,
    filters: [
      byDays('receivedOn'),
      byDays('completedOn'),
      byKeys('status', uniqueList(z.enum(slipStatuses))),
    ],
  }),
  defineOperation({
    name: 'v3.inboundPackingSlips.create',
    route: 'POST /v3/inboundPackingSlips',
    summary: 'Announces an expected inbound, with its items',
    documented: false,
    body: slipBody,
    answer: slipResource.document,
    run: (call) => {
      const slip = announceGoods(call.simulation, readSlip(call.body), call.nowMs);
      call.recordWrite('inboundPackingSlip', slip.id, null);
      return renderDocument(call, slipResource, slip, slipResource.includeNames);
    },
  }),
  defineOperation({
    name: 'v3.products.list',
    route: 'GET /v3/products',
    summary: "The client's products, by ascending id",
    described: false,
    query: paging,
    answer: product.page,
    run: (call) => renderPage(call, product, { sources: [call.store.listedProducts], tests: [] }),
  }),
];

function readSlip(body: z.output<typeof slipBody>): SlipDraft {
  const { expectedIn, expectedOn, metadata, ...texts } = body.data.attributes;
  const lines = readIncluded(body).map(({ resource, pointer }) => ({
    ...resource.attributes,
    pointer,
  }));
  if (lines.length === 0)
    throw ruleBroken('An inbound packing slip needs at least one item', '/data/included');
  const { reference, comments } = readTexts(texts, ['reference', 'comments']);
  return { expectedIn, expectedOn, reference, comments, metadata: keepGivenTexts(metadata), lines };
}
