/**
 * The sandbox: a stand-in for the whole service, with a robot as its warehouse. It never imports src/warehouse, so
 * that two readings of the interface meet.
 */

import { randomBytes } from 'node:crypto';
import { VirtualClock } from './clock.ts';
import { Faults } from './faults.ts';
import { type Switches, switchesSchema } from './paging.ts';
import { Random, seedFor } from './random.ts';
import { badParameter, Refusal } from './refusal.ts';
import { RequestLog } from './request-log.ts';
import { begin, liveUntil } from './robot/robot.ts';
import { Sight } from './sight.ts';
import { firstProducts } from './store/catalogue.ts';
import { ClientStore } from './store/client-store.ts';
import { Ids } from './store/ids.ts';
import { type Habits, Life } from './store/life.ts';

export interface WorldOptions {
  readonly clients: readonly string[];
  readonly seed: number;
  /** Virtual seconds a second. */
  readonly speed: number;
  /** Virtual time at the beginning, in milliseconds since 1970. */
  readonly startMs: number;
  /** Zone of the warehouses' clocks. */
  readonly zone: string;
  /** How many orders a day the robot's own shop takes for each client. */
  readonly ordersPerDay: number;
  /** Whether the robot also does what polls cannot see: changes after SHIPPED, shipments visible only when SHIPPED. */
  readonly lateChanges?: boolean | undefined;
}

/** What a world was when it was saved. */
export interface Left {
  readonly nowMs: number;
  readonly switches: Switches;
  readonly started: WorldOptions;
}

/** One client, and what it is kept from seeing. */
export interface Inhabitant {
  readonly life: Life;
  readonly sight: Sight;
}

/** More are kept only as long as they are valid. */
const tokensKept = 1_000;

/** Everything the sandbox knows. Each client sees its own part alone. */
export class World {
  readonly log = new RequestLog();
  /** What it was first started with, whatever a reset has changed. */
  readonly started: WorldOptions;
  #options: WorldOptions;
  #clock: VirtualClock;
  #inhabitants: Map<string, Inhabitant>;
  #tokens = new Map<string, { client: string; expiresAtMs: number }>();
  #switches: Switches;
  #habits: Habits;
  faults: Faults;
  /** Counts what may have changed the state, so that it is saved when it did. */
  changes = 0;
  /** Counts how often the world began anew. */
  beginnings = 0;

  /** @param left what a world was when it was saved; its clients are empty, for `asLeft` to fill */
  constructor(options: WorldOptions, left?: Left) {
    this.#options = options;
    this.started = left?.started ?? options;
    this.#clock = new VirtualClock(left?.nowMs ?? options.startMs, options.speed);
    this.#switches = left?.switches ?? switchesSchema.parse({});
    this.#habits = habitsOf(options, this.#switches);
    this.#inhabitants = settle(options, this.#habits, left === undefined);
    this.faults = new Faults(new Random(options.seed));
  }

  /** Starts over: another seed, an empty store, no faults, no tokens, all switches as they are by default. */
  reset(options: Partial<WorldOptions> = {}): void {
    this.beginnings++;
    this.#options = { ...this.#options, ...options };
    this.#clock = new VirtualClock(this.#options.startMs, this.#options.speed);
    this.#switches = switchesSchema.parse({});
    this.#habits = habitsOf(this.#options, this.#switches);
    this.#inhabitants = settle(this.#options, this.#habits, true);
    this.#tokens.clear();
    this.faults = new Faults(new Random(this.#options.seed));
    this.log.clear();
  }

  get options(): WorldOptions {
    return this.#options;
  }

  get clock(): VirtualClock {
    return this.#clock;
  }

  get switches(): Switches {
    return this.#switches;
  }

  set switches(switches: Switches) {
    this.#switches = switches;
    Object.assign(this.#habits, habitsOf(this.#options, switches));
  }

  get clientNames(): string[] {
    return [...this.#inhabitants.keys()];
  }

  /** One client's part, brought up to the present. Undefined for a client that does not exist. */
  client(name: string): Inhabitant | undefined {
    const inhabitant = this.#inhabitants.get(name);
    if (inhabitant === undefined) return undefined;
    const nowMs = this.#clock.nowMs();
    liveUntil(inhabitant.life, nowMs);
    inhabitant.life.store.sweep(nowMs);
    return inhabitant;
  }

  /** As `client`. @throws Refusal that names the clients there are */
  resident(name: string): Inhabitant {
    const found = this.client(name);
    if (found === undefined) throw badParameter('client', `is not one of ${this.clientNames.join(', ')}`);
    return found;
  }

  /** One client's part as it was left, for whoever puts back what was saved. */
  asLeft(name: string): Inhabitant {
    const found = this.#inhabitants.get(name);
    if (found === undefined) throw new Error(`there is no client ${name}`);
    return found;
  }

  /**
   * Gives out a token (interface.md, Token response). Its life is real time, so that fast virtual days do not drown in
   * renewals. @throws Refusal where name or password is wrong
   */
  grantToken(username: string, password: string): Record<string, unknown> {
    // Each client's name is its password, too.
    if (!this.#inhabitants.has(username) || password !== username)
      throw new Refusal(400, 'The user name or password is incorrect.');
    if (this.#tokens.size >= tokensKept) this.#dropExpiredTokens();
    const token = randomBytes(24).toString('base64url');
    const { tokenSeconds } = this.#switches;
    this.#tokens.set(token, { client: username, expiresAtMs: performance.now() + tokenSeconds * 1_000 });
    const nowMs = this.#clock.nowMs();
    return {
      access_token: token,
      token_type: 'bearer',
      expires_in: tokenSeconds,
      userName: username,
      issued: new Date(nowMs).toUTCString(),
      expires: new Date(nowMs + tokenSeconds * 1_000).toUTCString(),
    };
  }

  /** The client a token belongs to, null where it is invalid or expired. */
  clientOfToken(token: string): string | null {
    const known = this.#tokens.get(token);
    if (known === undefined) return null;
    if (performance.now() < known.expiresAtMs) return known.client;
    this.#tokens.delete(token);
    return null;
  }

  #dropExpiredTokens(): void {
    const nowMs = performance.now();
    for (const [token, { expiresAtMs }] of this.#tokens) if (expiresAtMs <= nowMs) this.#tokens.delete(token);
  }

  expireTokens(): void {
    this.#tokens.clear();
  }
}

function habitsOf(options: WorldOptions, { unknownProducts, repeatedReturnLines, repeatedNumbers }: Switches): Habits {
  const { ordersPerDay, lateChanges = false } = options;
  return { ordersPerDay, lateChanges, unknownProducts, repeatedReturnLines, repeatedNumbers };
}

function settle(
  { clients, seed, startMs, zone }: WorldOptions,
  habits: Habits,
  isNew: boolean,
): Map<string, Inhabitant> {
  const inhabitants = clients.map((name, index): [string, Inhabitant] => {
    const random = new Random(seedFor(seed, name));
    const ids = new Ids(random, { index, count: clients.length });
    const life = new Life(new ClientStore(name, zone), random, ids, habits);
    if (isNew) {
      for (const product of firstProducts(ids)) life.store.addProduct(product);
      begin(life, startMs);
    }
    return [name, { life, sight: new Sight() }];
  });
  return new Map(inhabitants);
}
