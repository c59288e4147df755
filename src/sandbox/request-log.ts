/** The log of requests to the sandbox, with the beginnings of their bodies. */

import { notFound } from './refusal.ts';

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

/**
 * The bodies of a request and of its answer. They may contain secrets: only `readExchange` may show
 * them.
 */
interface KeptBodies {
  readonly contentType: string | null;
  /** Whether the request had a bearer token. The token itself is not kept. */
  readonly hasToken: boolean;
  /** Null if there was no body, or if it was not read. */
  readonly request: string | null;
  readonly answer: string | null;
}

const maxEntries = 200_000;
/** Number of the latest entries that a search looks at. */
const maxSearched = 20_000;
/** Number of the latest requests whose bodies are kept. */
const maxKept = 200;
/**
 * Characters that are kept of a body. Together with `maxKept` this bounds the memory at some
 * megabytes.
 */
const maxCharacters = 16_384;

/** The received requests in order of arrival. If there are too many, the oldest are dropped. */
export class RequestLog {
  #entries: LoggedRequest[] = [];
  #place = 0;
  readonly #bodies = new Map<number, KeptBodies>();

  add(entry: Omit<LoggedRequest, 'place' | 'status' | 'durationMs' | 'faulty'>): LoggedRequest {
    const [query, place] = [hideSecrets(entry.query), ++this.#place];
    const logged: LoggedRequest = {
      ...entry,
      query,
      place,
      status: null,
      durationMs: null,
      faulty: false,
    };
    this.#entries.push(logged);
    if (this.#entries.length > maxEntries) this.#entries = this.#entries.slice(maxEntries / 2);
    return logged;
  }

  /**
   * Keeps the beginnings of the bodies of a request. Drops those of the oldest request if there are
   * too many.
   */
  keepBodies(place: number, bodies: KeptBodies): void {
    this.#bodies.set(place, {
      ...bodies,
      request: cutBody(bodies.request),
      answer: cutBody(bodies.answer),
    });
    if (this.#bodies.size > maxKept) this.#bodies.delete(this.#bodies.keys().next().value ?? place);
  }

  /** Returns the entries whose place is larger than `after`. */
  since(after: number): readonly LoggedRequest[] {
    const first = this.#entries[0]?.place ?? 0;
    return this.#entries.slice(Math.max(0, after - first + 1));
  }

  /** Returns the latest entries that pass a test, newest first. */
  findLatest(
    count: number,
    test: (entry: LoggedRequest, bodies: KeptBodies | undefined) => boolean,
  ): LoggedRequest[] {
    const found: LoggedRequest[] = [];
    const last = this.#entries.length - 1;
    for (
      let index = last;
      index >= 0 && index > last - maxSearched && found.length < count;
      index--
    ) {
      const entry = this.#entries[index];
      if (entry !== undefined && test(entry, this.#bodies.get(entry.place))) found.push(entry);
    }
    return found;
  }

  /** Number of all entries, the dropped ones included. */
  get total(): number {
    return this.#entries.at(-1)?.place ?? 0;
  }

  clear(): void {
    this.#entries = [];
    this.#bodies.clear();
  }

  /**
   * Returns a request with its bodies, without their secrets. Refuses one that was dropped.
   */
  readExchange(place: number): Exchange {
    const entry = this.#entries[place - (this.#entries[0]?.place ?? 0)];
    if (entry === undefined) throw notFound(`request in the log: ${place}`);
    const kept = this.#bodies.get(place);
    const [requestBody = null, answerBody = null] = [kept?.request, kept?.answer];
    return {
      ...entry,
      contentType: kept?.contentType ?? null,
      requestBody: requestBody && hideSecrets(requestBody),
      answerBody: answerBody && hideSecrets(answerBody),
      cut: [requestBody, answerBody].some((body) => body?.length === maxCharacters),
      kept: kept !== undefined,
      hasToken: kept?.hasToken ?? entry.client !== null,
    };
  }
}

function cutBody(body: string | null): string | null {
  if (body === null || body.length < maxCharacters) return body;
  // A slice would keep the whole body in memory, so its characters are copied.
  return Buffer.from(body.slice(0, maxCharacters), 'utf16le').toString('utf16le');
}

/** A logged request with what is kept of its bodies. Secrets are hidden. */
export interface Exchange extends LoggedRequest, Pick<KeptBodies, 'contentType' | 'hasToken'> {
  /** Null if there was none, or if it is not kept. */
  readonly requestBody: string | null;
  readonly answerBody: string | null;
  /** Whether only the beginning of a body is kept. */
  readonly cut: boolean;
  /** Whether the bodies are kept: only those of the latest requests are. */
  readonly kept: boolean;
}

/**
 * Parts of the names of members and parameters whose values are secret, such as `password` and
 * `access_token`.
 */
const secretName = /password|passwd|secret|token|authorization|api_?key/i;
const jsonMember = /"([\w.-]+)"(\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[^\s,}\]"{[]+)/g;
const formMember = /(^|[&?;\s"'])([\w.%[\]-]+)=[^&\s"']*/g;
const bearer = /(\bbearer\s+)[\w.~+/=-]+/gi;

/**
 * Replaces the secrets in a query, a body or an answer. The log and the page show nothing that was
 * not treated so.
 */
function hideSecrets(text: string): string {
  return text
    .replace(jsonMember, (member: string, name: string, colon: string) =>
      secretName.test(name) ? `"${name}"${colon}"***"` : member,
    )
    .replace(formMember, (member: string, before: string, name: string) =>
      secretName.test(name) ? `${before}${name}=***` : member,
    )
    .replace(bearer, '$1***');
}
