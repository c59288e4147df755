import { minuteMs } from '../../core/time.ts';
import type { Random } from '../random.ts';
import { Agenda, type Timed } from './agenda.ts';
import type { ClientStore } from './client-store.ts';
import type { Ids } from './ids.ts';
import type { ShipmentStatus } from './model.ts';

/** What the robot does at one moment. Plain data, so that a state file can hold it. */
export type Task =
  | { readonly kind: 'take-order' }
  | { readonly kind: 'fulfil'; readonly orderId: number }
  | { readonly kind: 'show'; readonly shipmentId: number }
  | { readonly kind: 'move'; readonly shipmentId: number; readonly path: readonly ShipmentStatus[] }
  | { readonly kind: 'amend'; readonly shipmentId: number }
  | { readonly kind: 'track'; readonly shipmentId: number; readonly index: number; readonly path: readonly number[] }
  | { readonly kind: 'send-back'; readonly shipmentId: number; readonly authorizationId: number | null }
  | { readonly kind: 'process-return'; readonly returnItemId: number }
  | { readonly kind: 'restock'; readonly returnItemId: number }
  | { readonly kind: 'truck'; readonly slipId: number | null; readonly isLast: boolean }
  | { readonly kind: 'check-inbound'; readonly inboundId: number }
  | { readonly kind: 'count-inbound'; readonly inboundId: number; readonly lines: readonly Line[] }
  | { readonly kind: 'complete-inbound'; readonly inboundId: number; readonly isLast: boolean };

/** Goods on a truck: which line of a slip (null: unannounced) and how many. */
export interface Line {
  readonly sku: string;
  readonly slipItemId: number | null;
  readonly quantity: number;
}

export type Step = Timed & { readonly task: Task };

/** How the sandbox behaves where the interface leaves it open, as far as it concerns the robot and the rules. */
export interface Habits {
  /** How many orders a day the robot's own shop takes; 0: none. */
  ordersPerDay: number;
  /** Whether shipments change after SHIPPED, and some become visible only then. */
  lateChanges: boolean;
  /** Whether an order may name a product the service does not know. */
  unknownProducts: 'create' | 'refuse';
  /** Whether several lines of a return authorization may refer to the same shipment item. */
  repeatedReturnLines: boolean;
  /** Whether an order may have the number of another. */
  repeatedNumbers: boolean;
}

/** What the robot's shop takes unless it is told otherwise. */
export const usualOrdersPerDay = 68;

/** Where a life stands, beside its rows and its agenda. */
export interface LifeState {
  readonly random: number;
  readonly lastId: number;
  readonly place: number;
  readonly waitingForStock: readonly number[];
  readonly waitingForDay: readonly (readonly [number, string])[];
  readonly onTheWay: readonly string[];
  readonly inDelivery: readonly number[];
}

/** One client's days: what there is, what is going to happen, and chance. */
export class Life {
  readonly store: ClientStore;
  readonly random: Random;
  readonly ids: Ids;
  readonly agenda = new Agenda<Step>();
  /** Orders that wait for goods. */
  readonly waitingForStock = new Set<number>();
  /** Orders that wait for a day, and have a step planned for it. */
  readonly waitingForDay = new Map<number, string>();
  /** Skus that the robot's shop has ordered anew. */
  readonly onTheWay = new Set<string>();
  readonly habits: Habits;
  /** Place of the next step among those of one moment. */
  place = 0;

  constructor(store: ClientStore, random: Random, ids: Ids, habits: Habits) {
    this.store = store;
    this.random = random;
    this.ids = ids;
    this.habits = habits;
  }

  plan(atMs: number, task: Task): void {
    this.agenda.push({ atMs, place: this.place++, task });
  }

  /** Goes on where another life was left; its rows are there already. */
  resume(left: LifeState): void {
    this.random.state = left.random;
    this.ids.last = left.lastId;
    this.place = left.place;
    for (const orderId of left.waitingForStock) this.waitingForStock.add(orderId);
    for (const [orderId, day] of left.waitingForDay) this.waitingForDay.set(orderId, day);
    for (const sku of left.onTheWay) this.onTheWay.add(sku);
    for (const id of left.inDelivery) {
      const shipment = this.store.shipments.get(id);
      if (shipment !== undefined) this.store.inDelivery.add(shipment);
    }
  }

  /** Where this life stands, beside its rows. */
  get state(): LifeState {
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

  /** Goods have come in: whoever waits for some is looked at again. */
  wakeWaiting(atMs: number): void {
    for (const orderId of this.waitingForStock) this.plan(atMs + 10 * minuteMs, { kind: 'fulfil', orderId });
    this.waitingForStock.clear();
  }
}
