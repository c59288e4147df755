/** A body of which only the beginning is kept. */
interface KeptText {
  readonly text: string;
  /** Characters of the whole body. */
  readonly length: number;
}

/** The bodies of a request and of its answer. They may contain secrets: show them through `hideSecrets` only. */
export interface KeptExchange {
  contentType: string | null;
  /** Whether the request had a bearer token. The token itself is not kept. */
  hasToken: boolean;
  /** Null if there was no body, or if it was not read. */
  request: KeptText | null;
  /** Null if there was no answer, or if it had no body. */
  answer: KeptText | null;
}

/** Number of requests whose bodies are kept. */
const maxExchanges = 200;
/** Characters that are kept of a body. Together with `maxExchanges` this bounds the memory at some megabytes. */
const maxCharacters = 16_384;

/** The bodies of the latest requests, by the place of the request in the log. */
export class KeptBodies {
  readonly #exchanges = new Map<number, KeptExchange>();

  get(place: number): KeptExchange | undefined {
    return this.#exchanges.get(place);
  }

  /** Keeps more of an exchange. Drops the oldest exchange if there are too many. */
  keep(
    place: number,
    {
      request,
      answer,
      ...facts
    }: Partial<Omit<KeptExchange, 'request' | 'answer'>> & {
      readonly request?: string | undefined;
      readonly answer?: string | undefined;
    },
  ): void {
    const known = this.#exchanges.get(place);
    const exchange = known ?? { contentType: null, hasToken: false, request: null, answer: null };
    Object.assign(exchange, facts);
    if (request !== undefined) exchange.request = cutBody(request);
    if (answer !== undefined) exchange.answer = cutBody(answer);
    if (known !== undefined) return;
    this.#exchanges.set(place, exchange);
    if (this.#exchanges.size <= maxExchanges) return;
    const [oldest] = this.#exchanges.keys();
    if (oldest !== undefined) this.#exchanges.delete(oldest);
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
