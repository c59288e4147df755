/**
 * What the sandbox keeps of each client. Ids rise, and are never given out twice.
 */

import { dayNumberOf, fractionOf, Zone } from '../times.ts';
import { Listing } from './listing.ts';
import type { Authorization, Inbound, Order, Product, ReturnItem, Shipment, ShipmentStatus, Slip } from './model.ts';
import { SortedRows } from './sorted-rows.ts';

/** Shipments and slips older than this are not listed (interface.md, Limits). */
const listedDays = 90;

const dayOrNull = (day: string | null) => (day === null ? null : dayNumberOf(day));

/**
 * All that one client of the sandbox has. Tables hold every row; listings hold what list operations may show at the
 * moment, and are kept true by the methods here: rows in them are changed through `change…` only.
 */
export class ClientStore {
  readonly name: string;
  readonly zone: Zone;
  readonly products = new Map<string, Product>();
  readonly productByBarcode = new Map<string, Product>();
  readonly shipments = new SortedRows<Shipment>();
  readonly returnItems = new SortedRows<ReturnItem>();
  readonly slips = new SortedRows<Slip>();
  readonly listedAuthorizations = new Listing<Authorization, 'shipment'>({ shipment: ({ shipmentId }) => shipmentId });
  readonly inboundOfItem = new Map<number, Inbound>();
  readonly orderByNumber = new Map<string, Order>();
  /** Shipped, and not delivered so far. */
  readonly inDelivery = new SortedRows<Shipment>();

  readonly listedOrders = new Listing<Order, 'orderedOn' | 'reference'>({
    orderedOn: ({ orderedOn }) => dayNumberOf(orderedOn),
    reference: ({ reference }) => reference,
  });
  readonly listedShipments: Listing<Shipment, 'status' | 'shippedOn' | 'orderType' | 'readyOn'>;
  readonly listedReturnItems = new Listing<ReturnItem, 'processedOn'>({
    processedOn: ({ processedOn }) => dayOrNull(processedOn),
  });
  readonly listedInbounds = new Listing<Inbound, 'status'>({ status: ({ status }) => status });
  readonly listedSlips: Listing<Slip, 'status' | 'receivedOn' | 'completedOn' | 'expectedOn'>;
  #sweptUntilDay: number | null = null;

  constructor(name: string, zoneName: string) {
    this.name = name;
    this.zone = new Zone(zoneName);
    const dayOf = (ms: number | null) => (ms === null ? null : this.zone.dayNumber(ms));
    this.listedShipments = new Listing({
      status: ({ status }) => status,
      shippedOn: ({ shippedOnMs }) => dayOf(shippedOnMs),
      orderType: ({ orderTypeId }) => orderTypeId,
      readyOn: ({ readyToPickOnMs }) => dayOf(readyToPickOnMs),
    });
    this.listedSlips = new Listing({
      status: ({ status }) => status,
      receivedOn: ({ receivedOnMs }) => dayOf(receivedOnMs),
      completedOn: ({ completedOnMs }) => dayOf(completedOnMs),
      expectedOn: ({ expectedOn }) => dayNumberOf(expectedOn),
    });
  }

  get orders(): SortedRows<Order> {
    return this.listedOrders.all;
  }

  get authorizations(): SortedRows<Authorization> {
    return this.listedAuthorizations.all;
  }

  get inbounds(): SortedRows<Inbound> {
    return this.listedInbounds.all;
  }

  addProduct(product: Product): void {
    this.products.set(product.sku, product);
    if (product.barcode !== null) this.productByBarcode.set(product.barcode, product);
  }

  addOrder(order: Order): void {
    this.listedOrders.add(order);
    this.orderByNumber.set(order.externalOrderNumber, order);
  }

  /** The order that an item belongs to: the next one, as the ids of items are drawn right before that of their order. */
  orderOfItem(itemId: number): Order | undefined {
    const order = this.orders.after(itemId).next().value ?? undefined;
    return order?.items.some(({ id }) => id === itemId) ? order : undefined;
  }

  changeOrder(order: Order, apply: () => void): void {
    this.orderByNumber.delete(order.externalOrderNumber);
    this.listedOrders.change(order, apply);
    this.orderByNumber.set(order.externalOrderNumber, order);
  }

  /** Takes in a shipment; `showShipment` puts it on the list. */
  addShipment(shipment: Shipment, order: Order): void {
    this.shipments.add(shipment);
    // A list that is spread out is given room for sixteen more.
    order.shipmentIds = order.shipmentIds.concat(shipment.id);
  }

  showShipment(shipment: Shipment, nowMs: number): void {
    if (this.zone.dayNumber(shipment.readyToPickOnMs) >= this.#oldestDay(nowMs)) this.listedShipments.add(shipment);
  }

  addInbound(inbound: Inbound): void {
    this.listedInbounds.add(inbound);
    for (const { id } of inbound.items) this.inboundOfItem.set(id, inbound);
  }

  addSlip(slip: Slip, nowMs: number): void {
    this.slips.add(slip);
    if (dayNumberOf(slip.expectedOn) >= this.#oldestDay(nowMs)) this.listedSlips.add(slip);
  }

  shipmentsOf(order: Order): readonly Shipment[] {
    return order.shipmentIds.map((id) => this.shipments.get(id) as Shipment);
  }

  /** Moves a shipment to another state and stamps the times that go with it. */
  setStatus(shipment: Shipment, status: ShipmentStatus, atMs: number): void {
    const whenMs = this.zone.clear(atMs);
    this.listedShipments.change(shipment, () => {
      shipment.status = status;
      if (status === 'READY_TO_SHIP') shipment.readyToShipOnMs = whenMs;
      if (status !== 'SHIPPED') return;
      shipment.readyToShipOnMs ??= whenMs;
      shipment.shippedOnMs = whenMs;
    });
  }

  /** Takes off the lists what has become too old for them by `nowMs`. */
  sweep(nowMs: number): void {
    const oldest = this.#oldestDay(nowMs);
    if (this.#sweptUntilDay === oldest) return;
    this.#sweptUntilDay = oldest;
    for (const rows of this.listedShipments.between('readyOn', null, oldest).sources ?? [])
      for (const shipment of [...rows]) this.listedShipments.delete(shipment);
    for (const rows of this.listedSlips.between('expectedOn', null, oldest).sources ?? [])
      for (const slip of [...rows]) this.listedSlips.delete(slip);
  }

  /** The first day that lists still show. */
  #oldestDay(nowMs: number): number {
    return this.zone.dayNumber(nowMs) - listedDays;
  }
}

/** Fractions of a second of a shipment's three times. */
export function fractionsOf({ id, items }: Shipment): { readyToPickOn: string; later: string } {
  return { readyToPickOn: fractionOf(id, 0), later: fractionOf(id, items.length) };
}
