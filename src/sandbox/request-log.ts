/** The log of requests to the sandbox, with the beginnings of their bodies. */

import { notFound } from './refusal.ts';

/** A request that the sandbox received. It never contains a token, a password or a body. */
export interface LoggedRequest {
  readonly place: number;
  /** Real time of arrival, in milliseconds since 1970. */
  readonly atMs: number;
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
 * The bodies of a request and of its answer; null if there was none, or if it was not read. They
 * may contain secrets: only `readExchange` may show them.
 */
interface KeptBodies {
  readonly contentType: string | null;
  /** Whether the request had a bearer token. The token itself is not kept. */
  readonly hasToken: boolean;
  readonly requestBody: string | null;
  readonly answerBody: string | null;
}

/** A logged request with what is kept of its bodies, without secrets. */
interface Exchange extends LoggedRequest, KeptBodies {
  /** Whether the bodies are kept: only those of the latest requests are. */
  readonly kept: boolean;
  /** Whether only the beginning of a body is kept. */
  readonly cut: boolean;
  /** A `curl` command that sends the request again; with the file `body` if its body was cut. */
  readonly command: string;
}

const maxEntries = 200_000;
/** Number of the latest requests whose bodies are kept. */
const maxKept = 200;
/**
 * Characters that are kept of a body. Together with `maxKept` this bounds the memory at some
 * megabytes.
 */
const maxCharacters = 16_384;
const noBodies = { contentType: null, hasToken: false, requestBody: null, answerBody: null };

/** The received requests in order of arrival. If there are too many, the oldest are dropped. */
export class RequestLog {
  #entries: LoggedRequest[] = [];
  #place = 0;
  readonly #bodies = new Map<number, KeptBodies>();

  add(entry: Omit<LoggedRequest, 'place' | 'status' | 'durationMs' | 'faulty'>): LoggedRequest {
    const begun = { place: ++this.#place, status: null, durationMs: null, faulty: false };
    const logged = { ...entry, ...begun, query: hideSecrets(entry.query) };
    this.#entries.push(logged);
    if (this.#entries.length > maxEntries) this.#entries = this.#entries.slice(maxEntries / 2);
    return logged;
  }

  /** Keeps the beginnings of the bodies of a request. Drops those of the oldest request. */
  keepBodies(place: number, { requestBody, answerBody, ...others }: KeptBodies): void {
    const [request, answer] = [copyBeginning(requestBody), copyBeginning(answerBody)];
    this.#bodies.set(place, { ...others, requestBody: request, answerBody: answer });
    if (this.#bodies.size > maxKept) this.#bodies.delete(this.#bodies.keys().next().value ?? place);
  }

  /** Returns the entries whose place is larger than `after`. */
  since(after: number): readonly LoggedRequest[] {
    const first = this.#entries[0]?.place ?? 0;
    return this.#entries.slice(Math.max(0, after - first + 1));
  }

  /** Returns the latest entries, newest first. */
  latest(count: number): LoggedRequest[] {
    return this.#entries.slice(-count).reverse();
  }

  clear(): void {
    this.#entries = [];
    this.#bodies.clear();
  }

  /**
   * Returns a request with its bodies. Refuses one that was dropped.
   * @param origin of the sandbox, for the command
   */
  readExchange(place: number, origin: string): Exchange {
    const entry = this.#entries[place - (this.#entries[0]?.place ?? 0)];
    if (entry === undefined) throw notFound(`request in the log: ${place}`);

    const bodies = this.#bodies.get(place);
    const { requestBody, answerBody, ...others } = bodies ?? noBodies;
    const exchange = {
      ...entry,
      ...others,
      requestBody: requestBody && hideSecrets(requestBody),
      answerBody: answerBody && hideSecrets(answerBody),
      kept: bodies !== undefined,
      cut: [requestBody, answerBody].some((body) => body?.length === maxCharacters),
    };
    return { ...exchange, command: writeCommand(exchange, origin) };
  }
}

function writeCommand(exchange: Omit<Exchange, 'command'>, origin: string): string {
  const { method, path, query, contentType, requestBody, cut, hasToken } = exchange;
  const body = cut ? '@body' : requestBody;
  const parts = [
    `curl -g -X ${method} ${quote(`${origin}${path}${query === '' ? '' : `?${query}`}`)}`,
    hasToken && '-H "authorization: bearer $TOKEN"',
    contentType && `-H ${quote(`content-type: ${contentType}`)}`,
    body && `--data-binary ${quote(body)}`,
  ];
  return parts.filter(Boolean).join(' ');
}

const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** A slice would keep the whole body in memory, so the characters are copied. */
const copyBeginning = (body: string | null): string | null =>
  body && Buffer.from(body.slice(0, maxCharacters), 'utf16le').toString('utf16le');

/**
 * Parts of the names of members and parameters whose values are secret, such as `password` and
 * `access_token`.
 */
const secretName = /password|passwd|secret|token|authorization|api_?key/i;
const jsonMember = /"([\w.-]+)"(\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[^\s,}\]"{[]+)/g;
const formMember = /(^|[&?;\s"'])([\w.%[\]-]+)=[^&\s"']*/g;
const bearer = /(\bbearer\s+)[\w.~+/=-]+/gi;

/** Replaces the secrets in a query, a body or an answer. */
function hideSecrets(text: string): string {
  const isSecret = (name: string) => secretName.test(name);
  return text
    .replace(jsonMember, (member: string, name: string, colon: string) =>
      isSecret(name) ? `"${name}"${colon}"***"` : member,
    )
    .replace(formMember, (member: string, before: string, name: string) =>
      isSecret(name) ? `${before}${name}=***` : member,
    )
    .replace(bearer, '$1***');
}
