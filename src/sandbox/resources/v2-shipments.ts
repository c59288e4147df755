import { z } from 'zod';
import { isInDelivery, packageNumber } from '../robot/carrier.ts';
import { type ClientStore, fractionsOf } from '../store/client-store.ts';
import type { Order, Shipment, Track } from '../store/model.ts';
import { methodAt } from '../store/settings.ts';

const text = z.string().nullable();
/** Without a zone (interface.md, v2 track-trace item). */
const local = z.iso.datetime({ local: true, precision: 0 });
const localWithFraction = z.iso.datetime({ local: true, precision: 7 });
const extras = { extra1: text, extra2: text, extra3: text, extra4: text, extra5: text } as const;

/** interface.md, v2 track-trace item. */
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
/** interface.md, v2 shipment item (list operations). */
export const listedShipment = z.strictObject({
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
  /** Spelled like this in lists (interface.md, v2 shipment item). */
  warehouseAbbrevation: z.string(),
  mainShippingMethodId: z.int(),
});
/** interface.md, v2 shipment item (criteria lookup). */
export const foundShipment = z.strictObject({
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

/** Each package of a shipment that is still on its way, as the carrier tells of it. */
export function tracksOf(store: ClientStore, shipment: Shipment) {
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

/** The order a shipment was made of. */
export function orderOf(store: ClientStore, { orderId }: Shipment): Order {
  return store.orders.get(orderId) as Order;
}

/** Of a shipment no carrier tells of. */
const unknownStatus = 0;

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
    currentTrackTraceStatus: String(first?.status ?? unknownStatus),
    currentTrackTraceExceptionLevel: exceptionOf(first),
    mainShippingMethodId: shipment.shippingMethodId,
  };
}

/** A shipment as the lists show it. */
export function listed(store: ClientStore, shipment: Shipment) {
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

/** A shipment as the look-up by criteria shows it. */
export function found(store: ClientStore, shipment: Shipment) {
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
