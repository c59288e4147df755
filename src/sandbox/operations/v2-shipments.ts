import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { isInDelivery, packageNumber } from '../robot/carrier.ts';
import { type ClientStore, fractionsOf } from '../store/client-store.ts';
import type { Filter } from '../store/listing.ts';
import { rowsAfter } from '../store/listing.ts';
import { type Order, type Shipment, shipmentStatuses, type Track } from '../store/model.ts';
import { dayNumberOf } from '../times.ts';
import { dayIn, integerIn, methodAt } from './older-input.ts';
import { type Call, envelope, ok, operation } from './operation.ts';

const text = z.string().nullable();
/** Without a zone (interface.md, v2 track-trace item). */
const local = z.iso.datetime({ local: true, precision: 0 });
const localWithFraction = z.iso.datetime({ local: true, precision: 7 });
const extras = { extra1: text, extra2: text, extra3: text, extra4: text, extra5: text } as const;

const trackTraceSchema = z.strictObject({
  shipmentId: z.int(),
  externalOrderNumber: z.string(),
  packageNumber: text,
  shipmentMethod: z.string(),
  currentTrackTraceStatus: z.int(),
  currentTrackTraceStatusDateTime: local.nullable(),
  currentTrackTraceExceptionLevel: z.int().nullable(),
});
const shippedProduct = z.strictObject({
  sku: z.string(),
  quantity: z.int(),
  serialNrs: z.array(z.string()),
  weight: z.number().nullable(),
  tht: z.iso.date().nullable(),
  extra6: text,
  extra7: text,
  lotNumber: text,
  parts: z.array(z.never()),
});
const listedShipment = z.strictObject({
  id: z.int(),
  orderNumber: z.int(),
  orderType: z.int(),
  externalOrderNumber: z.string(),
  shippingDate: localWithFraction.nullable(),
  numberOfColli: z.int(),
  totalNumberOfProducts: z.int(),
  shippingMethodId: z.int(),
  returnPackageNumber: text,
  shippedColli: z.array(z.strictObject({ colloNr: z.string(), packageNumber: z.string() })),
  shippedProducts: z.array(shippedProduct),
  ...extras,
  currentTrackTraceStatus: text,
  currentTrackTraceExceptionLevel: text,
  /** Spelled like this in lists (interface.md, v2 shipment item). */
  warehouseAbbrevation: z.string(),
  mainShippingMethodId: z.int(),
});
const foundShipment = z.strictObject({
  id: z.int(),
  externalOrderNumber: z.string(),
  trackingNumber: z.int(),
  shippingDate: localWithFraction.nullable(),
  numberOfColli: z.int(),
  totalNumberOfProducts: z.int(),
  trackAndTraceCode: text,
  trackAndTraceBarCode: text,
  shippingMethodId: z.int(),
  returnPackageNumber: text,
  packageNumber: text,
  currentTrackTraceStatus: text,
  currentTrackTraceExceptionLevel: text,
  shipmentItems: z.array(
    z.strictObject({ shipmentItemId: z.int(), quantity: z.int(), sku: z.string(), lotNumber: text }),
  ),
  warehouseAbbreviation: z.string(),
  mainShippingMethodId: z.int(),
});

const orderTypes = z.strictObject({ orderTypes: z.array(integerIn) }).nullable();
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
      const shipments = [...call.store.inDelivery];
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
      .strictObject({ id: integerIn.nullish(), externalOrderNumber: z.string().nullish(), shippingDate: dayIn })
      .nullable(),
    answer: envelope(z.array(foundShipment)),
    run: (call) =>
      ok(
        'Shipments',
        candidates(call).map((shipment) => found(call.store, shipment)),
      ),
  }),
];

/** Each package of a shipment that is still on its way, as the carrier tells of it. */
function tracksOf(store: ClientStore, shipment: Shipment) {
  const { externalOrderNumber } = orderOf(store, shipment);
  return shipment.tracks.filter(isInDelivery).map((track) => ({
    shipmentId: shipment.id,
    externalOrderNumber,
    packageNumber: track.packageNumber,
    shipmentMethod: String(shipment.shippingMethodId),
    currentTrackTraceStatus: track.status,
    currentTrackTraceStatusDateTime: store.zone.writeLocal(track.statusOnMs, '')?.slice(0, 19) ?? null,
    currentTrackTraceExceptionLevel: track.exceptionLevel,
  }));
}

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
  return body === null ? [] : [store.listedShipments.where('orderType', body.orderTypes)];
}

type Criteria = {
  id?: number | null | undefined;
  externalOrderNumber?: string | null | undefined;
  shippingDate?: string | null | undefined;
};

/** Shipments that meet all criteria given. One that is named by its id may be of any age. */
function candidates(call: Call<unknown, Criteria | null>): readonly Shipment[] {
  const { store, nowMs } = call;
  const { id, externalOrderNumber, shippingDate } = call.body ?? {};
  const day = shippingDate ? dayNumberOf(shippingDate) : null;
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

function orderOf(store: ClientStore, { orderId }: Shipment): Order {
  return store.orders.get(orderId) as Order;
}

/** What list and look-up say of a shipment in the same words. */
function common(store: ClientStore, shipment: Shipment) {
  const packages = packagesOf(shipment);
  const first = shipment.tracks[0];
  return {
    id: shipment.id,
    externalOrderNumber: orderOf(store, shipment).externalOrderNumber,
    shippingDate: store.zone.writeLocal(shipment.shippedOnMs, fractionsOf(shipment).later),
    numberOfColli: packages.length,
    totalNumberOfProducts: shipment.items.reduce((sum, { quantity }) => sum + quantity, 0),
    shippingMethodId: methodAt(shipment.shippingMethodId, shipment.warehouseCode),
    returnPackageNumber: shipment.returnLabel,
    currentTrackTraceStatus: first === undefined ? null : String(first.status),
    currentTrackTraceExceptionLevel: exceptionOf(first),
    mainShippingMethodId: shipment.shippingMethodId,
  };
}

function listed(store: ClientStore, shipment: Shipment) {
  const order = orderOf(store, shipment);
  const { extra1 = null, extra2 = null, extra3 = null, extra4 = null, extra5 = null } = order.metadata;
  return {
    ...common(store, shipment),
    orderNumber: order.id,
    orderType: shipment.orderTypeId,
    shippedColli: packagesOf(shipment).map((number, index) => ({ colloNr: String(index + 1), packageNumber: number })),
    shippedProducts: shipment.items.map((item) => {
      const { extra6 = null, extra7 = null } = order.items.find(({ id }) => id === item.orderItemId)?.metadata ?? {};
      const { sku, quantity, serialNumbers, expirationDate, lotNumber } = item;
      const weight = store.products.get(sku)?.weight ?? null;
      return {
        sku,
        quantity,
        serialNrs: serialNumbers,
        weight,
        tht: expirationDate,
        extra6,
        extra7,
        lotNumber,
        parts: [],
      };
    }),
    extra1,
    extra2,
    extra3,
    extra4,
    extra5,
    warehouseAbbrevation: shipment.warehouseCode,
  };
}

function found(store: ClientStore, shipment: Shipment) {
  const [first = null] = packagesOf(shipment);
  return {
    ...common(store, shipment),
    trackingNumber: shipment.id,
    trackAndTraceCode: first,
    trackAndTraceBarCode: first,
    packageNumber: first,
    shipmentItems: shipment.items.map(({ id, quantity, sku, lotNumber }) => ({
      shipmentItemId: id,
      quantity,
      sku,
      lotNumber,
    })),
    warehouseAbbreviation: shipment.warehouseCode,
  };
}

/** Numbers of the packages a carrier has; none before it has any. */
function packagesOf(shipment: Shipment): string[] {
  if (shipment.status !== 'SHIPPED') return [];
  const count = Math.max(1, shipment.tracks.length);
  return Array.from({ length: count }, (_, index) => packageNumber(shipment, index));
}

function exceptionOf(track: Track | undefined): string | null {
  return track === undefined || track.exceptionLevel === null ? null : String(track.exceptionLevel);
}
