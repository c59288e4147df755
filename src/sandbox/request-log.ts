/** One request as the sandbox received it; never with a token, a password or a body. */
export interface LoggedRequest {
  readonly place: number;
  /** Real time of its arrival. */
  readonly atMs: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Null for a route the service does not have: unexpected. */
  readonly operation: string | null;
  readonly client: string | null;
  /** Null as long as it is not answered, and for ever where the connection was cut. */
  status: number | null;
  /** From its arrival to the end of its answer, or to the cut. */
  durationMs: number | null;
  /** Whether a fault struck it. */
  faulty: boolean;
}

const maxEntries = 200_000;

/** What was asked, in order of arrival; bounded, the oldest go first. */
export class RequestLog {
  #entries: LoggedRequest[] = [];
  #place = 0;

  add(entry: Omit<LoggedRequest, 'place' | 'status' | 'durationMs' | 'faulty'>): LoggedRequest {
    const logged: LoggedRequest = { ...entry, place: ++this.#place, status: null, durationMs: null, faulty: false };
    this.#entries.push(logged);
    if (this.#entries.length > maxEntries) this.#entries = this.#entries.slice(maxEntries / 2);
    return logged;
  }

  /** Entries with a larger place than `after`. */
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
