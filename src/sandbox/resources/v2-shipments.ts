import { z } from 'zod';
import { isInDelivery, toPackageNumber } from '../robot/carrier.ts';
import { type ClientStore, toFractions } from '../store/client-store.ts';
import type { Order, Shipment, Track } from '../store/model.ts';

const text = z.string().nullable();
/** A time without a zone (docs/interface.md, 15.5 Track-trace item). */
const local = z.iso.datetime({ local: true, precision: 0 });
const localWithFraction = z.iso.datetime({ local: true, precision: 7 });
const extras = { extra1: text, extra2: text, extra3: text, extra4: text, extra5: text } as const;

/** An item of the track-trace list (docs/interface.md, 15.5 Track-trace item). */
export const trackTraceSchema = z.strictObject({
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

/** Returns a track-trace item for each package of a shipment that is still on its way. */
export function toTrackTraceItems(store: ClientStore, shipment: Shipment) {
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

/** Returns the order of a shipment. */
export function findOrder(store: ClientStore, { orderId }: Shipment): Order {
  return store.orders.get(orderId) as Order;
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
    shippingMethodId: store.settings.findShippingMethodId(shipment.shippingMethodId, shipment.warehouseCode),
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

/** Returns the numbers of the packages. Returns none before the shipment is SHIPPED. */
function listPackageNumbers(shipment: Shipment): string[] {
  if (shipment.status !== 'SHIPPED') return [];
  const count = Math.max(1, shipment.tracks.length);
  return Array.from({ length: count }, (_, index) => toPackageNumber(shipment, index));
}

function toExceptionText(track: Track | undefined): string | null {
  return track === undefined || track.exceptionLevel === null ? null : String(track.exceptionLevel);
}
