/**
 * Operations of the generation v3. Names and shapes are those of the interface description.
 */

import { z } from 'zod';
import type { Rendered } from '../../paging.ts';
import {
  type OrderInclude,
  orderDocument,
  orderIncludeNames,
  orderIncludes,
  orderPage,
  orderResource,
  orderSchema,
} from '../../resources/orders.ts';
import { cancelItems, changeOrder } from '../../rules/change-order.ts';
import { checkPrintable } from '../../rules/pdf.ts';
import { placeOrder } from '../../rules/place-order.ts';
import type { ClientStore } from '../../store/client-store.ts';
import type { Filter } from '../../store/listing.ts';
import type { Order } from '../../store/model.ts';
import { SortedRows } from '../../store/sorted-rows.ts';
import { dayNumberOf } from '../../times.ts';
import { operation } from '../operation.ts';
import { day, include, numbers, paging, uniqueTexts, type Values } from '../parameters.ts';
import { assertSameId } from './input.ts';
import { orderBody, readOrder } from './order-body.ts';
import { updateBody, wantedState } from './order-update.ts';

const included = { include: include(...orderIncludeNames) } as const;
const listParameters = {
  ...paging,
  ...included,
  'filter[orderedOn][gt]': day,
  'filter[orderedOn][lt]': day,
  'filter[externalOrderNumber][in]': numbers,
  'filter[reference][in]': uniqueTexts,
} as const;
const links = z.strictObject({ data: z.array(z.strictObject({ id: z.int(), type: z.literal('orderItem') })) });
const cancelledOrder = z.strictObject({
  data: orderSchema,
  meta: z.strictObject({ modified: z.boolean(), modifiedItems: links }),
});
const pointers = {
  externalOrderNumber: '/data/attributes/externalOrderNumber',
  orderType: '/data/relationships/orderType',
  shippingMethod: '/data/relationships/preferredShippingMethod',
  fulfillFrom: '/data/attributes/fulfillFrom',
};

/** interface.md, v3 orders. In these answers the included array stands inside the order (Conventions). */
export const orderOperations = [
  operation({
    name: 'v3.orders.list',
    route: 'GET /v3/orders',
    summary: "The client's orders, by ascending id",
    query: listParameters,
    answer: orderPage,
    run: (call) => {
      const selection = call.store.listedOrders.select(filtersOf(call.store, call.query));
      return call.list('order', selection, (order) => render(order, call.query.include), 'inside');
    },
  }),
  operation({
    name: 'v3.orders.create',
    route: 'POST /v3/orders',
    summary: 'Creates an order with its items and addresses',
    body: orderBody,
    answer: orderDocument,
    run: async (call) => {
      const { life, body } = call;
      const { draft, content } = readOrder(body, life.store.zone.day(call.nowMs));
      if (content !== null) {
        await checkPrintable(Buffer.from(content.base64, 'base64'), `${content.pointer}/attributes/content`);
      }
      const order = placeOrder(life, draft, call.nowMs, pointers);
      call.wrote('order', order.id, null);
      return call.one(render(order, orderIncludeNames), 'inside');
    },
  }),
  operation({
    name: 'v3.orders.get',
    route: 'GET /v3/orders/:id',
    summary: 'One order',
    query: included,
    answer: orderDocument,
    run: (call) => call.one(render(call.found('order', call.store.orders.get(call.id)), call.query.include), 'inside'),
  }),
  operation({
    name: 'v3.orders.cancel',
    route: 'DELETE /v3/orders/:id',
    summary: 'Cancels what is left of every item of an order',
    query: included,
    answer: cancelledOrder,
    run: (call) => {
      const order = call.found('order', call.store.orders.get(call.id));
      call.wrote('order', order.id, order);
      const changed = cancelItems(call.life, order, order.items, call.nowMs);
      const modifiedItems = { data: changed.map(({ id }) => ({ id, type: 'orderItem' })) };
      const meta = { modified: changed.length > 0, modifiedItems };
      return { ...call.one(render(order, call.query.include), 'inside'), meta };
    },
  }),
  operation({
    name: 'v3.orders.update',
    route: 'PATCH /v3/orders/:id',
    summary: 'Puts an order into the state that is sent',
    documented: false,
    query: included,
    body: updateBody,
    answer: orderDocument,
    run: (call) => {
      const order = call.found('order', call.store.orders.get(call.id));
      assertSameId(call.body.data.id, order.id);
      const wanted = wantedState(order, call.body);
      call.wrote('order', order.id, order);
      changeOrder(call.life, order, wanted, call.nowMs);
      return call.one(render(order, orderIncludeNames), 'inside');
    },
  }),
];

function render(order: Order, includes: readonly OrderInclude[] = []): Rendered {
  return { resource: orderResource(order), included: includes.flatMap((name) => orderIncludes[name](order)) };
}

function filtersOf(store: ClientStore, query: Values<typeof listParameters>): Filter<Order>[] {
  const filters: Filter<Order>[] = [];
  const [after, before] = [query['filter[orderedOn][gt]'], query['filter[orderedOn][lt]']];
  if (after !== undefined || before !== undefined) {
    const [above, below] = [after ? dayNumberOf(after) : null, before ? dayNumberOf(before) : null];
    filters.push(store.listedOrders.between('orderedOn', above, below));
  }
  const wanted = query['filter[externalOrderNumber][in]'];
  if (wanted) {
    const found = wanted.flatMap((number) => store.orderByNumber.get(number) ?? []);
    const named = new Set(wanted);
    filters.push({ sources: [SortedRows.of(found)], test: (order) => named.has(order.externalOrderNumber) });
  }
  const references = query['filter[reference][in]'];
  if (references) filters.push(store.listedOrders.where('reference', references));
  return filters;
}
