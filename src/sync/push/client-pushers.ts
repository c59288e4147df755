import type { ClaimedRow } from '../../erp/outbox/claimed-row.ts';
import { isHeld, type StoredHealth } from '../../erp/outbox/holds.ts';
import type { PushDeps } from './attempt.ts';
import { ClientPusher, type PushEvents } from './client-pusher.ts';
import { idleLookMs, type Look, minLookMs } from './next-look.ts';

/** The pushers of all clients of this process. They change when clients or settings change. */
export class ClientPushers {
  readonly #signal: AbortSignal;
  readonly #events: PushEvents;
  #pushers: ReadonlyMap<string, ClientPusher> = new Map();
  /** Pushers of former clients and settings, which settle what they have under way. */
  readonly #leaving = new Map<ClientPusher, Promise<void>>();

  /** @param signal ends what is under way; rows that were sent become unknown */
  constructor(signal: AbortSignal, events: PushEvents) {
    this.#signal = signal;
    this.#events = events;
  }

  /** The present pushers. */
  get all(): ClientPusher[] {
    return [...this.#pushers.values()];
  }

  /** The claims that this process holds and has to renew. */
  get claims(): ClaimedRow[] {
    return [...this.all, ...this.#leaving.keys()].flatMap((pusher) => pusher.claims);
  }

  get(client: string): ClientPusher | undefined {
    return this.#pushers.get(client);
  }

  /**
   * Takes other clients and settings. A client whose `PushDeps` are the same object continues as before. Of the others,
   * nothing more is begun with the former settings, and what is under way is settled.
   * @param slots number of rows that are sent at the same time, per client
   */
  change(clients: readonly PushDeps[], slots: number): void {
    const next = clients.map((deps) => {
      const present = this.#pushers.get(deps.client);
      if (present?.deps === deps && present.slots === slots) return present;
      return new ClientPusher(deps, slots, this.#signal, this.#events);
    });
    const staying = new Set(next);
    for (const pusher of this.all.filter((one) => !staying.has(one))) {
      const settled = pusher.finish().finally(() => this.#leaving.delete(pusher));
      this.#leaving.set(pusher, settled);
    }
    this.#pushers = new Map(next.map((pusher) => [pusher.deps.client, pusher]));
  }

  /** Begins nothing more, and resolves when everything under way is settled. */
  async finish(): Promise<void> {
    await Promise.all([...this.all.map((pusher) => pusher.finish()), ...this.#leaving.values()]);
  }
}

/** Claims rows of a client. Rows of a kind or client with a send window are claimed within it. */
export async function claimFor(pusher: ClientPusher, health: readonly StoredHealth[]): Promise<Look[]> {
  const few = health.filter((one) => one.sendWindow !== null && !isHeld(one));
  const looks: Look[] = [];
  const claim = async (kind?: string) => {
    const { claimed, more, nextInMs } = await pusher.claim(kind === undefined ? undefined : { kind });
    const inMs = nextInMs === undefined ? idleLookMs : Math.max(minLookMs, nextInMs);
    looks.push({ inMs: more ? 0 : inMs, dueNow: more || claimed > 0 || nextInMs !== undefined });
  };
  if (few.some(({ kind }) => kind === '')) await claim('');
  else {
    // These come first: behind all other rows they would never get a slot, and their number is bounded.
    for (const { kind } of few) await claim(kind);
    await claim();
  }
  return looks;
}
