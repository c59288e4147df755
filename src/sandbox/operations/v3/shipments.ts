import { z } from 'zod';
import type { Rendered } from '../../paging.ts';
import { shipmentDocument, shipmentItemResource, shipmentPage, shipmentResource } from '../../resources/shipments.ts';
import type { ClientStore } from '../../store/client-store.ts';
import type { Filter } from '../../store/listing.ts';
import { type Order, type Shipment, shipmentStatuses } from '../../store/model.ts';
import { SortedRows } from '../../store/sorted-rows.ts';
import { dayNumberOf } from '../../times.ts';
import { operation } from '../operation.ts';
import { day, ids, include, listOf, paging, texts, type Values } from '../parameters.ts';

const parameters = {
  ...paging,
  include: include('shipmentItems'),
  'filter[status][in]': listOf(z.enum(shipmentStatuses)),
  'filter[shippedOn][gt]': day,
  'filter[shippedOn][lt]': day,
  'filter[orderType][in]': ids,
  'filter[reference][in]': texts,
  'filter[orderId]': ids,
  'filter[orderId][in]': ids,
  'filter[externalOrderNumber]': texts,
  'filter[externalOrderNumber][in]': texts,
} as const;

/** interface.md, v3 shipments. */
export const shipmentOperations = [
  operation({
    name: 'v3.shipments.list',
    route: 'GET /v3/shipments',
    summary: 'Shipments no older than 90 days, by ascending id',
    query: parameters,
    answer: shipmentPage,
    run: (call) => {
      const { store, query } = call;
      const withItems = query.include !== undefined;
      const selection = store.listedShipments.select(filtersOf(store, query));
      return call.list('shipment', selection, (shipment) => render(store, shipment, withItems));
    },
  }),
  operation({
    name: 'v3.shipments.get',
    route: 'GET /v3/shipments/:id',
    summary: 'One shipment, of any age',
    query: { include: parameters.include },
    answer: shipmentDocument,
    run: (call) => {
      const { store, query, nowMs } = call;
      const known = store.shipments.get(call.id);
      const shipment = call.found('shipment', known !== undefined && known.visibleFromMs <= nowMs ? known : undefined);
      return call.one(render(store, shipment, query.include !== undefined));
    },
  }),
];

function render({ zone }: ClientStore, shipment: Shipment, withItems: boolean): Rendered {
  return {
    resource: shipmentResource(zone, shipment),
    included: withItems ? shipment.items.map(shipmentItemResource) : [],
  };
}

/** All filters of the list; they combine. */
function filtersOf(store: ClientStore, query: Values<typeof parameters>): Filter<Shipment>[] {
  const listing = store.listedShipments;
  const filters: Filter<Shipment>[] = [];
  const [after, before] = [query['filter[shippedOn][gt]'], query['filter[shippedOn][lt]']];
  if (query['filter[status][in]']) filters.push(listing.where('status', query['filter[status][in]']));
  if (query['filter[orderType][in]']) filters.push(listing.where('orderType', query['filter[orderType][in]']));
  if (after !== undefined || before !== undefined)
    filters.push(listing.between('shippedOn', after ? dayNumberOf(after) : null, before ? dayNumberOf(before) : null));
  const { orders, orderByNumber, listedOrders } = store;
  for (const wanted of [query['filter[orderId]'], query['filter[orderId][in]']])
    if (wanted)
      filters.push(
        ofOrders(
          store,
          wanted.flatMap((id) => orders.get(id) ?? []),
        ),
      );
  for (const wanted of [query['filter[externalOrderNumber]'], query['filter[externalOrderNumber][in]']])
    if (wanted)
      filters.push(
        ofOrders(
          store,
          wanted.flatMap((number) => orderByNumber.get(number) ?? []),
        ),
      );
  const references = query['filter[reference][in]'];
  if (references)
    filters.push(
      ofOrders(
        store,
        references.flatMap((reference) => [...listedOrders.of('reference', reference)]),
      ),
    );
  return filters;
}

/** Shipments of certain orders: looked up rather than searched for. */
function ofOrders(store: ClientStore, orders: readonly Order[]): Filter<Shipment> {
  const wanted = new Set(orders.map(({ id }) => id));
  const listed = orders
    .flatMap((order) => store.shipmentsOf(order))
    .filter(({ id }) => store.listedShipments.all.get(id));
  return { sources: [SortedRows.of(listed)], test: ({ orderId }) => wanted.has(orderId) };
}
