import { z } from 'zod';
import type { ClientStore } from '../store/client-store.ts';
import type { Authorization, AuthorizationItem, ReturnItem } from '../store/model.ts';
import { settings } from '../store/settings.ts';
import { fractionOf } from '../times.ts';
import {
  date,
  documentOf,
  localDateTime,
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
export const authorizationDocument = documentOf(authorizationSchema, itemSchema);

export const returnItemPage = pageOf(
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

/** interface.md, v3 returnMerchandiseAuthorization. `PENDING` is the only status that it gives. */
export function authorizationResource(authorization: Authorization): ResourceObject {
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
      shipment: one('shipment', authorization.shipmentId),
      returnMerchandiseAuthorizationItems: many(
        'returnMerchandiseAuthorizationItem',
        items.map((item) => item.id),
      ),
    },
  };
}

export function authorizationItemResource(item: AuthorizationItem): ResourceObject {
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
      shipmentItem: one('shipmentItem', item.shipmentItemId),
      product: one('product', item.productId),
      returnReason: one('returnReason', item.reasonId),
      returnItem: oneOrNone('returnItem', item.returnItemId),
    },
  };
}

/** interface.md, v3 returnItem: a line of a return that a warehouse has processed. */
export function returnItemResource({ zone, orders }: ClientStore, item: ReturnItem): ResourceObject {
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
      restockOn: zone.writeLocal(item.restockOnMs, fractionOf(item.id, 0)),
      comment: item.comment,
      redeliver: item.redeliver,
      externalOrderNumber: orders.get(item.orderId)?.externalOrderNumber ?? '',
    },
    relationships: {
      order: one('order', item.orderId),
      orderItem: one('orderItem', item.orderItemId),
      product: one('product', item.productId),
      return: one('return', item.returnId),
      returnMerchandiseAuthorizationItem: oneOrNone('returnMerchandiseAuthorizationItem', item.authorizationItemId),
      returnReason: one('returnReason', item.reasonId),
      shipmentItem: one('shipmentItem', item.shipmentItemId),
    },
  };
}
