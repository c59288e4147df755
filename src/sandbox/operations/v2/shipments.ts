import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import {
  found,
  foundShipment,
  listed,
  listedShipment,
  orderOf,
  tracksOf,
  trackTraceSchema,
} from '../../resources/v2-shipments.ts';
import { type Filter, rowsAfter } from '../../store/listing.ts';
import { type Shipment, shipmentStatuses } from '../../store/model.ts';
import { dayNumberOf } from '../../times.ts';
import { dayIn, warehouseDay } from '../older-input.ts';
import { type Call, envelope, ok, operation } from '../operation.ts';

const orderTypes = z.strictObject({ orderTypes: z.array(z.int()).optional() }).nullable();
const list = { answer: envelope(z.array(listedShipment)), documented: false } as const;

/** v2 operations on shipments (interface.md). They have no pages. */
export const v2ShipmentOperations = [
  operation({
    name: 'v2.shipment.trackTrace',
    route: 'GET /v2/shipment/tracktrace',
    summary: 'Where parcels are that are not delivered yet; at most once per hour',
    documented: false,
    answer: envelope(z.array(trackTraceSchema)),
    run: (call) => {
      const shipments = [...call.store.inDelivery].filter((shipment) => call.seen('shipment', shipment));
      return ok(
        'Track-trace',
        shipments.flatMap((shipment) => tracksOf(call.store, shipment)),
      );
    },
  }),
  operation({
    ...list,
    name: 'v2.shipment.list',
    route: 'GET /v2/shipment/list',
    summary: 'Shipments no older than 90 days',
    run: (call) => shipmentList(call, []),
  }),
  operation({
    ...list,
    name: 'v2.shipment.listByStatus',
    route: 'GET /v2/shipment/list/:status',
    summary: 'Shipments in one status',
    run: (call) => shipmentList(call, [ofStatus(call)]),
  }),
  operation({
    ...list,
    name: 'v2.shipment.listByOrderTypes',
    route: 'POST /v2/shipment/list',
    summary: 'Shipments of certain order types',
    body: orderTypes,
    run: (call) => shipmentList(call, ofOrderTypes(call)),
  }),
  operation({
    ...list,
    name: 'v2.shipment.listByOrderTypesAndStatus',
    route: 'POST /v2/shipment/list/:status',
    summary: 'Shipments of certain order types in one status',
    body: orderTypes,
    run: (call) => shipmentList(call, [...ofOrderTypes(call), ofStatus(call)]),
  }),
  operation({
    name: 'v2.shipment.search',
    route: 'POST /v2/shipment/search',
    summary: 'Shipments by criteria, all optional',
    documented: false,
    body: z
      .strictObject({ id: z.int().nullish(), externalOrderNumber: z.string().nullish(), shippingDate: dayIn })
      .nullable(),
    answer: envelope(z.array(foundShipment)),
    run: (call) =>
      ok(
        'Shipments',
        candidates(call).map((shipment) => found(call.store, shipment)),
      ),
  }),
];

function shipmentList(call: Call<unknown, unknown>, filters: readonly Filter<Shipment>[]) {
  const { store } = call;
  const shipments = [...rowsAfter(store.listedShipments.select(filters), 0)];
  return ok(
    'Shipments',
    shipments.filter((shipment) => call.seen('shipment', shipment)).map((row) => listed(store, row)),
  );
}

function ofStatus({ store, path }: Call<unknown, unknown>): Filter<Shipment> {
  const status = shipmentStatuses.find((known) => known === path.status?.toUpperCase());
  if (status === undefined)
    throw ruleBroken(`There is no status ${path.status}; known: ${shipmentStatuses.join(', ')}`);
  return store.listedShipments.where('status', [status]);
}

function ofOrderTypes({ store, body }: Call<unknown, z.output<typeof orderTypes>>): Filter<Shipment>[] {
  return body?.orderTypes === undefined ? [] : [store.listedShipments.where('orderType', body.orderTypes)];
}

type Criteria = {
  id?: number | null | undefined;
  externalOrderNumber?: string | null | undefined;
  shippingDate?: string | null | undefined;
};

/** Shipments that meet all criteria given. Those named by id or order may be of any age. */
function candidates(call: Call<unknown, Criteria | null>): readonly Shipment[] {
  const { store, nowMs } = call;
  const { id, externalOrderNumber, shippingDate } = call.body ?? {};
  const wanted = warehouseDay(store.zone, shippingDate);
  const day = wanted === null ? null : dayNumberOf(wanted);
  const meets = (shipment: Shipment) =>
    shipment.visibleFromMs <= nowMs &&
    call.seen('shipment', shipment) !== null &&
    (!externalOrderNumber || orderOf(store, shipment).externalOrderNumber === externalOrderNumber) &&
    (day === null || (shipment.shippedOnMs !== null && store.zone.dayNumber(shipment.shippedOnMs) === day));
  if (id !== null && id !== undefined) {
    const shipment = store.shipments.get(id);
    return shipment !== undefined && meets(shipment) ? [shipment] : [];
  }
  const order = externalOrderNumber ? store.orderByNumber.get(externalOrderNumber) : undefined;
  if (externalOrderNumber) return order === undefined ? [] : store.shipmentsOf(order).filter(meets);
  const filters = day === null ? [] : [store.listedShipments.between('shippedOn', day - 1, day + 1)];
  return [...rowsAfter(store.listedShipments.select(filters), 0)].filter(meets);
}
