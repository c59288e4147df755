import { z } from 'zod';
import {
  type Inbound,
  type InboundItem,
  inboundStatuses,
  type Slip,
  type SlipItem,
  slipStatuses,
} from '../store/model.ts';
import { writeZulu } from '../zone.ts';
import {
  date,
  documentSchema,
  linkMany,
  linkOne,
  linkOneOrNone,
  metadata,
  pageSchema,
  type ResourceObject,
  resourceSchema,
  text,
  toMany,
  toOne,
  toOneOrNone,
  zuluDateTime,
} from './jsonapi.ts';

export const inboundItemSchema = resourceSchema(
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
export const inboundDocument = documentSchema(inboundSchema, inboundItemSchema);
export const inboundPage = pageSchema(inboundSchema, inboundItemSchema);

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
export const slipDocument = documentSchema(slipSchema, slipItemSchema);
export const slipPage = pageSchema(slipSchema, slipItemSchema);

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
