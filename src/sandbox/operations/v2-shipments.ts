import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { isInDelivery, toPackageNumber } from '../robot/fulfil.ts';
import { type ClientStore, toFractions } from '../store/client-store.ts';
import { type Filter, readRowsAfter } from '../store/listing.ts';
import { type Order, type Shipment, shipmentStatuses, type Track } from '../store/model.ts';
import { toDayNumber } from '../zone.ts';
import { dayIn, toWarehouseDay } from './older-fields.ts';
import { type Call, defineOperation, envelope, ok } from './operation.ts';

const text = z.string().nullable();
/** A time without a zone (docs/interface.md, 15.5 Track-trace item). */
const local = z.iso.datetime({ local: true, precision: 0 });
const localWithFraction = z.iso.datetime({ local: true, precision: 7 });
const extras = { extra1: text, extra2: text, extra3: text, extra4: text, extra5: text } as const;

/** An item of the track-trace list (docs/interface.md, 15.5 Track-trace item). */
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
/** A shipment of a list (docs/interface.md, 15.6 Shipment item of the lists). */
export const listedShipmentSchema = z.strictObject({
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
  currentTrackTraceStatus: z.string(),
  currentTrackTraceExceptionLevel: text,
  /** The lists spell this name so. */
  warehouseAbbrevation: z.string(),
  mainShippingMethodId: z.int(),
});
/** A shipment found by criteria (docs/interface.md, 15.7 Shipment item of the criteria lookup). */
export const foundShipmentSchema = z.strictObject({
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
  currentTrackTraceStatus: z.string(),
  currentTrackTraceExceptionLevel: text,
  shipmentItems: z.array(
    z.strictObject({ shipmentItemId: z.int(), quantity: z.int(), sku: z.string(), lotNumber: text }),
  ),
  warehouseAbbreviation: z.string(),
  mainShippingMethodId: z.int(),
});

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
    run: (call) => answerShipments(call, filterByStatus(call)),
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
    run: (call) => answerShipments(call, [...filterByOrderTypes(call), ...filterByStatus(call)]),
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
function filterByStatus({ store, path }: Call<unknown, unknown>): Filter<Shipment>[] {
  const status = shipmentStatuses.find((known) => known === path.status?.toUpperCase());
  if (status === undefined)
    throw ruleBroken(`There is no status ${path.status}; known: ${shipmentStatuses.join(', ')}`);
  return store.listedShipments.filterByKeys('status', [status]);
}

export function filterByOrderTypes({ store, body }: Call<unknown, z.output<typeof orderTypes>>): Filter<Shipment>[] {
  return store.listedShipments.filterByKeys('orderType', body?.orderTypes);
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

/** Returns a track-trace item for each package of a shipment that is still on its way. */
function toTrackTraceItems(store: ClientStore, shipment: Shipment) {
  const { externalOrderNumber } = findOrder(store, shipment);
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

/** The status of a shipment about which no carrier reports. */
const unknownStatus = 0;

/** Returns the fields that the lists and the criteria lookup have in common. */
function toCommonFields(store: ClientStore, shipment: Shipment) {
  const packages = listPackageNumbers(shipment);
  const first = shipment.tracks[0];
  return {
    id: shipment.id,
    externalOrderNumber: findOrder(store, shipment).externalOrderNumber,
    shippingDate: store.zone.writeLocal(shipment.shippedOnMs, toFractions(shipment).later),
    numberOfColli: packages.length,
    totalNumberOfProducts: shipment.items.reduce((sum, { quantity }) => sum + quantity, 0),
    shippingMethodId: store.lists.findShippingMethodId(shipment.shippingMethodId, shipment.warehouseCode),
    returnPackageNumber: shipment.returnLabel,
    currentTrackTraceStatus: String(first?.status ?? unknownStatus),
    currentTrackTraceExceptionLevel: toExceptionText(first),
    mainShippingMethodId: shipment.shippingMethodId,
  };
}

/** Returns a shipment as the lists show it. */
export function toListedShipment(store: ClientStore, shipment: Shipment) {
  const order = findOrder(store, shipment);
  const { extra1 = null, extra2 = null, extra3 = null, extra4 = null, extra5 = null } = order.metadata;
  return {
    ...toCommonFields(store, shipment),
    orderNumber: order.id,
    orderType: shipment.orderTypeId,
    shippedColli: listPackageNumbers(shipment).map((number, index) => ({
      colloNr: String(index + 1),
      packageNumber: number,
    })),
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

/** Returns a shipment as the criteria lookup shows it: one item for each package, or one without a package. */
export function toFoundShipments(store: ClientStore, shipment: Shipment) {
  const numbers = listPackageNumbers(shipment);
  return (numbers.length === 0 ? [null] : numbers).map((number, index) => {
    const track = shipment.tracks[index];
    return {
      ...toCommonFields(store, shipment),
      trackingNumber: shipment.id,
      trackAndTraceCode: number,
      trackAndTraceBarCode: number,
      packageNumber: number,
      currentTrackTraceStatus: String(track?.status ?? unknownStatus),
      currentTrackTraceExceptionLevel: toExceptionText(track),
      shipmentItems: shipment.items.map(({ id, quantity, sku, lotNumber }) => ({
        shipmentItemId: id,
        quantity,
        sku,
        lotNumber,
      })),
      warehouseAbbreviation: shipment.warehouseCode,
    };
  });
}

/** Returns the order of a shipment. */
function findOrder(store: ClientStore, { orderId }: Shipment): Order {
  return store.orders.get(orderId) as Order;
}

/** Returns the numbers of the packages. Returns none before the shipment is SHIPPED. */
function listPackageNumbers(shipment: Shipment): string[] {
  if (shipment.status !== 'SHIPPED') return [];
  const count = Math.max(1, shipment.tracks.length);
  return Array.from({ length: count }, (_, index) => toPackageNumber(shipment, index));
}

function toExceptionText(track: Track | undefined): string | null {
  return track === undefined || track.exceptionLevel === null ? null : String(track.exceptionLevel);
}
