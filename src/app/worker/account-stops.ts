import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import { StoppedError } from '../../core/errors.ts';

/** Stops the runs of clients that are removed, or that change in a way that a run under way cannot take over. */
export class AccountStops {
  readonly #stops = new Map<string, AbortController>();

  /** Returns the signal that aborts when this client, as it is now, is no longer used. */
  signal(client: WarehouseClient): AbortSignal {
    const key = toKey(client);
    const stop = this.#stops.get(key) ?? new AbortController();
    this.#stops.set(key, stop);
    return stop.signal;
  }

  /** Stops the runs of all other clients. Their pages stay committed. */
  keepOnly(clients: readonly WarehouseClient[]): void {
    const kept = new Set(clients.map(toKey));
    for (const [key, stop] of this.#stops) {
      if (kept.has(key)) continue;
      this.#stops.delete(key);
      stop.abort(new StoppedError());
    }
  }
}

/** A run can take over another password only. */
const toKey = (client: WarehouseClient) => JSON.stringify([client.key, toIdentity(client), client.timeZone]);
