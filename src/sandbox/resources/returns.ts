import { z } from 'zod';
import type { ClientStore } from '../store/client-store.ts';
import type { Authorization, AuthorizationItem, ReturnItem } from '../store/model.ts';
import { toFraction } from '../zone.ts';
import {
  date,
  documentSchema,
  linkMany,
  linkOne,
  linkOneOrNone,
  localDateTime,
  metadata,
  pageSchema,
  type ResourceObject,
  resourceSchema,
  text,
  toMany,
  toOne,
  toOneOrNone,
} from './jsonapi.ts';

const itemSchema = resourceSchema(
  'returnMerchandiseAuthorizationItem',
  { externalReference: text, sku: z.string(), quantity: z.int(), reasonCode: z.string(), metadata },
  {
    shipmentItem: toOne('shipmentItem'),
    product: toOne('product'),
    returnReason: toOne('returnReason'),
    returnItem: toOneOrNone('returnItem'),
  },
);
const authorizationSchema = resourceSchema(
  'returnMerchandiseAuthorization',
  {
    externalReference: text,
    comments: text,
    metadata,
    status: z.literal('PENDING'),
    createdOn: date,
    modifiedOn: date,
  },
  { shipment: toOne('shipment'), returnMerchandiseAuthorizationItems: toMany('returnMerchandiseAuthorizationItem') },
  itemSchema,
);
export const authorizationDocument = documentSchema(authorizationSchema, itemSchema);

export const returnItemPage = pageSchema(
  resourceSchema(
    'returnItem',
    {
      sku: z.string(),
      quantity: z.int(),
      condition: z.string(),
      processedOn: date,
      processedIn: z.string(),
      restockIn: text,
      restockOn: localDateTime.nullable(),
      comment: text,
      redeliver: z.boolean(),
      externalOrderNumber: z.string(),
    },
    {
      order: toOne('order'),
      orderItem: toOne('orderItem'),
      product: toOne('product'),
      return: toOne('return'),
      returnMerchandiseAuthorizationItem: toOneOrNone('returnMerchandiseAuthorizationItem'),
      returnReason: toOne('returnReason'),
      shipmentItem: toOne('shipmentItem'),
    },
  ),
);

/**
 * Returns the resource of an authorization (docs/interface.md, 11.1 Fields). Its status is always `PENDING`, the only
 * known one.
 */
export function toAuthorizationResource(authorization: Authorization): ResourceObject {
  const { id, externalReference, comments, createdOn, modifiedOn, items } = authorization;
  return {
    id,
    type: 'returnMerchandiseAuthorization',
    attributes: {
      externalReference,
      comments,
      metadata: authorization.metadata,
      status: 'PENDING',
      createdOn,
      modifiedOn,
    },
    relationships: {
      shipment: linkOne('shipment', authorization.shipmentId),
      returnMerchandiseAuthorizationItems: linkMany(
        'returnMerchandiseAuthorizationItem',
        items.map((item) => item.id),
      ),
    },
  };
}

export function toAuthorizationItemResource({ settings }: ClientStore, item: AuthorizationItem): ResourceObject {
  return {
    id: item.id,
    type: 'returnMerchandiseAuthorizationItem',
    attributes: {
      externalReference: item.externalReference,
      sku: item.sku,
      quantity: item.quantity,
      reasonCode: settings.returnReasons.find(({ id }) => id === item.reasonId)?.code ?? '',
      metadata: item.metadata,
    },
    relationships: {
      shipmentItem: linkOne('shipmentItem', item.shipmentItemId),
      product: linkOne('product', item.productId),
      returnReason: linkOne('returnReason', item.reasonId),
      returnItem: linkOneOrNone('returnItem', item.returnItemId),
    },
  };
}

/** Returns the resource of a return item (docs/interface.md, 12.1 Fields). */
export function toReturnItemResource({ zone, orders }: ClientStore, item: ReturnItem): ResourceObject {
  return {
    id: item.id,
    type: 'returnItem',
    attributes: {
      sku: item.sku,
      quantity: item.quantity,
      condition: 'RETURN',
      processedOn: item.processedOn,
      processedIn: item.processedIn,
      restockIn: item.restockIn,
      restockOn: zone.writeLocal(item.restockOnMs, toFraction(item.id, 0)),
      comment: item.comment,
      redeliver: item.redeliver,
      externalOrderNumber: orders.get(item.orderId)?.externalOrderNumber ?? '',
    },
    relationships: {
      order: linkOne('order', item.orderId),
      orderItem: linkOne('orderItem', item.orderItemId),
      product: linkOne('product', item.productId),
      return: linkOne('return', item.returnId),
      returnMerchandiseAuthorizationItem: linkOneOrNone('returnMerchandiseAuthorizationItem', item.authorizationItemId),
      returnReason: linkOne('returnReason', item.reasonId),
      shipmentItem: linkOne('shipmentItem', item.shipmentItemId),
    },
  };
}
