import { minuteMs } from '../../core/time.ts';
import type { Switches, WorldOptions } from '../options.ts';
import { deriveSeed, Random } from '../random.ts';
import { toDayText, Zone } from '../zone.ts';
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
import { createServiceLists, type ServiceLists } from './service-lists.ts';
import { SortedRows, type StoredRow } from './sorted-rows.ts';

/** The tasks of the robot, with their members. They are plain data, so that they can be saved. */
interface TaskMembers {
  'take-order': object;
  fulfil: { readonly orderId: number };
  amend: { readonly shipmentId: number };
  move: { readonly shipmentId: number; readonly path: readonly ShipmentStatus[] };
  track: {
    readonly shipmentId: number;
    readonly index: number;
    readonly path: readonly number[];
  };
  'send-back': { readonly shipmentId: number; readonly authorizationId: number | null };
  'process-return': { readonly returnItemId: number };
  restock: { readonly returnItemId: number };
  truck: { readonly slipId: number | null; readonly isLast: boolean };
  'check-inbound': { readonly inboundId: number };
  'count-inbound': { readonly inboundId: number; readonly lines: readonly TruckLine[] };
  'complete-inbound': { readonly inboundId: number; readonly isLast: boolean };
}
type TaskKind = keyof TaskMembers;
export type TaskOf<Kind extends TaskKind> = { readonly kind: Kind } & TaskMembers[Kind];
type Task = { readonly [Kind in TaskKind]: TaskOf<Kind> }[TaskKind];
/** What the robot does for each task. */
export type Performers = {
  readonly [Kind in TaskKind]: (client: Client, atMs: number, task: TaskOf<Kind>) => void;
};

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

/** All of one client: its rows, the plans of the robot and its random numbers. */
export class Client {
  readonly name: string;
  readonly zone: Zone;
  readonly lists: ServiceLists;
  readonly options: ClientOptions;
  readonly random: Random;
  readonly visibility = new ListVisibility();

  readonly products = new Map<string, Product>();
  readonly orders = new SortedRows<Order>();
  readonly orderByNumber = new Map<string, Order>();
  readonly shipments = new SortedRows<Shipment>();
  readonly authorizations = new SortedRows<Authorization>();
  readonly returnItems = new SortedRows<ReturnItem>();
  readonly inbounds = new SortedRows<Inbound>();
  readonly slips = new SortedRows<Slip>();
  /** What the last bulk call of stock said of each article, as a text, by sku. */
  readonly toldStock = new Map<string, string>();

  /** Orders that wait for goods. */
  readonly waitingForStock = new Set<number>();
  /**
   * The planned tasks, the next one last, so that taking it moves no others. Those of the same
   * moment are done in the order in which they were planned.
   */
  readonly #tasks: PlannedTask[] = [];

  /** The names of all clients of the world. */
  readonly #names: readonly string[];
  #lastId = 1_000;

  /** @param options of the world, and those that its switches change for all clients */
  constructor(name: string, world: WorldOptions, options: ClientOptions) {
    const { clients: ownLists, ...lists } = world.lists ?? {};
    this.name = name;
    this.zone = new Zone(world.zone);
    this.lists = createServiceLists({ ...lists, ...ownLists?.[name] });
    this.options = options;
    this.random = new Random(deriveSeed(world.seed, name));
    this.#names = world.clients;
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

  changeOrder(order: Order, change: Partial<Order>): void {
    this.orderByNumber.delete(order.externalOrderNumber);
    Object.assign(order, change);
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

  /** Returns a shipment, unless it is not visible yet. */
  findShipment(id: number, nowMs: number): Shipment | undefined {
    const known = this.shipments.get(id);
    return known !== undefined && known.visibleFromMs <= nowMs ? known : undefined;
  }

  listShipments(order: Order): readonly Shipment[] {
    return order.shipmentIds.map((id) => this.shipments.get(id) as Shipment);
  }

  /** Sets the state of a shipment and the times that belong to the state. */
  setStatus(shipment: Shipment, status: ShipmentStatus, atMs: number): void {
    const whenMs = this.zone.skipRepeatedHour(atMs);
    shipment.status = status;
    if (status === 'READY_TO_SHIP') shipment.readyToShipOnMs = whenMs;
    if (status !== 'SHIPPED') return;

    shipment.readyToShipOnMs ??= whenMs;
    shipment.shippedOnMs = whenMs;
  }

  /** Returns a test for the shipments that lists show: the visible ones that are not too old. */
  createShipmentTest(nowMs: number): (shipment: Shipment) => boolean {
    const oldest = this.zone.dayNumber(nowMs) - listedDays;
    return ({ visibleFromMs, readyToPickOnMs }) =>
      visibleFromMs <= nowMs && this.zone.dayNumber(readyToPickOnMs) >= oldest;
  }

  /** Returns a test for the slips that lists show: those that are not too old. */
  createSlipTest(nowMs: number): (slip: Slip) => boolean {
    const oldest = toDayText(this.zone.dayNumber(nowMs) - listedDays);
    return ({ expectedOn }) => expectedOn >= oldest;
  }

  /** All that changes, as plain data. */
  get state() {
    return {
      random: this.random.state,
      lastId: this.#lastId,
      products: [...this.products],
      orders: [...this.orders],
      shipments: [...this.shipments],
      authorizations: [...this.authorizations],
      returnItems: [...this.returnItems],
      inbounds: [...this.inbounds],
      slips: [...this.slips],
      toldStock: [...this.toldStock],
      waitingForStock: [...this.waitingForStock],
      tasks: this.#tasks,
      hidden: [...this.visibility.hiddenUntilMs],
    };
  }

  /** Fills a client that has nothing yet with a saved state. */
  restore(saved: ClientState): void {
    this.random.state = saved.random;
    this.#lastId = saved.lastId;
    for (const planned of saved.tasks) this.#tasks.push(planned);
    for (const order of saved.orders) this.addOrder(order);

    const fillRows = ['shipments', 'authorizations', 'returnItems', 'inbounds', 'slips'] as const;
    for (const name of fillRows) for (const row of saved[name]) this[name].add(row as never);
    for (const [sku, product] of saved.products) this.products.set(sku, product);
    for (const [sku, told] of saved.toldStock) this.toldStock.set(sku, told);
    for (const id of saved.waitingForStock) this.waitingForStock.add(id);
    for (const [id, untilMs] of saved.hidden) this.visibility.hiddenUntilMs.set(id, untilMs);
  }
}
type ClientState = Client['state'];

/** How long writes are kept. Must exceed the largest `lagMs` of a fault. */
const keepWritesMs = 15 * minuteMs;
const maxWrites = 100_000;

interface Write {
  readonly atMs: number;
  readonly id: number;
  /** A copy of the row before the write; null if the write created the row. */
  readonly before: StoredRow | null;
}

/**
 * Decides which rows of a client are visible, in which version. No two rows have the same id. Lags
 * count real time, in which callers wait.
 */
class ListVisibility {
  /** The virtual time at which a hidden row becomes visible again, by id. */
  readonly hiddenUntilMs = new Map<number, number>();
  #writes: Write[] = [];

  /** Records a write: before a row is changed, or with null after it was created. */
  addWrite(id: number, before: StoredRow | null): void {
    const atMs = performance.now();
    this.#writes.push({ atMs, id, before: before && structuredClone(before) });

    if (this.#writes.length > 2 * maxWrites)
      this.#writes = this.#writes.slice(-maxWrites).filter((old) => old.atMs > atMs - keepWritesMs);
  }

  isHidden({ id }: StoredRow, nowMs: number): boolean {
    return (this.hiddenUntilMs.get(id) ?? 0) > nowMs;
  }

  /** Returns the row as it was `lagMs` ago. Returns null if it did not exist or is hidden. */
  selectVersion<T extends StoredRow>(row: T, nowMs: number, lagMs: number): T | null {
    if (this.isHidden(row, nowMs)) return null;
    if (lagMs === 0) return row;

    const since = performance.now() - lagMs;
    const first = this.#writes.find((write) => write.atMs > since && write.id === row.id);
    return first === undefined ? row : (first.before as T | null);
  }
}
