import { z } from 'zod';
import { type ClientStore, toFractions } from '../store/client-store.ts';
import { type Filter, SortedRows } from '../store/listing.ts';
import { type Order, type Shipment, type ShipmentItem, shipmentStatuses } from '../store/model.ts';
import type { Zone } from '../zone.ts';
import { defineOperation } from './operation.ts';
import type { RenderedResource } from './paging.ts';
import { day, ids, include, type ParameterValues, paging, texts, uniqueList } from './parameters.ts';
import {
  date,
  documentSchema,
  linkMany,
  linkOne,
  localDateTime,
  pageSchema,
  type ResourceObject,
  resourceSchema,
  text,
  toMany,
  toOne,
} from './v3-document.ts';

const shipmentItemSchema = resourceSchema(
  'shipmentItem',
  {
    sku: z.string(),
    quantity: z.int(),
    lotNumber: text,
    expirationDate: date.nullable(),
    serialNumbers: z.array(z.string()),
  },
  { orderItem: toOne('orderItem'), product: toOne('product') },
);
const shipmentSchema = resourceSchema(
  'shipment',
  {
    status: z.enum(shipmentStatuses),
    readyToPickOn: localDateTime,
    readyToShipOn: localDateTime.nullable(),
    shippedOn: localDateTime.nullable(),
    warehouseCode: z.string(),
    returnLabel: text,
  },
  {
    order: toOne('order'),
    orderType: toOne('orderType'),
    shippingMethod: toOne('shippingMethod'),
    shipmentItems: toMany('shipmentItem'),
  },
  shipmentItemSchema,
);
const shipmentDocument = documentSchema(shipmentSchema, shipmentItemSchema);
const shipmentPage = pageSchema(shipmentSchema, shipmentItemSchema);

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
  const { listedShipments: listing, listedOrders, orders, orderByNumber } = store;
  const findById = (id: number) => orders.get(id) ?? [];
  const findByNumber = (number: string) => orderByNumber.get(number) ?? [];
  const findByReference = (reference: string) => [...listedOrders.findRows('reference', reference)];
  return [
    ...listing.filterByKeys('status', query['filter[status][in]']),
    ...listing.filterByKeys('orderType', query['filter[orderType][in]']),
    ...listing.filterByDays('shippedOn', query['filter[shippedOn][gt]'], query['filter[shippedOn][lt]']),
    ...filterByOrders(store, query['filter[orderId]'], findById),
    ...filterByOrders(store, query['filter[orderId][in]'], findById),
    ...filterByOrders(store, query['filter[externalOrderNumber]'], findByNumber),
    ...filterByOrders(store, query['filter[externalOrderNumber][in]'], findByNumber),
    ...filterByOrders(store, query['filter[reference][in]'], findByReference),
  ];
}

/** Returns the filter for the shipments of the orders that a parameter names; none if it is absent. */
function filterByOrders<V>(
  store: ClientStore,
  named: readonly V[] | undefined,
  findOrders: (value: V) => Order | readonly Order[],
): Filter<Shipment>[] {
  if (named === undefined) return [];
  const orders = named.flatMap(findOrders);
  const wanted = new Set(orders.map(({ id }) => id));
  const listed = orders
    .flatMap((order) => store.listShipments(order))
    .filter(({ id }) => store.listedShipments.all.get(id));
  return [{ sources: [SortedRows.fromRows(listed)], test: ({ orderId }) => wanted.has(orderId) }];
}

/**
 * Returns the resource of a shipment (docs/interface.md, 10.1 Fields). Its times are in the zone of its warehouses and
 * do not name that zone.
 */
export function toShipmentResource(zone: Zone, shipment: Shipment): ResourceObject {
  const { readyToPickOn, later } = toFractions(shipment);
  return {
    id: shipment.id,
    type: 'shipment',
    attributes: {
      status: shipment.status,
      readyToPickOn: zone.writeLocal(shipment.readyToPickOnMs, readyToPickOn),
      readyToShipOn: zone.writeLocal(shipment.readyToShipOnMs, later),
      shippedOn: zone.writeLocal(shipment.shippedOnMs, later),
      warehouseCode: shipment.warehouseCode,
      returnLabel: shipment.returnLabel,
    },
    relationships: {
      order: linkOne('order', shipment.orderId),
      orderType: linkOne('orderType', shipment.orderTypeId),
      shippingMethod: linkOne('shippingMethod', shipment.shippingMethodId),
      shipmentItems: linkMany(
        'shipmentItem',
        shipment.items.map(({ id }) => id),
      ),
    },
  };
}

/** Returns the resource of a shipment item (docs/interface.md, 10.2 Shipment items). */
export function toShipmentItemResource(item: ShipmentItem): ResourceObject {
  return {
    id: item.id,
    type: 'shipmentItem',
    attributes: {
      sku: item.sku,
      quantity: item.quantity,
      lotNumber: item.lotNumber,
      expirationDate: item.expirationDate,
      serialNumbers: item.serialNumbers,
    },
    relationships: { orderItem: linkOne('orderItem', item.orderItemId), product: linkOne('product', item.productId) },
  };
}
