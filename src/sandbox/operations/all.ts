/**
 * The operations of the service, each with its route, parameters, checks and answer. Routes, the OpenAPI document and
 * the coverage all come from this table.
 */

import { oldestOperations } from './oldest/oldest.ts';
import type { Operation } from './operation.ts';
import { commonOperations } from './token-and-settings.ts';
import { v2OrderOperations } from './v2/orders.ts';
import { v2ReturnOperations } from './v2/returns.ts';
import { v2ShipmentOperations } from './v2/shipments.ts';
import { authorizationOperations } from './v3/authorizations.ts';
import { goodsOperations } from './v3/goods.ts';
import { orderItemOperations } from './v3/order-items.ts';
import { orderOperations } from './v3/orders.ts';
import { shipmentOperations } from './v3/shipments.ts';

/** Every operation of interface.md that the sandbox serves. */
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

/** What interface.md names without a path, and what similar services have and it does not name. */
export const notServed: readonly { readonly name: string; readonly why: string }[] = [
  { name: 'two v2 operations with a body {ids}', why: 'interface.md shows neither their purpose nor a method or path' },
  {
    name: 'GET /stock/bulk/{true|false} and POST /shipment/search',
    why: 'known of similar services, and not in interface.md',
  },
  { name: 'stock of all changed products', why: 'announced as under construction, without an interface' },
];
