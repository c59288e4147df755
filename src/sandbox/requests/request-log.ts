/**
 * The log of requests to the sandbox, with the beginnings of their bodies. Everything that it shows is free of secrets.
 */

import { KeptBodies } from './kept-bodies.ts';
import { hideSecrets } from './secrets.ts';

/** A request that the sandbox received. It never contains a token, a password or a body. */
export interface LoggedRequest {
  readonly place: number;
  /** Real time of arrival, in milliseconds since 1970. */
  readonly atMs: number;
  /** Virtual time of arrival, in milliseconds since 1970. */
  readonly virtualMs: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Null if the service has no such route. */
  readonly operation: string | null;
  readonly client: string | null;
  /** Null until the request is answered. Stays null if the connection was broken. */
  status: number | null;
  /** Milliseconds from the arrival to the end of the answer, or to the break of the connection. */
  durationMs: number | null;
  /** Whether a fault affected the request. */
  faulty: boolean;
}

const maxEntries = 200_000;
/** Number of the latest entries that a search looks at. */
const maxSearched = 20_000;

/** The received requests in order of arrival. If there are too many, the oldest are dropped. */
export class RequestLog {
  readonly bodies = new KeptBodies();
  #entries: LoggedRequest[] = [];
  #place = 0;

  add(entry: Omit<LoggedRequest, 'place' | 'status' | 'durationMs' | 'faulty'>): LoggedRequest {
    const logged: LoggedRequest = {
      ...entry,
      query: hideSecrets(entry.query),
      place: ++this.#place,
      status: null,
      durationMs: null,
      faulty: false,
    };
    this.#entries.push(logged);
    if (this.#entries.length > maxEntries) this.#entries = this.#entries.slice(maxEntries / 2);
    return logged;
  }

  /** Returns the entries whose place is larger than `after`. */
  since(after: number): readonly LoggedRequest[] {
    const first = this.#entries[0]?.place ?? 0;
    return this.#entries.slice(Math.max(0, after - first + 1));
  }

  /** Returns the entry at a place. Returns undefined if there is none, or if it was dropped. */
  get(place: number): LoggedRequest | undefined {
    return this.#entries[place - (this.#entries[0]?.place ?? 0)];
  }

  /** Returns the latest entries that pass a test, newest first. */
  findLatest(count: number, test: (entry: LoggedRequest) => boolean): LoggedRequest[] {
    const found: LoggedRequest[] = [];
    const last = this.#entries.length - 1;
    for (let index = last; index >= 0 && index > last - maxSearched && found.length < count; index--) {
      const entry = this.#entries[index];
      if (entry !== undefined && test(entry)) found.push(entry);
    }
    return found;
  }

  /** Number of all entries, the dropped ones included. */
  get total(): number {
    return this.#entries.at(-1)?.place ?? 0;
  }

  clear(): void {
    this.#entries = [];
    this.bodies.clear();
  }
}
