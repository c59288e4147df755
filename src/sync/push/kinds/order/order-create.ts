import { type OrderPayload, orderPayload } from '../../../../payloads/order.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind } from '../../payload/kind.ts';
import { describeLineDifference } from '../../payload/line-difference.ts';
import { findOrders } from './look-up-orders.ts';
import { readLines } from './order-answers.ts';
import { creationRules, sendOrder, toCreateResult } from './order-creation.ts';

/**
 * Creates an order with everything that belongs to it (docs/interface.md, 7.6 Create). Its number is unique at the
 * service.
 */
export const orderCreate = defineKind<OrderPayload>({
  ...creationRules,
  name: 'order.create',
  schema: orderPayload,
  operation: 'v3.orders.create',
  push: (payload, context) => sendOrder(payload, context),
  unknown: {
    do: 'look up',
    lookUp: {
      stream: orders,
      find: findOrders,
      differs: ({ items }, resource) => describeLineDifference(items, readLines(resource)),
      resultOf: toCreateResult,
      whenAbsent: 'resend',
      doubtsRefusal: true,
    },
  },
});
