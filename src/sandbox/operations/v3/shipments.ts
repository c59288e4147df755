import { z } from 'zod';
import type { RenderedResource } from '../../paging.ts';
import {
  shipmentDocument,
  shipmentPage,
  toShipmentItemResource,
  toShipmentResource,
} from '../../resources/shipments.ts';
import type { ClientStore } from '../../store/client-store.ts';
import type { Filter } from '../../store/listing.ts';
import { type Order, type Shipment, shipmentStatuses } from '../../store/model.ts';
import { SortedRows } from '../../store/sorted-rows.ts';
import { toDayNumber } from '../../zone.ts';
import { defineOperation } from '../operation.ts';
import { day, ids, include, type ParameterValues, paging, texts, uniqueList } from '../parameters.ts';

const parameters = {
  ...paging,
  include: include('shipmentItems'),
  'filter[status][in]': uniqueList(z.enum(shipmentStatuses)),
  'filter[shippedOn][gt]': day,
  'filter[shippedOn][lt]': day,
  'filter[orderType][in]': ids,
  'filter[reference][in]': texts,
  'filter[orderId]': ids,
  'filter[orderId][in]': ids,
  'filter[externalOrderNumber]': texts,
  'filter[externalOrderNumber][in]': texts,
} as const;

/** The operations on shipments (docs/interface.md, 10.4 Operations). */
export const shipmentOperations = [
  defineOperation({
    name: 'v3.shipments.list',
    route: 'GET /v3/shipments',
    summary: 'Shipments no older than 90 days, by ascending id',
    query: parameters,
    answer: shipmentPage,
    run: (call) => {
      const { store, query } = call;
      const withItems = query.include !== undefined;
      const selection = store.listedShipments.select(readFilters(store, query));
      return call.renderList('shipment', selection, (shipment) => renderShipment(store, shipment, withItems));
    },
  }),
  defineOperation({
    name: 'v3.shipments.get',
    route: 'GET /v3/shipments/:id',
    summary: 'One shipment, of any age',
    query: { include: parameters.include },
    answer: shipmentDocument,
    run: (call) => {
      const { store, query, nowMs } = call;
      const known = store.shipments.get(call.id);
      const shipment = call.requireRow(
        'shipment',
        known !== undefined && known.visibleFromMs <= nowMs ? known : undefined,
      );
      return call.renderOne(renderShipment(store, shipment, query.include !== undefined));
    },
  }),
];

function renderShipment({ zone }: ClientStore, shipment: Shipment, withItems: boolean): RenderedResource {
  return {
    resource: toShipmentResource(zone, shipment),
    included: withItems ? shipment.items.map(toShipmentItemResource) : [],
  };
}

/** Returns the filters of a list request. A shipment must pass all of them. */
function readFilters(store: ClientStore, query: ParameterValues<typeof parameters>): Filter<Shipment>[] {
  const listing = store.listedShipments;
  const filters: Filter<Shipment>[] = [];
  const [after, before] = [query['filter[shippedOn][gt]'], query['filter[shippedOn][lt]']];
  if (query['filter[status][in]']) filters.push(listing.filterByKeys('status', query['filter[status][in]']));
  if (query['filter[orderType][in]']) filters.push(listing.filterByKeys('orderType', query['filter[orderType][in]']));
  if (after !== undefined || before !== undefined)
    filters.push(
      listing.filterByRange('shippedOn', after ? toDayNumber(after) : null, before ? toDayNumber(before) : null),
    );
  const { orders, orderByNumber, listedOrders } = store;
  for (const wanted of [query['filter[orderId]'], query['filter[orderId][in]']])
    if (wanted)
      filters.push(
        filterByOrders(
          store,
          wanted.flatMap((id) => orders.get(id) ?? []),
        ),
      );
  for (const wanted of [query['filter[externalOrderNumber]'], query['filter[externalOrderNumber][in]']])
    if (wanted)
      filters.push(
        filterByOrders(
          store,
          wanted.flatMap((number) => orderByNumber.get(number) ?? []),
        ),
      );
  const references = query['filter[reference][in]'];
  if (references)
    filters.push(
      filterByOrders(
        store,
        references.flatMap((reference) => [...listedOrders.findRows('reference', reference)]),
      ),
    );
  return filters;
}

/** Returns the filter for the shipments of certain orders. It finds them through the orders. */
function filterByOrders(store: ClientStore, orders: readonly Order[]): Filter<Shipment> {
  const wanted = new Set(orders.map(({ id }) => id));
  const listed = orders
    .flatMap((order) => store.listShipments(order))
    .filter(({ id }) => store.listedShipments.all.get(id));
  return { sources: [SortedRows.fromRows(listed)], test: ({ orderId }) => wanted.has(orderId) };
}
