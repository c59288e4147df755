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

/** The received requests in order of arrival. If there are too many, the oldest are dropped. */
export class RequestLog {
  #entries: LoggedRequest[] = [];
  #place = 0;

  add(entry: Omit<LoggedRequest, 'place' | 'status' | 'durationMs' | 'faulty'>): LoggedRequest {
    const logged: LoggedRequest = { ...entry, place: ++this.#place, status: null, durationMs: null, faulty: false };
    this.#entries.push(logged);
    if (this.#entries.length > maxEntries) this.#entries = this.#entries.slice(maxEntries / 2);
    return logged;
  }

  /** Returns the entries whose place is larger than `after`. */
  since(after: number): readonly LoggedRequest[] {
    const first = this.#entries[0]?.place ?? 0;
    return this.#entries.slice(Math.max(0, after - first + 1));
  }

  latest(count: number): LoggedRequest[] {
    return this.#entries.slice(-count).reverse();
  }

  clear(): void {
    this.#entries = [];
  }
}
