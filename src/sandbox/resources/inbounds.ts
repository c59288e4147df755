import { z } from 'zod';
import {
  type Inbound,
  type InboundItem,
  inboundStatuses,
  type Slip,
  type SlipItem,
  slipStatuses,
} from '../store/model.ts';
import { writeZulu } from '../times.ts';
import {
  date,
  documentOf,
  many,
  metadata,
  one,
  oneOrNone,
  pageOf,
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
export const inboundDocument = documentOf(inboundSchema, inboundItemSchema);
export const inboundPage = pageOf(inboundSchema, inboundItemSchema);

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
export const slipDocument = documentOf(slipSchema, slipItemSchema);
export const slipPage = pageOf(slipSchema, slipItemSchema);

/** interface.md, v3 inbound. It names its slip, but not its items. */
export function inboundResource(inbound: Inbound): ResourceObject {
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
    relationships: { inboundPackingSlip: oneOrNone('inboundPackingSlip', inbound.slipId) },
  };
}

/** interface.md, v3 inboundItem. */
export function inboundItemResource(item: InboundItem): ResourceObject {
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
      product: one('product', item.productId),
      inboundPackingSlipItem: oneOrNone('inboundPackingSlipItem', item.slipItemId),
    },
  };
}

/** interface.md, v3 inboundPackingSlip. */
export function slipResource(slip: Slip): ResourceObject {
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
      inboundPackingSlipItems: many(
        'inboundPackingSlipItem',
        slip.items.map(({ id }) => id),
      ),
      inbound: oneOrNone('inbound', slip.inboundId),
    },
  };
}

export function slipItemResource({ id, sku, quantity, received }: SlipItem): ResourceObject {
  return { id, type: 'inboundPackingSlipItem', attributes: { sku, quantity, received } };
}
