import { minuteMs } from '../../core/time.ts';
import type { Switches, WorldOptions } from '../options.ts';
import type { Random } from '../random.ts';
import type { ClientStore } from './client-store.ts';
import type { ShipmentStatus } from './model.ts';

/**
 * A task of the robot at one moment. It is plain data, so that it can be saved in the state file.
 */
export type Task =
  | { readonly kind: 'take-order' }
  | { readonly kind: 'fulfil'; readonly orderId: number }
  | { readonly kind: 'show'; readonly shipmentId: number }
  | { readonly kind: 'move'; readonly shipmentId: number; readonly path: readonly ShipmentStatus[] }
  | { readonly kind: 'amend'; readonly shipmentId: number }
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
export interface PlannedTask {
  readonly atMs: number;
  /** Order among the tasks of the same moment. */
  readonly place: number;
  readonly task: Task;
}

/** Options of the robot and the rules, for what docs/interface.md leaves open. */
export type SimulationOptions = Required<Pick<WorldOptions, 'ordersPerDay' | 'lateChanges'>> &
  Pick<Switches, 'unknownProducts' | 'repeatedReturnLines' | 'repeatedNumbers'>;

/** The state of a simulation without its rows and its agenda. */
export interface SimulationState {
  readonly random: number;
  readonly lastId: number;
  readonly place: number;
  readonly waitingForStock: readonly number[];
  readonly waitingForDay: readonly (readonly [number, string])[];
  readonly onTheWay: readonly string[];
  readonly inDelivery: readonly number[];
}

/** The simulated business of one client: its rows, its planned tasks and its random numbers. */
export class Simulation {
  readonly store: ClientStore;
  readonly random: Random;
  readonly ids: Ids;
  readonly agenda = new Agenda();
  /** Orders that wait for goods. */
  readonly waitingForStock = new Set<number>();
  /** Orders that wait for a day, with that day. A task is planned for it. */
  readonly waitingForDay = new Map<number, string>();
  /** Skus that the robot's shop has reordered and not yet received. */
  readonly onTheWay = new Set<string>();
  readonly options: SimulationOptions;
  /** Place of the next planned task among the tasks of the same moment. */
  place = 0;

  constructor(store: ClientStore, random: Random, ids: Ids, options: SimulationOptions) {
    this.store = store;
    this.random = random;
    this.ids = ids;
    this.options = options;
  }

  /** Plans a task for a moment of virtual time. */
  plan(atMs: number, task: Task): void {
    this.agenda.push({ atMs, place: this.place++, task });
  }

  /** Restores a saved state. The rows must have been restored before. */
  restore(saved: SimulationState): void {
    this.random.state = saved.random;
    this.ids.last = saved.lastId;
    this.place = saved.place;
    for (const orderId of saved.waitingForStock) this.waitingForStock.add(orderId);
    for (const [orderId, day] of saved.waitingForDay) this.waitingForDay.set(orderId, day);
    for (const sku of saved.onTheWay) this.onTheWay.add(sku);
    const { shipments, inDelivery } = this.store;
    for (const shipment of saved.inDelivery.flatMap((id) => shipments.get(id) ?? []))
      inDelivery.add(shipment);
  }

  /** The state without the rows and the agenda. */
  get state(): SimulationState {
    return {
      random: this.random.state,
      lastId: this.ids.last,
      place: this.place,
      waitingForStock: [...this.waitingForStock],
      waitingForDay: [...this.waitingForDay],
      onTheWay: [...this.onTheWay],
      inDelivery: [...this.store.inDelivery].map(({ id }) => id),
    };
  }

  /** Plans to fulfil the orders that wait for stock, because goods have arrived. */
  retryWaitingOrders(atMs: number): void {
    for (const orderId of this.waitingForStock)
      this.plan(atMs + 10 * minuteMs, { kind: 'fulfil', orderId });
    this.waitingForStock.clear();
  }
}

/** Draws ascending ids with gaps. No two clients of a world get the same id. */
export class Ids {
  readonly #random: Random;
  readonly #position: { readonly index: number; readonly count: number };
  /** The last drawn number. */
  last = 1_000;

  /** @param position of the client among the clients of the world */
  constructor(random: Random, position: { readonly index: number; readonly count: number }) {
    this.#random = random;
    this.#position = position;
  }

  next(): number {
    this.last += this.#random.between(1, 3);
    return this.last * this.#position.count + this.#position.index;
  }
}

/** The planned tasks. */
class Agenda {
  /** The earliest task is the last one, so that taking it moves no others. */
  readonly tasks: PlannedTask[] = [];

  /** Removes and returns the earliest task, unless it is later than `untilMs`. */
  take(untilMs: number): PlannedTask | undefined {
    const earliest = this.tasks.at(-1);
    return earliest === undefined || earliest.atMs > untilMs ? undefined : this.tasks.pop();
  }

  push(planned: PlannedTask): void {
    let [low, high] = [0, this.tasks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const { atMs, place } = this.tasks[middle] as PlannedTask;
      if (atMs > planned.atMs || (atMs === planned.atMs && place > planned.place)) low = middle + 1;
      else high = middle;
    }
    this.tasks.splice(low, 0, planned);
  }
}
