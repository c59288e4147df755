/** The sandbox: a stand-in for the service. It shares no code with src/warehouse, so that tests compare the two. */

import { randomBytes } from 'node:crypto';
import { Faults } from './faults.ts';
import { Findings } from './findings.ts';
import { type Dialect, parseSwitches, type Strictness, type Switches, type WorldOptions } from './options.ts';
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

/** From this number of tokens on, each new token first removes the expired ones. */
const tokensBeforeCleanup = 1_000;

/** All data of the sandbox. Each client sees only its own part. */
export class World {
  readonly log = new RequestLog();
  readonly findings = new Findings();
  readonly strict: boolean;
  readonly onlyDescribed: boolean;
  readonly #firstDialect: Dialect | undefined;
  /** The options of the first start. A reset does not change them. */
  readonly started: WorldOptions;
  #options: WorldOptions;
  #clock: VirtualClock;
  #clients: Map<string, SandboxClient>;
  #tokens = new Map<string, { client: string; expiresAtMs: number }>();
  #switches: Switches;
  #simulationOptions: SimulationOptions;
  faults: Faults;
  /** Number of calls that may have changed the state. The state is saved only if this number has grown. */
  changes = 0;
  /** Number of resets. */
  resets = 0;

  /** Creates a world. If it continues a saved one, its clients are empty, and the caller fills them. */
  constructor(
    options: WorldOptions,
    { strict = false, onlyDescribed = false, dialect }: Strictness = {},
    saved?: SavedWorld,
  ) {
    this.strict = strict;
    this.onlyDescribed = onlyDescribed;
    this.#firstDialect = dialect;
    this.#options = options;
    this.started = saved?.started ?? options;
    this.#clock = new VirtualClock(saved?.nowMs ?? options.startMs, options.speed);
    this.#switches =
      saved === undefined ? parseSwitches({}, options, dialect) : { ...saved.switches, ...(dialect && { dialect }) };
    this.#simulationOptions = toSimulationOptions(options, this.#switches);
    this.#clients = createClients(options, this.#simulationOptions, saved === undefined);
    this.faults = new Faults(new Random(options.seed));
  }

  /** Starts over with new clients, no faults, no tokens, no logged requests, no findings and the first switches. */
  reset(options: Partial<WorldOptions> = {}): void {
    this.resets++;
    this.#options = { ...this.#options, ...options };
    this.#clock = new VirtualClock(this.#options.startMs, this.#options.speed);
    this.#switches = parseSwitches({}, this.#options, this.#firstDialect);
    this.#simulationOptions = toSimulationOptions(this.#options, this.#switches);
    this.#clients = createClients(this.#options, this.#simulationOptions, true);
    this.#tokens.clear();
    this.faults = new Faults(new Random(this.#options.seed));
    this.log.clear();
    this.findings.clear();
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

  /** Sets all switches. Those that are left out get their defaults. */
  setSwitches(given: unknown): void {
    this.#switches = parseSwitches(given, this.#options, this.#firstDialect);
    Object.assign(this.#simulationOptions, toSimulationOptions(this.#options, this.#switches));
  }

  get clientNames(): string[] {
    return [...this.#clients.keys()];
  }

  /** Simulates a client up to the present and returns it. Returns undefined if the client does not exist. */
  findClient(name: string): SandboxClient | undefined {
    const client = this.#clients.get(name);
    if (client === undefined) return undefined;
    const nowMs = this.#clock.nowMs();
    simulateUntil(client.simulation, nowMs);
    client.simulation.store.unlistOldRows(nowMs);
    return client;
  }

  /** Simulates a client up to the present and returns it. */
  requireClient(name: string): SandboxClient {
    const found = this.findClient(name);
    if (found === undefined) throw badParameter('client', `is not one of ${this.clientNames.join(', ')}`);
    return found;
  }

  /** Returns a client without simulating it up to the present. Saving and loading use this. */
  getUnadvancedClient(name: string): SandboxClient {
    const found = this.#clients.get(name);
    if (found === undefined) throw new Error(`there is no client ${name}`);
    return found;
  }

  /** Grants a token. It expires in real time: in fast virtual time, clients would renew it all the time. */
  grantToken(username: string, password: string): Record<string, unknown> {
    // The password of a client is its name.
    if (!this.#clients.has(username) || password !== username)
      throw new Refusal(400, 'The user name or password is incorrect.');
    if (this.#tokens.size >= tokensBeforeCleanup) this.#dropExpiredTokens();
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

  /** Returns the client of a token. Returns null if the token is invalid or expired. */
  findClientByToken(token: string): string | null {
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

function toSimulationOptions(
  options: WorldOptions,
  { unknownProducts, repeatedReturnLines, repeatedNumbers }: Switches,
): SimulationOptions {
  const { ordersPerDay, lateChanges = false } = options;
  return { ordersPerDay, lateChanges, unknownProducts, repeatedReturnLines, repeatedNumbers };
}

function createClients(
  { clients, seed, startMs, zone, lists: { clients: ownLists, ...lists } = {} }: WorldOptions,
  simulationOptions: SimulationOptions,
  isNew: boolean,
): Map<string, SandboxClient> {
  const entries = clients.map((name, index): [string, SandboxClient] => {
    const random = new Random(deriveSeed(seed, name));
    const ids = new Ids(random, { index, count: clients.length });
    const store = new ClientStore(name, zone, new ServiceLists({ ...lists, ...ownLists?.[name] }));
    const simulation = new Simulation(store, random, ids, simulationOptions);
    if (isNew) {
      for (const product of createFirstProducts(ids, store.lists)) store.addProduct(product);
      planFirstDay(simulation, startMs);
    }
    return [name, { simulation, visibility: new ListVisibility() }];
  });
  return new Map(entries);
}

/** A clock of virtual time. It runs `speed` times as fast as real time, or not at all if `speed` is 0. */
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
const maxWritesPerRow = 50;

interface Write {
  readonly atMs: number;
  /** A copy of the row before the write; null if the write created the row. */
  readonly before: StoredRow | null;
}

/** Decides which rows of a client are visible, in which version. Lags count real time, in which callers wait. */
class ListVisibility {
  readonly #writes = new Map<string, Write[]>();
  readonly #hiddenUntilMs = new Map<string, number>();

  /** Records a write: before a row is changed, or with null after it was created. */
  addWrite(type: string, id: number, before: StoredRow | null): void {
    const key = `${type} ${id}`;
    const nowMs = performance.now();
    const writes = [
      ...(this.#writes.get(key) ?? []).slice(-maxWritesPerRow),
      { atMs: nowMs, before: before && structuredClone(before) },
    ];
    // Set again at the end, so that the map lists the oldest writes first.
    this.#writes.delete(key);
    this.#writes.set(
      key,
      writes.filter(({ atMs }) => atMs > nowMs - keepWritesMs),
    );
    this.#dropOldWrites(nowMs);
  }

  /** Drops rows whose last write is too old, and the oldest rows if there are too many. */
  #dropOldWrites(nowMs: number): void {
    for (const [key, writes] of this.#writes) {
      const isOld = (writes.at(-1)?.atMs ?? 0) <= nowMs - keepWritesMs;
      if (!isOld && this.#writes.size <= maxWrites) return;
      this.#writes.delete(key);
    }
  }

  /** The hidden rows, as type and id, each with the virtual time at which it becomes visible again. */
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

  /** Returns the version of a row that a list shows. Returns null if the list does not show the row. */
  selectVersion<T extends StoredRow>(type: string, row: T, nowMs: number, lagMs: number): T | null {
    if (this.isHidden(type, row.id, nowMs)) return null;
    if (lagMs === 0) return row;
    const since = performance.now() - lagMs;
    const first = this.#writes.get(`${type} ${row.id}`)?.find(({ atMs }) => atMs > since);
    return first === undefined ? row : (first.before as T | null);
  }
}
