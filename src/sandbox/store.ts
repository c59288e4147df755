import { type Moment, momentAt } from './times.ts';

export const shipmentStatuses = ['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'SHIPPED', 'ERROR'] as const;
export type ShipmentStatus = (typeof shipmentStatuses)[number];

export interface StoredItem {
  readonly id: number;
  readonly sku: string;
  quantity: number;
  readonly lotNumber: string | null;
  readonly expirationDate: string | null;
  readonly serialNumbers: readonly string[];
  readonly orderItemId: number;
  readonly productId: number;
}

export interface StoredShipment {
  readonly id: number;
  status: ShipmentStatus;
  readyToPickOn: Moment;
  readyToShipOn: Moment | null;
  shippedOn: Moment | null;
  readonly warehouseCode: string;
  returnLabel: string | null;
  readonly orderId: number;
  readonly orderTypeId: number;
  readonly shippingMethodId: number;
  readonly items: StoredItem[];
  /** Not shown to anyone before this virtual moment, though its id is older. */
  readonly visibleFromMs: number;
}

export interface StoredOrderItem {
  readonly id: number;
  readonly sku: string;
  readonly quantity: number;
  readonly name: string;
  readonly price: number;
  /** As a number or, as one answer of the interface shows it, as a decimal text. */
  readonly vat: number | string;
  readonly productId: number;
}

export interface StoredAddress {
  readonly id: number;
  readonly firstName: string;
  readonly lastName: string;
  readonly street1: string;
  readonly houseNumber: string;
  readonly postcode: string;
  readonly city: string;
  readonly countryCode: string;
}

export interface StoredOrder {
  readonly id: number;
  externalOrderNumber: string;
  reference: string | null;
  readonly orderedOn: string;
  readonly locale: string;
  readonly email: string;
  readonly orderTypeId: number;
  readonly shippingMethodId: number;
  readonly items: readonly StoredOrderItem[];
  readonly deliveryAddress: StoredAddress;
  readonly billingAddress: StoredAddress;
  readonly pickUpPoint: { readonly id: number; readonly name: string } | null;
}

/** All that one client of the sandbox has. Lists are in ascending order of id, as they are only ever appended to. */
export class ClientStore {
  readonly name: string;
  readonly zone: string;
  readonly orders: StoredOrder[] = [];
  readonly shipments: StoredShipment[] = [];
  readonly orderById = new Map<number, StoredOrder>();
  readonly shipmentById = new Map<number, StoredShipment>();
  readonly #shipmentsByOrder = new Map<number, StoredShipment[]>();

  constructor(name: string, zone: string) {
    this.name = name;
    this.zone = zone;
  }

  addOrder(order: StoredOrder): void {
    this.orders.push(order);
    this.orderById.set(order.id, order);
  }

  addShipment(shipment: StoredShipment): void {
    this.shipments.push(shipment);
    this.shipmentById.set(shipment.id, shipment);
    const siblings = this.#shipmentsByOrder.get(shipment.orderId);
    if (siblings) siblings.push(shipment);
    else this.#shipmentsByOrder.set(shipment.orderId, [shipment]);
  }

  shipmentsOfOrder(orderId: number): readonly StoredShipment[] {
    return this.#shipmentsByOrder.get(orderId) ?? [];
  }

  /** Moves a shipment to another state and stamps the times that go with it. */
  setStatus(shipment: StoredShipment, status: ShipmentStatus, atMs: number): void {
    shipment.status = status;
    const stamp = () => momentAt(atMs, shipment.id * 7_919 + shipment.items.length, this.zone);
    if (status === 'READY_TO_SHIP') shipment.readyToShipOn = stamp();
    if (status !== 'SHIPPED') return;
    shipment.readyToShipOn ??= stamp();
    shipment.shippedOn = stamp();
  }
}
