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

/** A body of which only the beginning is kept. */
interface KeptText {
  readonly text: string;
  /** Characters of the whole body. */
  readonly length: number;
}

/** The bodies of a request and of its answer. They may contain secrets: show them through `hideSecrets` only. */
interface KeptExchange {
  contentType: string | null;
  /** Whether the request had a bearer token. The token itself is not kept. */
  hasToken: boolean;
  /** Null if there was no body, or if it was not read. */
  request: KeptText | null;
  /** Null if there was no answer, or if it had no body. */
  answer: KeptText | null;
}

interface ExchangePart extends Pick<KeptExchange, 'contentType' | 'hasToken'> {
  readonly request: string | undefined;
  readonly answer: string | undefined;
}

const maxExchanges = 200;
/** Characters that are kept of a body. Together with `maxExchanges` this bounds the memory at some megabytes. */
const maxCharacters = 16_384;

/** The bodies of the latest requests, by the place of the request in the log. */
class KeptBodies {
  readonly #exchanges = new Map<number, KeptExchange>();

  get(place: number): KeptExchange | undefined {
    return this.#exchanges.get(place);
  }

  /** Keeps more of an exchange. Drops the oldest exchange if there are too many. */
  keep(place: number, { request, answer, ...facts }: ExchangePart): void {
    const known = this.#exchanges.get(place);
    const exchange = known ?? { contentType: null, hasToken: false, request: null, answer: null };
    Object.assign(exchange, facts);
    if (request !== undefined) exchange.request = cutBody(request);
    if (answer !== undefined) exchange.answer = cutBody(answer);
    if (known !== undefined) return;
    this.#exchanges.set(place, exchange);
    if (this.#exchanges.size > maxExchanges) this.#exchanges.delete(this.#exchanges.keys().next().value ?? place);
  }

  clear(): void {
    this.#exchanges.clear();
  }
}

function cutBody(body: string): KeptText {
  if (body.length <= maxCharacters) return { text: body, length: body.length };
  // A slice would keep the whole body in memory, so its characters are copied.
  const text = Buffer.from(body.slice(0, maxCharacters), 'utf16le').toString('utf16le');
  return { text, length: body.length };
}

/** A logged request with what is kept of its bodies. Secrets are hidden. */
export interface Exchange extends LoggedRequest {
  readonly contentType: string | null;
  /** Null if there was none, or if it is not kept. */
  readonly requestBody: string | null;
  readonly answerBody: string | null;
  /** Whether only the beginning of a body is kept. */
  readonly cut: boolean;
  /** Whether the bodies are kept: only those of the latest requests are. */
  readonly kept: boolean;
  readonly hasToken: boolean;
}

/** Returns a logged request with its bodies, in which `mark` replaces each secret. */
export function readExchange(log: RequestLog, place: number, mark?: string): Exchange {
  const entry = log.get(place);
  if (entry === undefined) throw notFound(`request in the log: ${place}`);
  const kept = log.bodies.get(place);
  const bodies = [kept?.request ?? null, kept?.answer ?? null] as const;
  const [requestBody, answerBody] = bodies.map((body) => (body === null ? null : hideSecrets(body.text, mark)));
  return {
    ...entry,
    contentType: kept?.contentType ?? null,
    requestBody: requestBody ?? null,
    answerBody: answerBody ?? null,
    cut: bodies.some((body) => body !== null && body.length > body.text.length),
    kept: kept !== undefined,
    hasToken: kept?.hasToken ?? entry.client !== null,
  };
}

/** Parts of the names of members and parameters whose values are secret, such as `password` and `access_token`. */
const secretName = /password|passwd|secret|token|authorization|api_?key/i;
const jsonMember = /"([\w.-]+)"(\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[^\s,}\]"{[]+)/g;
const formMember = /(^|[&?;\s"'])([\w.%[\]-]+)=[^&\s"']*/g;
const bearer = /(\bbearer\s+)[\w.~+/=-]+/gi;

const hidden = '***';

/** Replaces the secrets in a query, a body or an answer. The log and the page show nothing that was not treated so. */
function hideSecrets(text: string, mark = hidden): string {
  return text
    .replace(jsonMember, (member: string, name: string, colon: string) =>
      secretName.test(name) ? `"${name}"${colon}"${mark}"` : member,
    )
    .replace(formMember, (member: string, before: string, name: string) =>
      secretName.test(name) ? `${before}${name}=${mark}` : member,
    )
    .replace(bearer, (_, start: string) => start + mark);
}
