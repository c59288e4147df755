/** The data that the sandbox keeps for each client. Ids are ascending and never reused. */

import { toDayNumber, toFraction, Zone } from '../zone.ts';
import { Listing, SortedRows } from './listing.ts';
import type {
  Authorization,
  Inbound,
  Order,
  Product,
  ReturnItem,
  Shipment,
  ShipmentStatus,
  Slip,
} from './model.ts';
import type { ServiceLists } from './service-lists.ts';

/** Older shipments and slips are not listed (docs/interface.md, 5.1 Values). */
const listedDays = 90;

/**
 * All rows of one client. A `Listing` holds the rows that its operation may show now, with indexes:
 * change indexed members only within its `change`, or by a method of this class.
 */
export class ClientStore {
  readonly name: string;
  readonly zone: Zone;
  readonly lists: ServiceLists;
  /**
   * Whether answers show members that docs/interface.md does not have, but that clients of similar
   * services read.
   */
  readonly showsExtras: boolean;
  readonly products = new Map<string, Product>();
  readonly listedProducts = new SortedRows<Product>();
  readonly shipments = new SortedRows<Shipment>();
  readonly returnItems = new SortedRows<ReturnItem>();
  readonly slips = new SortedRows<Slip>();
  readonly listedAuthorizations = new Listing<Authorization, 'shipment'>({
    shipment: ({ shipmentId }) => shipmentId,
  });
  readonly authorizations = this.listedAuthorizations.all;
  readonly inboundOfItem = new Map<number, Inbound>();
  readonly orderByNumber = new Map<string, Order>();
  /** Shipments that are shipped and not yet delivered. */
  readonly inDelivery = new SortedRows<Shipment>();
  /** What the last bulk call of stock said of each article, as a text, by sku. */
  readonly toldStock = new Map<string, string>();

  readonly listedOrders = new Listing<Order, 'orderedOn' | 'reference'>({
    orderedOn: ({ orderedOn }) => toDayNumber(orderedOn),
    reference: ({ reference }) => reference,
  });
  readonly orders = this.listedOrders.all;
  readonly listedShipments: Listing<Shipment, 'status' | 'shippedOn' | 'orderType' | 'readyOn'>;
  readonly listedReturnItems = new Listing<ReturnItem, 'processedOn'>({
    processedOn: ({ processedOn }) => processedOn && toDayNumber(processedOn),
  });
  readonly listedInbounds = new Listing<Inbound, 'status'>({ status: ({ status }) => status });
  readonly inbounds = this.listedInbounds.all;
  readonly listedSlips: Listing<Slip, 'status' | 'receivedOn' | 'completedOn' | 'expectedOn'>;
  #sweptUntilDay: number | null = null;

  constructor(name: string, zoneName: string, lists: ServiceLists, showsExtras: boolean) {
    this.name = name;
    this.showsExtras = showsExtras;
    this.zone = new Zone(zoneName);
    this.lists = lists;
    const toDay = (ms: number | null) => (ms === null ? null : this.zone.dayNumber(ms));
    this.listedShipments = new Listing({
      status: ({ status }) => status,
      shippedOn: ({ shippedOnMs }) => toDay(shippedOnMs),
      orderType: ({ orderTypeId }) => orderTypeId,
      readyOn: ({ readyToPickOnMs }) => toDay(readyToPickOnMs),
    });
    this.listedSlips = new Listing({
      status: ({ status }) => status,
      receivedOn: ({ receivedOnMs }) => toDay(receivedOnMs),
      completedOn: ({ completedOnMs }) => toDay(completedOnMs),
      expectedOn: ({ expectedOn }) => toDayNumber(expectedOn),
    });
  }

  addProduct(product: Product): void {
    this.products.set(product.sku, product);
    this.listedProducts.add(product);
  }

  addOrder(order: Order): void {
    this.listedOrders.add(order);
    this.orderByNumber.set(order.externalOrderNumber, order);
  }

  /**
   * Returns the order of an item: the one with the next larger id, because items get their ids
   * right before it.
   */
  findOrderOfItem(itemId: number): Order | undefined {
    const order = this.orders.after(itemId).next().value ?? undefined;
    return order?.items.some(({ id }) => id === itemId) ? order : undefined;
  }

  /** Changes an order and keeps the indexes correct. */
  changeOrder(order: Order, apply: () => void): void {
    this.orderByNumber.delete(order.externalOrderNumber);
    this.listedOrders.change(order, apply);
    this.orderByNumber.set(order.externalOrderNumber, order);
  }

  /** Stores a shipment. Call `showShipment` to list it. */
  addShipment(shipment: Shipment, order: Order): void {
    this.shipments.add(shipment);
    order.shipmentIds = order.shipmentIds.concat(shipment.id);
  }

  /** Lists a shipment, unless it is too old. */
  showShipment(shipment: Shipment, nowMs: number): void {
    if (this.zone.dayNumber(shipment.readyToPickOnMs) >= this.#oldestDay(nowMs))
      this.listedShipments.add(shipment);
  }

  addInbound(inbound: Inbound): void {
    this.listedInbounds.add(inbound);
    for (const { id } of inbound.items) this.inboundOfItem.set(id, inbound);
  }

  /** Stores a slip and lists it, unless it is too old. */
  addSlip(slip: Slip, nowMs: number): void {
    this.slips.add(slip);
    if (toDayNumber(slip.expectedOn) >= this.#oldestDay(nowMs)) this.listedSlips.add(slip);
  }

  listShipments(order: Order): readonly Shipment[] {
    return order.shipmentIds.map((id) => this.shipments.get(id) as Shipment);
  }

  /** Sets the state of a shipment and the times that belong to the state. */
  setStatus(shipment: Shipment, status: ShipmentStatus, atMs: number): void {
    const whenMs = this.zone.skipRepeatedHour(atMs);
    this.listedShipments.change(shipment, () => {
      shipment.status = status;
      if (status === 'READY_TO_SHIP') shipment.readyToShipOnMs = whenMs;
      if (status !== 'SHIPPED') return;
      shipment.readyToShipOnMs ??= whenMs;
      shipment.shippedOnMs = whenMs;
    });
  }

  /** Removes rows from the lists that are too old by `nowMs`. */
  unlistOldRows(nowMs: number): void {
    const oldest = this.#oldestDay(nowMs);
    if (this.#sweptUntilDay === oldest) return;
    this.#sweptUntilDay = oldest;
    const shipments = this.listedShipments.filterByRange('readyOn', null, oldest).sources;
    this.listedShipments.delete(shipments.flatMap((rows) => [...rows]));
    const slips = this.listedSlips.filterByRange('expectedOn', null, oldest).sources;
    this.listedSlips.delete(slips.flatMap((rows) => [...rows]));
  }

  /** Returns the number of the oldest day that lists show. */
  #oldestDay(nowMs: number): number {
    return this.zone.dayNumber(nowMs) - listedDays;
  }
}

/** Returns the digits below the millisecond for the times of a shipment. */
export function toFractions({ id, items }: Shipment): { readyToPickOn: string; later: string } {
  return { readyToPickOn: toFraction(id, 0), later: toFraction(id, items.length) };
}
