/**
 * The operations of the service, each with its route, parameters, checks and answer. The routes, the OpenAPI document
 * and the page of `npm run coverage` are all created from this list.
 */

import { oldestOperations } from './oldest/oldest.ts';
import type { Operation } from './operation.ts';
import { commonOperations } from './token-and-settings.ts';
import { v2OrderOperations } from './v2/orders.ts';
import { v2ReturnOperations } from './v2/returns.ts';
import { v2ShipmentOperations } from './v2/shipments.ts';
import { authorizationOperations } from './v3/authorizations.ts';
import { orderItemOperations } from './v3/order-items.ts';
import { orderOperations } from './v3/orders.ts';
import { goodsOperations } from './v3/returns-and-inbounds.ts';
import { shipmentOperations } from './v3/shipments.ts';

/** All operations of docs/interface.md that the sandbox serves. */
export const operations: readonly Operation[] = [
  ...commonOperations,
  ...oldestOperations,
  ...v2OrderOperations,
  ...v2ShipmentOperations,
  ...v2ReturnOperations,
  ...orderOperations,
  ...orderItemOperations,
  ...shipmentOperations,
  ...authorizationOperations,
  ...goodsOperations,
];

/** Operations that the sandbox does not serve, with the reason. */
export const notServed: readonly { readonly name: string; readonly why: string }[] = [
  {
    name: 'two v2 operations with a body {ids}',
    why: 'docs/interface.md shows neither their purpose nor a method or path',
  },
  {
    name: 'GET /stock/bulk/{true|false} and POST /shipment/search',
    why: 'similar services have them, but docs/interface.md does not name them',
  },
  {
    name: 'stock of all changed products',
    why: 'the service announces it as under construction and shows no interface',
  },
];
