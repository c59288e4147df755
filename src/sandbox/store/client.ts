import { minuteMs } from '../../core/time.ts';
import type { Switches, WorldOptions } from '../options.ts';
import { deriveSeed, Random } from '../random.ts';
import { toDayNumber, toDayText, toFraction, Zone } from '../zone.ts';
import { Listing, readRows, SortedRows, type StoredRow } from './listing.ts';
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
import { ServiceLists } from './service-lists.ts';

/** A task of the robot. It is plain data, so that it can be saved in the state file. */
export type Task =
  | { readonly kind: 'take-order' }
  | { readonly kind: 'fulfil'; readonly orderId: number }
  | { readonly kind: 'show'; readonly shipmentId: number }
  | { readonly kind: 'amend'; readonly shipmentId: number }
  | { readonly kind: 'move'; readonly shipmentId: number; readonly path: readonly ShipmentStatus[] }
  | {
      readonly kind: 'track';
      readonly shipmentId: number;
      readonly index: number;
      readonly path: readonly number[];
    }
  | {
      readonly kind: 'send-back';
      readonly shipmentId: number;
      readonly authorizationId: number | null;
    }
  | { readonly kind: 'process-return'; readonly returnItemId: number }
  | { readonly kind: 'restock'; readonly returnItemId: number }
  | { readonly kind: 'truck'; readonly slipId: number | null; readonly isLast: boolean }
  | { readonly kind: 'check-inbound'; readonly inboundId: number }
  | {
      readonly kind: 'count-inbound';
      readonly inboundId: number;
      readonly lines: readonly TruckLine[];
    }
  | { readonly kind: 'complete-inbound'; readonly inboundId: number; readonly isLast: boolean };

export type TaskOf<Kind extends Task['kind']> = Extract<Task, { readonly kind: Kind }>;

/** Goods on a truck. `slipItemId` is null if they were not announced. */
export interface TruckLine {
  readonly sku: string;
  readonly slipItemId: number | null;
  readonly quantity: number;
}

/** A task with its moment of virtual time. */
interface PlannedTask {
  readonly atMs: number;
  readonly task: Task;
}

/** Options of the robot and the rules, for what docs/interface.md leaves open. */
export interface ClientOptions extends Switches {
  readonly ordersPerDay: number;
  readonly lateChanges: boolean;
  /**
   * Whether answers show members that docs/interface.md does not have, but that clients of similar
   * services read.
   */
  readonly showsExtras: boolean;
}

/** Older shipments and slips are not listed (docs/interface.md, 5.1 Values). */
const listedDays = 90;

/**
 * All of one client: its rows, the plans of the robot and its random numbers. A `Listing` holds the
 * rows that its operation may show now: change indexed members only within its `change`, or by a
 * method of this class.
 */
export class Client {
  readonly name: string;
  readonly zone: Zone;
  readonly lists: ServiceLists;
  readonly options: ClientOptions;
  readonly random: Random;
  readonly visibility = new ListVisibility();

  readonly products = new Map<string, Product>();
  readonly orders = new Listing<Order, 'orderedOn' | 'reference'>({
    orderedOn: ({ orderedOn }) => toDayNumber(orderedOn),
    reference: ({ reference }) => reference,
  });
  readonly orderByNumber = new Map<string, Order>();
  readonly shipments = new SortedRows<Shipment>();
  readonly listedShipments = new Listing<
    Shipment,
    'status' | 'shippedOn' | 'orderType' | 'readyOn'
  >({
    status: ({ status }) => status,
    shippedOn: ({ shippedOnMs }) => this.#toDay(shippedOnMs),
    orderType: ({ orderTypeId }) => orderTypeId,
    readyOn: ({ readyToPickOnMs }) => this.#toDay(readyToPickOnMs),
  });
  /** Shipments that are shipped and not yet delivered. */
  readonly inDelivery = new SortedRows<Shipment>();
  readonly authorizations = new Listing<Authorization, 'shipment'>({
    shipment: ({ shipmentId }) => shipmentId,
  });
  readonly returnItems = new SortedRows<ReturnItem>();
  readonly listedReturnItems = new Listing<ReturnItem, 'processedOn'>({
    processedOn: ({ processedOn }) => processedOn && toDayNumber(processedOn),
  });
  readonly inbounds = new Listing<Inbound, 'status'>({ status: ({ status }) => status });
  readonly slips = new SortedRows<Slip>();
  readonly listedSlips = new Listing<Slip, 'status' | 'receivedOn' | 'completedOn' | 'expectedOn'>({
    status: ({ status }) => status,
    receivedOn: ({ receivedOnMs }) => this.#toDay(receivedOnMs),
    completedOn: ({ completedOnMs }) => this.#toDay(completedOnMs),
    expectedOn: ({ expectedOn }) => toDayNumber(expectedOn),
  });
  /** What the last bulk call of stock said of each article, as a text, by sku. */
  readonly toldStock = new Map<string, string>();

  /** Orders that wait for goods. */
  readonly waitingForStock = new Set<number>();
  /** Orders that wait for a day, with that day. A task is planned for it. */
  readonly waitingForDay = new Map<number, string>();
  /** Skus that the robot's shop has reordered and not yet received. */
  readonly onTheWay = new Set<string>();
  /**
   * The planned tasks, the next one last, so that taking it moves no others. Those of the same
   * moment are done in the order in which they were planned.
   */
  readonly #tasks: PlannedTask[] = [];

  /** The names of all clients of the world. */
  readonly #names: readonly string[];
  #lastId = 1_000;
  #sweptUntilDay: string | null = null;

  /** @param options of the world, and those that its switches change for all clients */
  constructor(name: string, world: WorldOptions, options: ClientOptions) {
    const { clients: ownLists, ...lists } = world.lists ?? {};
    this.name = name;
    this.zone = new Zone(world.zone);
    this.lists = new ServiceLists({ ...lists, ...ownLists?.[name] });
    this.options = options;
    this.random = new Random(deriveSeed(world.seed, name));
    this.#names = world.clients;
  }

  #toDay(ms: number | null): number | null {
    return ms === null ? null : this.zone.dayNumber(ms);
  }

  /** Draws the next id. Ids ascend with gaps. No two clients of a world get the same id. */
  nextId(): number {
    this.#lastId += this.random.between(1, 3);
    return this.#lastId * this.#names.length + this.#names.indexOf(this.name);
  }

  /** Plans a task for a moment of virtual time. */
  plan(atMs: number, task: Task): void {
    let [low, high] = [0, this.#tasks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#tasks[middle]?.atMs ?? 0) > atMs) low = middle + 1;
      else high = middle;
    }
    this.#tasks.splice(low, 0, { atMs, task });
  }

  /** Removes and returns the earliest task, unless it is later than `untilMs`. */
  takeTask(untilMs: number): PlannedTask | undefined {
    return (this.#tasks.at(-1)?.atMs ?? Number.POSITIVE_INFINITY) > untilMs
      ? undefined
      : this.#tasks.pop();
  }

  /** Plans to fulfil the orders that wait for stock, because goods have arrived. */
  retryWaitingOrders(atMs: number): void {
    for (const orderId of this.waitingForStock)
      this.plan(atMs + 10 * minuteMs, { kind: 'fulfil', orderId });
    this.waitingForStock.clear();
  }

  addOrder(order: Order): void {
    this.orders.add(order);
    this.orderByNumber.set(order.externalOrderNumber, order);
  }

  /** Changes an order and keeps the indexes correct. */
  changeOrder(order: Order, change: Partial<Order>): void {
    this.orderByNumber.delete(order.externalOrderNumber);
    this.orders.change(order, () => Object.assign(order, change));
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

  /** Lists a shipment, unless it is too old. */
  showShipment(shipment: Shipment, nowMs: number): void {
    if (this.zone.day(shipment.readyToPickOnMs) >= this.#oldestDay(nowMs))
      this.listedShipments.add(shipment);
  }

  /** Stores a slip and lists it, unless it is too old. */
  addSlip(slip: Slip, nowMs: number): void {
    this.slips.add(slip);
    if (slip.expectedOn >= this.#oldestDay(nowMs)) this.listedSlips.add(slip);
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
    const shipments = this.listedShipments.filterByDays('readyOn', undefined, oldest);
    this.listedShipments.delete([...readRows(shipments)].map(({ id }) => id));
    const slips = this.listedSlips.filterByDays('expectedOn', undefined, oldest);
    this.listedSlips.delete([...readRows(slips)].map(({ id }) => id));
  }

  /** Returns the oldest day that lists show. */
  #oldestDay(nowMs: number): string {
    return toDayText(this.zone.dayNumber(nowMs) - listedDays);
  }

  /** All that changes, as plain data. */
  get state() {
    return {
      random: this.random.state,
      lastId: this.#lastId,
      products: [...this.products],
      orders: [...this.orders],
      shipments: [...this.shipments],
      inDelivery: [...this.inDelivery].map(({ id }) => id),
      authorizations: [...this.authorizations],
      returnItems: [...this.returnItems],
      inbounds: [...this.inbounds],
      slips: [...this.slips],
      toldStock: [...this.toldStock],
      waitingForStock: [...this.waitingForStock],
      waitingForDay: [...this.waitingForDay],
      onTheWay: [...this.onTheWay],
      tasks: this.#tasks,
      hidden: [...this.visibility.hiddenUntilMs],
    };
  }

  /** Fills a client that has nothing yet with a saved state. */
  restore(saved: ClientState, nowMs: number): void {
    this.random.state = saved.random;
    this.#lastId = saved.lastId;
    const maps = [this.products, this.toldStock, this.waitingForDay, this.visibility.hiddenUntilMs];
    const entries = [saved.products, saved.toldStock, saved.waitingForDay, saved.hidden];
    for (const [index, map] of maps.entries())
      for (const [key, value] of entries[index] ?? []) map.set(key as never, value as never);

    for (const order of saved.orders) this.addOrder(order);
    for (const shipment of saved.shipments) {
      this.shipments.add(shipment);
      if (shipment.visibleFromMs <= nowMs) this.showShipment(shipment, nowMs);
    }
    for (const id of saved.inDelivery) this.inDelivery.add(this.shipments.get(id) as Shipment);

    for (const authorization of saved.authorizations) this.authorizations.add(authorization);
    for (const row of saved.returnItems) {
      this.returnItems.add(row);
      if (row.processedOn !== null) this.listedReturnItems.add(row);
    }
    for (const inbound of saved.inbounds) this.inbounds.add(inbound);
    for (const slip of saved.slips) this.addSlip(slip, nowMs);

    for (const orderId of saved.waitingForStock) this.waitingForStock.add(orderId);
    for (const sku of saved.onTheWay) this.onTheWay.add(sku);
    for (const planned of saved.tasks) this.#tasks.push(planned);
  }
}
export type ClientState = Client['state'];

/** Returns the digits below the millisecond for the times of a shipment. */
export function toFractions({ id, items }: Shipment): { readyToPickOn: string; later: string } {
  return { readyToPickOn: toFraction(id, 0), later: toFraction(id, items.length) };
}

/** How long writes are kept. Must exceed the largest `lagMs` of a fault. */
const keepWritesMs = 15 * minuteMs;
const maxWrites = 100_000;

interface Write {
  readonly atMs: number;
  readonly key: string;
  /** A copy of the row before the write; null if the write created the row. */
  readonly before: StoredRow | null;
}

/**
 * Decides which rows of a client are visible, in which version. A key names a row by type and id.
 * Lags count real time, in which callers wait.
 */
class ListVisibility {
  /** The virtual time at which a hidden row becomes visible again. */
  readonly hiddenUntilMs = new Map<string, number>();
  #writes: Write[] = [];

  /** Records a write: before a row is changed, or with null after it was created. */
  addWrite(key: string, before: StoredRow | null): void {
    const atMs = performance.now();
    this.#writes.push({ atMs, key, before: before && structuredClone(before) });

    if (this.#writes.length > 2 * maxWrites)
      this.#writes = this.#writes.slice(-maxWrites).filter((old) => old.atMs > atMs - keepWritesMs);
  }

  isHidden(key: string, nowMs: number): boolean {
    return (this.hiddenUntilMs.get(key) ?? 0) > nowMs;
  }

  /** Returns the row as it was `lagMs` ago. Returns null if it did not exist or is hidden. */
  selectVersion<T extends StoredRow>(row: T, key: string, nowMs: number, lagMs: number): T | null {
    if (this.isHidden(key, nowMs)) return null;
    if (lagMs === 0) return row;

    const since = performance.now() - lagMs;
    const first = this.#writes.find((write) => write.atMs > since && write.key === key);
    return first === undefined ? row : (first.before as T | null);
  }
}
