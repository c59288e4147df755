import { randomBytes } from 'node:crypto';
import { VirtualClock } from './clock.ts';
import { Faults } from './faults.ts';
import { type Switches, switchesSchema } from './paging.ts';
import { Random, seedFor } from './random.ts';
import { RequestLog } from './request-log.ts';
import { Robot } from './robot.ts';
import { ClientStore } from './store.ts';

export interface WorldOptions {
  readonly clients: readonly string[];
  readonly seed: number;
  /** Virtual seconds a second. */
  readonly speed: number;
  /** Virtual time at the beginning, in milliseconds since 1970. */
  readonly startMs: number;
  /** Zone of the warehouses' clocks. */
  readonly zone: string;
}

interface Inhabitant {
  readonly store: ClientStore;
  readonly robot: Robot;
}

/** Everything the sandbox knows. Each client sees its own part alone. */
export class World {
  readonly log = new RequestLog();
  #options: WorldOptions;
  #clock: VirtualClock;
  #inhabitants: Map<string, Inhabitant>;
  #tokens = new Map<string, { client: string; expiresAtMs: number }>();
  faults: Faults;
  switches: Switches = switchesSchema.parse({});

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#clock = new VirtualClock(options.startMs, options.speed);
    this.#inhabitants = settle(options);
    this.faults = new Faults(new Random(options.seed));
  }

  /** Starts over: another seed, an empty store, no faults, no tokens, all switches as they are by default. */
  reset(options: Partial<WorldOptions> = {}): void {
    this.#options = { ...this.#options, ...options };
    this.#clock = new VirtualClock(this.#options.startMs, this.#options.speed);
    this.#inhabitants = settle(this.#options);
    this.#tokens.clear();
    this.faults = new Faults(new Random(this.#options.seed));
    this.switches = switchesSchema.parse({});
    this.log.clear();
  }

  get clock(): VirtualClock {
    return this.#clock;
  }

  get clientNames(): string[] {
    return [...this.#inhabitants.keys()];
  }

  /** One client's part, brought up to the present. Undefined for a client that does not exist. */
  client(name: string): Inhabitant | undefined {
    const inhabitant = this.#inhabitants.get(name);
    inhabitant?.robot.runUntil(this.#clock.nowMs());
    return inhabitant;
  }

  /** Gives out a token. Its life is real time, so that fast virtual days do not drown in renewals. */
  issueToken(client: string): string {
    const token = randomBytes(24).toString('base64url');
    this.#tokens.set(token, { client, expiresAtMs: performance.now() + this.switches.tokenSeconds * 1_000 });
    return token;
  }

  /** The client a token belongs to, null where it is invalid or expired. */
  clientOfToken(token: string): string | null {
    const known = this.#tokens.get(token);
    return known !== undefined && performance.now() < known.expiresAtMs ? known.client : null;
  }

  expireTokens(): void {
    this.#tokens.clear();
  }
}

function settle({ clients, seed, startMs, zone }: WorldOptions): Map<string, Inhabitant> {
  return new Map(
    clients.map((name) => {
      const store = new ClientStore(name, zone);
      return [name, { store, robot: new Robot(store, seedFor(seed, name), startMs) }];
    }),
  );
}
