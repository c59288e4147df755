import { Agenda, type Timed } from './heap.ts';
import { Maker } from './make.ts';
import { Random } from './random.ts';
import type { ClientStore, ShipmentStatus, StoredOrder, StoredShipment } from './store.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

interface Step extends Timed {
  readonly run: (atMs: number) => void;
}

/**
 * Plays shop and warehouse in virtual time: orders come in, leave in one or several shipments, and those move on, some
 * by way of ERROR, some visible late. What happens depends on the seed and
 * on the moments themselves, not on the spans in which time is advanced.
 */
export class Robot {
  readonly maker: Maker;
  readonly #store: ClientStore;
  readonly #random: Random;
  readonly #agenda = new Agenda<Step>();
  #place = 0;

  constructor(store: ClientStore, seed: number, startMs: number) {
    this.#store = store;
    this.#random = new Random(seed);
    this.maker = new Maker(store, this.#random);
    this.#plan(startMs, (atMs) => this.#takeOrder(atMs));
  }

  /** Does everything that is due until `nowMs`. */
  runUntil(nowMs: number): void {
    for (let step = this.#agenda.peek(); step !== undefined && step.atMs <= nowMs; step = this.#agenda.peek()) {
      this.#agenda.pop();
      step.run(step.atMs);
    }
  }

  #plan(atMs: number, run: Step['run']): void {
    this.#agenda.push({ atMs, place: this.#place++, run });
  }

  #takeOrder(atMs: number): void {
    const random = this.#random;
    const order = this.maker.order(atMs, 4);
    const parts = order.items.length > 1 && random.chance(0.25) ? 2 : 1;
    for (let index = 0; index < parts; index++) {
      const delayMs = random.between(5, 60) * minuteMs + index * hourMs;
      this.#plan(atMs + delayMs, (when) => this.#makeShipment(order, when, [index, parts]));
    }
    this.#plan(atMs + random.between(2, 40) * minuteMs, (when) => this.#takeOrder(when));
  }

  #makeShipment(order: StoredOrder, atMs: number, parts: readonly [number, number]): void {
    const random = this.#random;
    const lateMs = random.chance(0.03) ? random.between(2, 30) * hourMs : 0;
    const shipment = this.maker.shipment(order, atMs, atMs + lateMs, parts);
    const path: ShipmentStatus[] = random.chance(0.5) ? ['READY_TO_SORT', 'READY_TO_SHIP'] : ['READY_TO_SHIP'];
    if (random.chance(0.04)) path.unshift('ERROR');
    this.#move(shipment, [...path, 'SHIPPED'], atMs + lateMs);
  }

  #move(shipment: StoredShipment, path: readonly ShipmentStatus[], fromMs: number): void {
    const random = this.#random;
    const [status, ...rest] = path;
    if (status === undefined) return;
    // Out of ERROR it takes a person, and so days rather than hours.
    const waitMs = shipment.status === 'ERROR' ? random.between(24, 72) * hourMs : random.between(20, 300) * minuteMs;
    this.#plan(fromMs + waitMs, (atMs) => {
      this.#store.setStatus(shipment, status, atMs);
      this.#move(shipment, rest, atMs);
    });
  }
}
