/**
 * The sandbox: a stand-in for the service. It shares no code with src/service, so that tests
 * compare the two.
 */

import { randomBytes } from 'node:crypto';
import { Faults } from './faults.ts';
import { Findings } from './findings.ts';
import {
  type Dialect,
  parseSwitches,
  type Strictness,
  type Switches,
  type WorldOptions,
} from './options.ts';
import { deriveSeed, Random } from './random.ts';
import { badParameter, Refusal } from './refusal.ts';
import { RequestLog } from './request-log.ts';
import { planFirstDay, simulateUntil } from './robot/robot.ts';
import { createFirstProducts } from './rules/products.ts';
import { ClientStore } from './store/client-store.ts';
import type { StoredRow } from './store/listing.ts';
import { ServiceLists } from './store/service-lists.ts';
import { Ids, Simulation, type SimulationOptions } from './store/simulation.ts';

/** The part of a saved world that belongs to no client. */
interface SavedWorld {
  readonly nowMs: number;
  readonly switches: Switches;
  readonly started: WorldOptions;
}

/** The simulation of one client, and what its lists show of it. */
export interface SandboxClient {
  readonly simulation: Simulation;
  readonly visibility: ListVisibility;
}

/** All data of the sandbox. Each client sees only its own part. */
export class World {
  readonly log = new RequestLog();
  readonly findings = new Findings();
  readonly strict: boolean;
  readonly #firstDialect: Dialect | undefined;
  /** The options of the first start. A reset does not change them. */
  readonly started: WorldOptions;
  // A reset replaces these.
  options!: WorldOptions;
  clock!: VirtualClock;
  faults!: Faults;
  switches!: Switches;
  /** Changed in place, because all clients share it. */
  #simulationOptions!: SimulationOptions;
  #clients!: ReadonlyMap<string, SandboxClient>;
  #tokens = new Map<string, { client: string; expiresAtMs: number }>();
  /**
   * Number of calls that may have changed the state. The state is saved only if this number has
   * grown.
   */
  changes = 0;
  /** Number of resets. */
  resets = 0;

  /**
   * Creates a world. If it continues a saved one, its clients are empty, and the caller fills them.
   */
  constructor(
    options: WorldOptions,
    { strict = false, dialect }: Strictness = {},
    saved?: SavedWorld,
  ) {
    this.strict = strict;
    this.#firstDialect = dialect;
    this.started = saved?.started ?? options;
    this.#begin(options, saved);
  }

  #begin(options: WorldOptions, saved?: SavedWorld): void {
    const dialect = this.#firstDialect;
    this.options = options;
    this.clock = new VirtualClock(saved?.nowMs ?? options.startMs, options.speed);
    this.faults = new Faults(new Random(options.seed));
    this.switches = saved
      ? { ...saved.switches, ...(dialect && { dialect }) }
      : parseSwitches({}, options, dialect);
    this.#simulationOptions = toSimulationOptions(options, this.switches);
    const content = { isNew: saved === undefined, showsExtras: !this.strict };
    this.#clients = createClients(options, this.#simulationOptions, content);
  }

  /**
   * Starts over with new clients, no faults, no tokens, no logged requests, no findings and the
   * first switches.
   */
  reset(options: Partial<WorldOptions> = {}): void {
    this.resets++;
    this.#begin({ ...this.options, ...options });
    this.#tokens.clear();
    this.log.clear();
    this.findings.clear();
  }

  /** Sets all switches. Those that are left out get their defaults. */
  setSwitches(given: unknown): void {
    this.switches = parseSwitches(given, this.options, this.#firstDialect);
    Object.assign(this.#simulationOptions, toSimulationOptions(this.options, this.switches));
  }

  get clientNames(): string[] {
    return [...this.#clients.keys()];
  }

  /** Simulates a client up to the present and returns it. */
  requireClient(name: string): SandboxClient {
    const client = this.getUnadvancedClient(name);
    const nowMs = this.clock.nowMs();
    simulateUntil(client.simulation, nowMs);
    client.simulation.store.unlistOldRows(nowMs);
    return client;
  }

  /** Returns a client without simulating it up to the present. Saving and loading use this. */
  getUnadvancedClient(name: string): SandboxClient {
    const found = this.#clients.get(name);
    if (found === undefined)
      throw badParameter('client', `is not one of ${this.clientNames.join(', ')}`);
    return found;
  }

  /**
   * Grants a token. It expires in real time: in fast virtual time, clients would renew it all the
   * time.
   */
  grantToken(username: string, password: string): Record<string, unknown> {
    // The password of a client is its name.
    if (!this.#clients.has(username) || password !== username)
      throw new Refusal(400, 'The user name or password is incorrect.');
    for (const known of this.#tokens.keys()) this.findClientByToken(known);
    const token = randomBytes(24).toString('base64url');
    const { tokenSeconds } = this.switches;
    this.#tokens.set(token, {
      client: username,
      expiresAtMs: performance.now() + tokenSeconds * 1_000,
    });
    const nowMs = this.clock.nowMs();
    return {
      access_token: token,
      token_type: 'bearer',
      expires_in: tokenSeconds,
      userName: username,
      issued: new Date(nowMs).toUTCString(),
      expires: new Date(nowMs + tokenSeconds * 1_000).toUTCString(),
    };
  }

  /**
   * Returns the client of a token. Returns null if the token is invalid or expired, and drops an
   * expired one.
   */
  findClientByToken(token: string): string | null {
    const known = this.#tokens.get(token);
    if (known === undefined) return null;
    if (performance.now() < known.expiresAtMs) return known.client;
    this.#tokens.delete(token);
    return null;
  }

  expireTokens(): void {
    this.#tokens.clear();
  }
}

const toSimulationOptions = (
  { ordersPerDay, lateChanges = false }: WorldOptions,
  switches: Switches,
) => ({
  ordersPerDay,
  lateChanges,
  ...switches,
});

function createClients(
  { clients, seed, startMs, zone, lists: { clients: ownLists, ...lists } = {} }: WorldOptions,
  simulationOptions: SimulationOptions,
  { isNew, showsExtras }: { readonly isNew: boolean; readonly showsExtras: boolean },
): Map<string, SandboxClient> {
  const entries = clients.map((name, index): [string, SandboxClient] => {
    const random = new Random(deriveSeed(seed, name));
    const ids = new Ids(random, { index, count: clients.length });
    const store = new ClientStore(
      name,
      zone,
      new ServiceLists({ ...lists, ...ownLists?.[name] }),
      showsExtras,
    );
    const simulation = new Simulation(store, random, ids, simulationOptions);
    if (isNew) {
      for (const product of createFirstProducts(ids, store.lists)) store.addProduct(product);
      planFirstDay(simulation, startMs);
    }
    return [name, { simulation, visibility: new ListVisibility() }];
  });
  return new Map(entries);
}

/**
 * A clock of virtual time. It runs `speed` times as fast as real time, or not at all if `speed` is
 * 0.
 */
class VirtualClock {
  #baseMs: number;
  #realBaseMs = performance.now();
  #speed: number;

  constructor(startMs: number, speed: number) {
    this.#baseMs = startMs;
    this.#speed = speed;
  }

  nowMs(): number {
    return Math.floor(this.#baseMs + (performance.now() - this.#realBaseMs) * this.#speed);
  }

  advance(ms: number): void {
    this.#baseMs = this.nowMs() + ms;
    this.#realBaseMs = performance.now();
  }
}

/** How long writes are kept. Must exceed the largest `lagMs` of a fault. */
const keepWritesMs = 15 * 60_000;
const maxWrites = 100_000;

interface Write {
  readonly atMs: number;
  /** The row, as type and id. */
  readonly key: string;
  /** A copy of the row before the write; null if the write created the row. */
  readonly before: StoredRow | null;
}

/**
 * Decides which rows of a client are visible, in which version. Lags count real time, in which
 * callers wait.
 */
class ListVisibility {
  #writes: Write[] = [];
  readonly #hiddenUntilMs = new Map<string, number>();

  /** Records a write: before a row is changed, or with null after it was created. */
  addWrite(type: string, id: number, before: StoredRow | null): void {
    const nowMs = performance.now();
    this.#writes.push({
      atMs: nowMs,
      key: `${type} ${id}`,
      before: before && structuredClone(before),
    });
    if (
      this.#writes.length < 2 * maxWrites &&
      (this.#writes[0]?.atMs ?? nowMs) > nowMs - 2 * keepWritesMs
    )
      return;
    this.#writes = this.#writes.slice(-maxWrites).filter(({ atMs }) => atMs > nowMs - keepWritesMs);
  }

  /**
   * The hidden rows, as type and id, each with the virtual time at which it becomes visible again.
   */
  get hidden(): readonly (readonly [string, number])[] {
    return [...this.#hiddenUntilMs];
  }

  /** Hides the rows that another `ListVisibility` had hidden. */
  restore(hidden: readonly (readonly [string, number])[]): void {
    for (const [key, untilMs] of hidden) this.#hiddenUntilMs.set(key, untilMs);
  }

  /** Hides a row from everybody until a virtual time. */
  hide(type: string, id: number, untilMs: number): void {
    this.#hiddenUntilMs.set(`${type} ${id}`, untilMs);
  }

  isHidden(type: string, id: number, nowMs: number): boolean {
    return this.#hiddenUntilMs.size > 0 && (this.#hiddenUntilMs.get(`${type} ${id}`) ?? 0) > nowMs;
  }

  /**
   * Returns the version of a row that a list shows. Returns null if the list does not show the row.
   */
  selectVersion<T extends StoredRow>(type: string, row: T, nowMs: number, lagMs: number): T | null {
    if (this.isHidden(type, row.id, nowMs)) return null;
    if (lagMs === 0) return row;
    const [since, key] = [performance.now() - lagMs, `${type} ${row.id}`];
    const first = this.#writes.find((write) => write.atMs > since && write.key === key);
    return first === undefined ? row : (first.before as T | null);
  }
}
