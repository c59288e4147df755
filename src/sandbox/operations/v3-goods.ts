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
import { SortedRows } from '../store/sorted-rows.ts';
import { writeInstant } from '../zone.ts';

import {
  dateIn,
  defineOperation,
  documentIn,
  keepGivenTexts,
  linksTo,
  namedTexts,
  quantityIn,
  readId,
  readIncluded,
  readTexts,
  recordWrite,
  requireRow,
  resourceIn,
  textIn,
  uniqueList,
} from './operation.ts';
import {
  byDays,
  byKeys,
  defineGet,
  defineList,
  defineResource,
  include,
  many,
  metadata,
  oneOrNone,
  product,
  productLink,
  renderWhole,
  text,
} from './resource.ts';

/** Declares times that end in Z: `createdOn` is `createdOnMs` of the row. */
const times = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(
    names.map((name) => [
      name,
      [
        z.iso.datetime().nullable(),
        (row: Readonly<Record<`${Name}Ms`, number | null>>) => writeInstant(row[`${name}Ms`]),
      ] as const,
    ]),
  );

/** docs/interface.md, 13.2 Inbound items. */
const inboundItemResource = defineResource<InboundItem>('inboundItem', {
  attributes: {
    quantity: z.int(),
    sku: z.string(),
    lotNumber: text,
    expirationDate: z.iso.date().nullable(),
  },
  relationships: {
    ...productLink,
    inboundPackingSlipItem: oneOrNone('inboundPackingSlipItem', ({ slipItemId }) => slipItemId),
  },
});

/** docs/interface.md, 13.1 Fields. An inbound links its slip, but not its items. */
export const inboundResource = defineResource<Inbound>('inbound', {
  attributes: {
    reference: text,
    status: z.enum(inboundStatuses),
    receivedIn: z.string(),
    ...times('createdOn', 'checkingOn', 'completedOn'),
  },
  relationships: { inboundPackingSlip: oneOrNone('inboundPackingSlip', ({ slipId }) => slipId) },
  includes: { inboundItems: include(inboundItemResource, ({ items }) => items) },
});

/** docs/interface.md, 14.2 Items. */
const slipItemResource = defineResource<SlipItem>('inboundPackingSlipItem', {
  attributes: { sku: z.string(), quantity: z.int(), received: z.int() },
});

/** docs/interface.md, 14.1 Fields. */
export const slipResource = defineResource<Slip>('inboundPackingSlip', {
  attributes: {
    expectedIn: z.string(),
    expectedOn: z.iso.date(),
    reference: text,
    status: z.enum(slipStatuses),
    comments: text,
    metadata,
    ...times('receivedOn', 'completedOn'),
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
  defineList(inboundResource, 'Inbounds, by ascending id', {
    rows: ({ inbounds }) => inbounds,
    filters: [byKeys('status', uniqueList(z.enum(inboundStatuses)), ({ status }) => status)],
  }),
  defineGet(inboundResource, 'One inbound', ({ inbounds }, id) => inbounds.get(id)),
  defineOperation({
    name: 'v3.inboundItems.get',
    route: 'GET /v3/inboundItems/:id',
    summary: 'One inbound item: the resource itself, not wrapped in data',
    answer: inboundItemResource.schema,
    run: (call) => {
      const id = readId(call);
      const items = [...call.client.inbounds].flatMap((inbound) => inbound.items);
      const item = items.find((known) => known.id === id);
      return inboundItemResource.render(requireRow(call, 'inboundItem', item), call.client);
    },
  }),
  defineList(slipResource, 'Inbound packing slips no older than 90 days', {
    rows: ({ slips }) => slips,
    isListed: (client, nowMs) => client.createSlipTest(nowMs),
    filters: [
      byDays('receivedOn', ({ receivedOnMs }) => receivedOnMs),
      byDays('completedOn', ({ completedOnMs }) => completedOnMs),
      byKeys('status', uniqueList(z.enum(slipStatuses)), ({ status }) => status),
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
      const slip = announceGoods(call.client, readSlip(call.body), call.nowMs);
      recordWrite(call, slip, 'creation');
      return renderWhole(call, slipResource, slip);
    },
  }),
  {
    ...defineList(product, "The client's products, by ascending id", {
      rows: ({ products }) => new SortedRows(products.values()),
    }),
    documented: false,
    described: false,
  },
];

function readSlip(body: z.output<typeof slipBody>): SlipDraft {
  const { attributes } = body.data;
  const { expectedIn, expectedOn } = attributes;
  const lines = readIncluded(body).map((item) => item.attributes);
  if (lines.length === 0) throw ruleBroken('An inbound packing slip needs at least one item');

  const metadata = keepGivenTexts(attributes.metadata);
  const given = readTexts(attributes, ['reference', 'comments']);
  return { expectedIn, expectedOn, ...given, metadata, lines };
}
