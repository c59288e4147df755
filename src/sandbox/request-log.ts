/** One request as the sandbox received it; never with a token, a password or a body. */
export interface LoggedRequest {
  readonly place: number;
  readonly atMs: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Null for a route the service does not have: unexpected. */
  readonly operation: string | null;
  readonly client: string | null;
  status: number | null;
  durationMs: number | null;
}

const maxEntries = 200_000;

/** What was asked, in order of arrival; bounded, the oldest go first. */
export class RequestLog {
  #entries: LoggedRequest[] = [];
  #place = 0;

  add(entry: Omit<LoggedRequest, 'place' | 'status' | 'durationMs'>): LoggedRequest {
    const logged: LoggedRequest = { ...entry, place: ++this.#place, status: null, durationMs: null };
    this.#entries.push(logged);
    if (this.#entries.length > maxEntries) this.#entries = this.#entries.slice(maxEntries / 2);
    return logged;
  }

  /** Entries with a larger place than `after`. */
  since(after: number): readonly LoggedRequest[] {
    return this.#entries.filter(({ place }) => place > after);
  }

  clear(): void {
    this.#entries = [];
  }
}
