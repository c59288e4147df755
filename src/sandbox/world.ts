/**
 * The sandbox: a stand-in for the service. It shares no code with src/service, so that tests
 * compare the two.
 */

import { randomBytes } from 'node:crypto';
import { Faults } from './faults.ts';
import { Findings } from './findings.ts';
import { parseSwitches, type Strictness, type Switches, type WorldOptions } from './options.ts';
import { Random } from './random.ts';
import { badParameter, Refusal } from './refusal.ts';
import { RequestLog } from './request-log.ts';
import { planFirstDay, simulateUntil } from './robot/robot.ts';
import { createFirstProducts } from './rules/products.ts';
import { Client, type ClientOptions } from './store/client.ts';

/** All data of the sandbox. Each client sees only its own part. */
export class World {
  readonly log = new RequestLog();
  readonly findings = new Findings();
  readonly strictness: Strictness;
  /** The options of the first start. A reset does not change them. */
  readonly started: WorldOptions;
  // A reset replaces these.
  options!: WorldOptions;
  clock!: VirtualClock;
  faults!: Faults;
  switches!: Switches;
  /** Changed in place, because all clients share it. */
  #clientOptions!: ClientOptions;
  #clients!: ReadonlyMap<string, Client>;
  #tokens = new Map<string, { client: string; expiresAtMs: number }>();
  /**
   * Number of calls that may have changed the state. The state is saved only if this number has
   * grown.
   */
  changes = 0;
  /** Number of resets. */
  resets = 0;

  /** Creates a world, which may continue a saved one. */
  constructor(options: WorldOptions, strictness: Strictness = {}, saved?: SavedWorld) {
    this.strictness = strictness;
    this.started = saved?.started ?? options;
    this.#begin(options, saved);
  }

  #begin(options: WorldOptions, saved?: SavedWorld): void {
    const { dialect, strict } = this.strictness;
    const { ordersPerDay, lateChanges = false } = options;
    this.options = options;
    this.clock = new VirtualClock(saved?.nowMs ?? options.startMs, options.speed);
    this.faults = new Faults(new Random(saved?.faults.random ?? options.seed), saved?.faults.rules);
    this.switches = saved
      ? { ...saved.switches, ...(dialect && { dialect }) }
      : parseSwitches({}, options, dialect);
    this.#clientOptions = { ordersPerDay, lateChanges, showsExtras: !strict, ...this.switches };

    const clients = options.clients.map((name) => new Client(name, options, this.#clientOptions));
    this.#clients = new Map(clients.map((client) => [client.name, client]));
    for (const client of clients) {
      const state = saved?.clients[client.name];
      if (state === undefined) startClient(client, options.startMs);
      else client.restore(state);
    }
  }

  /** All that a state file keeps, as plain data. */
  get state() {
    const { options, started, switches, faults } = this;
    const clients = [...this.#clients].map(
      ([name]) => [name, this.requireClient(name).state] as const,
    );
    return {
      nowMs: this.clock.nowMs(),
      options,
      started,
      switches,
      faults: { random: faults.random.state, rules: faults.rules },
      clients: Object.fromEntries(clients),
    };
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
    this.switches = parseSwitches(given, this.options, this.strictness.dialect);
    Object.assign(this.#clientOptions, this.switches);
  }

  get clientNames(): string[] {
    return [...this.#clients.keys()];
  }

  /** Simulates a client up to the present and returns it. */
  requireClient(name: string): Client {
    const client = this.#clients.get(name);
    if (client === undefined)
      throw badParameter('client', `is not one of ${this.clientNames.join(', ')}`);

    simulateUntil(client, this.clock.nowMs());
    return client;
  }

  /**
   * Grants a token. It expires in real time: in fast virtual time, clients would renew it all the
   * time.
   */
  grantToken(username: string, password: string) {
    // The password of a client is its name.
    if (!this.#clients.has(username) || password !== username)
      throw new Refusal(400, 'The user name or password is incorrect.');

    for (const known of this.#tokens.keys()) this.findClientByToken(known);
    const token = randomBytes(24).toString('base64url');
    const { tokenSeconds } = this.switches;
    const lifetimeMs = tokenSeconds * 1_000;
    this.#tokens.set(token, { client: username, expiresAtMs: performance.now() + lifetimeMs });

    const nowMs = this.clock.nowMs();
    return {
      access_token: token,
      token_type: 'bearer',
      expires_in: tokenSeconds,
      userName: username,
      issued: new Date(nowMs).toUTCString(),
      expires: new Date(nowMs + lifetimeMs).toUTCString(),
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

export type SavedWorld = World['state'];

function startClient(client: Client, startMs: number): void {
  for (const product of createFirstProducts(client)) client.products.set(product.sku, product);
  planFirstDay(client, startMs);
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
