import type { Operations } from '../../../../config/operations.ts';
import { orders } from '../../../pull/streams/orders.ts';
import { describeLineDifference } from '../../answers.ts';
import { defineKind } from '../../kind.ts';
import { makeOrderPayload, type OrderPayload } from '../../payloads/order.ts';
import { readLines } from './find-order.ts';
import { findOrders } from './look-up-orders.ts';
import { creationRules, sendOrder, toCreateResult } from './new-order.ts';

const othersNote =
  'the order existed before this row: only articles and quantities were compared, not addresses' +
  ' and the rest';

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
        differs: ({ items }, resource) => describeLineDifference(items, readLines(resource)),
        resultOf: (resource, payload, isOthers) => ({
          ...toCreateResult(resource, payload, operations),
          ...(isOthers && { note: othersNote }),
        }),
        whenAbsent: 'resend',
        doubtsRefusal: true,
      },
    },
  });
