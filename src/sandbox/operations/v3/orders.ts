/**
 * The operations of the generation v3. Names and shapes are those of docs/interface.md.
 */

import { z } from 'zod';
import type { RenderedResource } from '../../paging.ts';
import { showRelationships } from '../../resources/dialect.ts';
import {
  type OrderInclude,
  orderDocument,
  orderIncludeNames,
  orderIncludes,
  orderPage,
  orderSchema,
  toOrderResource,
} from '../../resources/orders.ts';
import { cancelItems, changeOrder, placeOrder } from '../../rules/orders.ts';
import { checkPrintable } from '../../rules/pdf.ts';
import type { ClientStore } from '../../store/client-store.ts';
import type { Filter } from '../../store/listing.ts';
import type { Order } from '../../store/model.ts';
import { SortedRows } from '../../store/sorted-rows.ts';
import { toDayNumber } from '../../zone.ts';
import { defineOperation } from '../operation.ts';
import { day, include, orderNumbers, type ParameterValues, paging, uniqueTexts } from '../parameters.ts';
import { assertSameId } from './input.ts';
import { orderBody, readOrder } from './order-body.ts';
import { readWantedRelationships } from './order-relationships.ts';
import { readWantedState, updateBody } from './order-update.ts';

const included = { include: include(...orderIncludeNames) } as const;
const listParameters = {
  ...paging,
  ...included,
  'filter[orderedOn][gt]': day,
  'filter[orderedOn][lt]': day,
  'filter[externalOrderNumber][in]': orderNumbers,
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

/**
 * The operations on orders (docs/interface.md, 7.4 Operations). `included` is always inside the order (docs/interface.md,
 * 2.3 v3 resource objects).
 */
export const orderOperations = [
  defineOperation({
    name: 'v3.orders.list',
    route: 'GET /v3/orders',
    summary: "The client's orders, by ascending id",
    query: listParameters,
    answer: orderPage,
    run: (call) => {
      const selection = call.store.listedOrders.select(readFilters(call.store, call.query));
      return call.renderList('order', selection, (order) => renderOrder(order, call.query.include), 'inside');
    },
  }),
  defineOperation({
    name: 'v3.orders.create',
    route: 'POST /v3/orders',
    summary: 'Creates an order with its items and addresses',
    body: orderBody,
    answer: orderDocument,
    run: async (call) => {
      const { simulation, body } = call;
      const { draft, content } = readOrder(body, simulation.store.zone.day(call.nowMs), simulation.store.settings);
      if (content !== null) {
        await checkPrintable(Buffer.from(content.base64, 'base64'), `${content.pointer}/attributes/content`);
      }
      const order = placeOrder(simulation, draft, call.nowMs, pointers);
      call.recordWrite('order', order.id, null);
      return call.renderOne(renderOrder(order, orderIncludeNames), 'inside');
    },
  }),
  defineOperation({
    name: 'v3.orders.get',
    route: 'GET /v3/orders/:id',
    summary: 'One order',
    query: included,
    answer: orderDocument,
    run: (call) =>
      call.renderOne(
        renderOrder(call.requireRow('order', call.store.orders.get(call.id)), call.query.include),
        'inside',
      ),
  }),
  defineOperation({
    name: 'v3.orders.cancel',
    route: 'DELETE /v3/orders/:id',
    summary: 'Cancels what is left of every item of an order',
    query: included,
    answer: cancelledOrder,
    run: (call) => {
      const order = call.requireRow('order', call.store.orders.get(call.id));
      call.recordWrite('order', order.id, order);
      const changed = cancelItems(call.simulation, order, order.items, call.nowMs);
      const modifiedItems = { data: changed.map(({ id }) => ({ id, type: 'orderItem' })) };
      const meta = { modified: changed.length > 0, modifiedItems };
      return { ...call.renderOne(renderOrder(order, call.query.include), 'inside'), meta };
    },
  }),
  defineOperation({
    name: 'v3.orders.update',
    route: 'PATCH /v3/orders/:id',
    summary: 'Puts an order into the state that is sent',
    documented: false,
    query: included,
    body: updateBody,
    answer: orderDocument,
    run: (call) => {
      const order = call.requireRow('order', call.store.orders.get(call.id));
      assertSameId(call.body.data.id, order.id);
      const { changeableRelationships, dialect } = call.world.switches;
      const shown = showRelationships(toOrderResource(order), call.store, dialect);
      const { ids } = call.simulation;
      const relationships = readWantedRelationships(order, call.body, {
        ids,
        shown,
        changeable: changeableRelationships,
      });
      const state = readWantedState(order, call.body, relationships.orderTypeId, call.store.settings);
      const wanted = { ...state, ...relationships };
      call.recordWrite('order', order.id, order);
      changeOrder(call.simulation, order, wanted, call.nowMs);
      return call.renderOne(renderOrder(order, orderIncludeNames), 'inside');
    },
  }),
];

function renderOrder(order: Order, includes: readonly OrderInclude[] = []): RenderedResource {
  return { resource: toOrderResource(order), included: includes.flatMap((name) => orderIncludes[name](order)) };
}

function readFilters(store: ClientStore, query: ParameterValues<typeof listParameters>): Filter<Order>[] {
  const filters: Filter<Order>[] = [];
  const [after, before] = [query['filter[orderedOn][gt]'], query['filter[orderedOn][lt]']];
  if (after !== undefined || before !== undefined) {
    const [above, below] = [after ? toDayNumber(after) : null, before ? toDayNumber(before) : null];
    filters.push(store.listedOrders.filterByRange('orderedOn', above, below));
  }
  const wanted = query['filter[externalOrderNumber][in]'];
  if (wanted) {
    const found = wanted.flatMap((number) => store.orderByNumber.get(number) ?? []);
    const named = new Set(wanted);
    filters.push({ sources: [SortedRows.fromRows(found)], test: (order) => named.has(order.externalOrderNumber) });
  }
  const references = query['filter[reference][in]'];
  if (references) filters.push(store.listedOrders.filterByKeys('reference', references));
  return filters;
}
