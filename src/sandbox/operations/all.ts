/**
 * The operations of the service, each with its route, parameters, checks and answer. The routes, the OpenAPI document
 * and the page of `npm run coverage` are all created from this list.
 */

import { commonOperations } from './common.ts';
import { extraOperations } from './extra.ts';
import { oldestOperations } from './oldest.ts';
import type { Operation } from './operation.ts';
import { v2OrderOperations } from './v2-orders.ts';
import { v2ReturnOperations } from './v2-returns.ts';
import { v2ShipmentOperations } from './v2-shipments.ts';
import { goodsOperations } from './v3-goods.ts';
import { orderItemOperations } from './v3-order-items.ts';
import { orderUpdateOperations } from './v3-order-update.ts';
import { orderOperations } from './v3-orders.ts';
import { returnOperations } from './v3-returns.ts';
import { shipmentOperations } from './v3-shipments.ts';

/**
 * All operations that the sandbox serves: those of docs/interface.md, and last some that it does not name. The `described`
 * of the latter is false, and the sandbox can leave them out.
 */
export const operations: readonly Operation[] = [
  ...commonOperations,
  ...oldestOperations,
  ...v2OrderOperations,
  ...v2ShipmentOperations,
  ...v2ReturnOperations,
  ...orderOperations,
  ...orderUpdateOperations,
  ...orderItemOperations,
  ...shipmentOperations,
  ...returnOperations,
  ...goodsOperations,
  ...extraOperations,
];

/** Operations that the sandbox does not serve, with the reason. */
export const notServed: readonly { readonly name: string; readonly why: string }[] = [
  {
    name: 'the second of two v2 operations with a body {ids}',
    why: 'docs/interface.md shows neither its purpose nor a method or path; the first may be POST /v2/shipment/sync',
  },
  {
    name: 'stock of all changed products',
    why: 'the service announces it as under construction and shows no interface',
  },
];
