import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import {
  findOrder,
  foundShipmentSchema,
  listedShipmentSchema,
  toFoundShipments,
  toListedShipment,
  toTrackTraceItems,
  trackTraceSchema,
} from '../../resources/v2-shipments.ts';
import { type Filter, readRowsAfter } from '../../store/listing.ts';
import { type Shipment, shipmentStatuses } from '../../store/model.ts';
import { toDayNumber } from '../../zone.ts';
import { dayIn, toWarehouseDay } from '../older-fields.ts';
import { type Call, defineOperation, envelope, ok } from '../operation.ts';

export const orderTypes = z.strictObject({ orderTypes: z.array(z.int()).optional() }).nullable();
const list = {
  answer: envelope(z.array(listedShipmentSchema)),
  documented: false,
  replacedBy: 'GET /v3/shipments with filters on orderType and status',
} as const;

/** The v2 operations on shipments (docs/interface.md, 15.1 Operations). Their lists have no pages. */
export const v2ShipmentOperations = [
  defineOperation({
    name: 'v2.shipment.trackTrace',
    route: 'GET /v2/shipment/tracktrace',
    summary: 'Where parcels are that are not delivered yet; at most once per hour',
    documented: false,
    answer: envelope(z.array(trackTraceSchema)),
    run: (call) => {
      const shipments = [...call.store.inDelivery].filter((shipment) => call.viewRow('shipment', shipment));
      return ok(
        'Track-trace',
        shipments.flatMap((shipment) => toTrackTraceItems(call.store, shipment)),
      );
    },
  }),
  defineOperation({
    ...list,
    name: 'v2.shipment.list',
    route: 'GET /v2/shipment/list',
    summary: 'Shipments no older than 90 days',
    run: (call) => answerShipments(call, []),
  }),
  defineOperation({
    ...list,
    name: 'v2.shipment.listByStatus',
    route: 'GET /v2/shipment/list/:status',
    summary: 'Shipments in one status',
    run: (call) => answerShipments(call, [filterByStatus(call)]),
  }),
  defineOperation({
    ...list,
    name: 'v2.shipment.listByOrderTypes',
    route: 'POST /v2/shipment/list',
    summary: 'Shipments of certain order types',
    body: orderTypes,
    run: (call) => answerShipments(call, filterByOrderTypes(call)),
  }),
  defineOperation({
    ...list,
    name: 'v2.shipment.listByOrderTypesAndStatus',
    route: 'POST /v2/shipment/list/:status',
    summary: 'Shipments of certain order types in one status',
    body: orderTypes,
    run: (call) => answerShipments(call, [...filterByOrderTypes(call), filterByStatus(call)]),
  }),
  defineOperation({
    name: 'v2.shipment.search',
    route: 'POST /v2/shipment/search',
    summary: 'Shipments by criteria, all optional',
    replacedBy: 'GET /v3/shipments or GET /v3/shipments/:id',
    documented: false,
    body: z
      .strictObject({ id: z.int().nullish(), externalOrderNumber: z.string().nullish(), shippingDate: dayIn })
      .nullable(),
    answer: envelope(z.array(foundShipmentSchema)),
    run: (call) =>
      ok(
        'Shipments',
        findShipments(call, call.body ?? {}).flatMap((shipment) => toFoundShipments(call.store, shipment)),
      ),
  }),
];

/** Answers with the listed shipments that pass all filters and that the client has not acknowledged. */
export function answerShipments(call: Call<unknown, unknown>, filters: readonly Filter<Shipment>[]) {
  const { store } = call;
  const shipments = [...readRowsAfter(store.listedShipments.select(filters), 0)];
  return ok(
    'Shipments',
    shipments
      .filter((shipment) => !shipment.acknowledged && call.viewRow('shipment', shipment))
      .map((row) => toListedShipment(store, row)),
  );
}

/**
 * Returns the filter for the status in the path.
 * @throws Refusal if there is no such status
 */
function filterByStatus({ store, path }: Call<unknown, unknown>): Filter<Shipment> {
  const status = shipmentStatuses.find((known) => known === path.status?.toUpperCase());
  if (status === undefined)
    throw ruleBroken(`There is no status ${path.status}; known: ${shipmentStatuses.join(', ')}`);
  return store.listedShipments.filterByKeys('status', [status]);
}

export function filterByOrderTypes({ store, body }: Call<unknown, z.output<typeof orderTypes>>): Filter<Shipment>[] {
  return body?.orderTypes === undefined ? [] : [store.listedShipments.filterByKeys('orderType', body.orderTypes)];
}

type Criteria = {
  id?: number | null | undefined;
  externalOrderNumber?: string | null | undefined;
  shippingDate?: string | null | undefined;
};

/**
 * Finds the visible shipments that meet all given criteria. Shipments that are named by id or order may have any age.
 */
export function findShipments(call: Call<unknown, unknown>, criteria: Criteria): readonly Shipment[] {
  const { store, nowMs } = call;
  const { id, externalOrderNumber, shippingDate } = criteria;
  const wanted = toWarehouseDay(store.zone, shippingDate);
  const day = wanted === null ? null : toDayNumber(wanted);
  const meetsCriteria = (shipment: Shipment) =>
    shipment.visibleFromMs <= nowMs &&
    call.viewRow('shipment', shipment) !== null &&
    (!externalOrderNumber || findOrder(store, shipment).externalOrderNumber === externalOrderNumber) &&
    (day === null || (shipment.shippedOnMs !== null && store.zone.dayNumber(shipment.shippedOnMs) === day));
  if (id !== null && id !== undefined) {
    const shipment = store.shipments.get(id);
    return shipment !== undefined && meetsCriteria(shipment) ? [shipment] : [];
  }
  const order = externalOrderNumber ? store.orderByNumber.get(externalOrderNumber) : undefined;
  if (externalOrderNumber) return order === undefined ? [] : store.listShipments(order).filter(meetsCriteria);
  const filters = day === null ? [] : [store.listedShipments.filterByRange('shippedOn', day - 1, day + 1)];
  return [...readRowsAfter(store.listedShipments.select(filters), 0)].filter(meetsCriteria);
}
