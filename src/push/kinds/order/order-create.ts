import type { Operations } from '../../../../config/operations.ts';
import { orders } from '../../../pull/streams/orders.ts';
import { defineKind } from '../../kind.ts';
import { findOrders } from './look-up-orders.ts';
import { concludeOrder, creationRules, sendOrder } from './new-order.ts';
import { makeOrderPayload, type OrderPayload } from './order-payload.ts';

/**
 * Creates an order with all that belongs to it (docs/interface.md, 7.6 Create). Its number is
 * unique there.
 */
export const orderCreate = (operations: Operations) =>
  defineKind<OrderPayload>({
    ...creationRules,
    name: 'order.create',
    schema: makeOrderPayload(operations),
    operation: 'v3.orders.create',
    push: sendOrder,
    unknown: {
      do: 'look up',
      lookUp: {
        stream: orders,
        find: findOrders,
        conclude: (found, payload, isOthers) => concludeOrder(found, payload, isOthers, operations),
        whenAbsent: 'resend',
        doubtsRefusal: true,
      },
    },
  });
