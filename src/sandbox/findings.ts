/**
 * The findings: what clients send although docs/interface.md does not show it, or calls it
 * deprecated.
 */

/**
 * What the sandbox tells the authors of a client, by code. `meant` is what they should send
 * instead.
 */
const adviceByCode = {
  unknown_member:
    'Leave it out: docs/interface.md does not show this member here, or shows it as read-only',
  unknown_parameter: 'Leave it out: docs/interface.md does not show this parameter here',
  odd_case: 'Write {meant}',
  given_twice: 'Send {meant} only; the sandbox ignores this member',
  wrong_type: 'Send {meant}',
  date_with_space: 'Write T between the date and the time',
  form_body: 'Send JSON: docs/interface.md shows no form here',
  encoded_comma:
    'Write the commas between values as they are: this one was taken as a separator; ' +
    'the service may refuse it',
  too_often: 'Call it {meant}',
  deprecated_call: 'Call {meant}',
  deprecated_member:
    'Leave it out, unless it is required: docs/interface.md calls it deprecated or obsolete',
  not_in_description:
    'Ask whether your service has it: docs/interface.md does not show this call or member',
} as const;
type FindingCode = keyof typeof adviceByCode;

/**
 * Something in one request that docs/interface.md does not show. It contains names, but no values.
 */
export interface Oddity {
  readonly code: FindingCode;
  /** Place in the body, name of the parameter, or empty for the whole request. */
  readonly member: string;
  /** What the client should send instead. */
  readonly meant?: string | undefined;
}

/** All oddities of a client that have the same operation, code and member. */
export interface Finding {
  /** Null if the request had no token. */
  readonly client: string | null;
  readonly operation: string;
  readonly code: FindingCode;
  readonly member: string;
  count: number;
  /** Real time, ISO 8601. */
  readonly firstAt: string;
  lastAt: string;
  readonly advice: string;
}

/** Clients invent member names, so their number is bounded. */
const maxFindingsPerClient = 300;
const maxTextLength = 120;

/** Part of an advised interval that clocks and networks may shorten. */
const tolerance = 0.01;

/** How often a client should call an operation at most. */
export interface CallAdvice {
  readonly everyMs: number;
  /** Such as `at most once an hour`. */
  readonly words: string;
}

export class Findings {
  readonly #lastCalls = new Map<string, { readonly realMs: number; readonly virtualMs: number }>();
  readonly #findings = new Map<string, Finding>();
  /** Number of oddities that are in no finding, because their client had too many findings. */
  beyondLimit = 0;

  /** Counts an oddity. It becomes a new finding unless the client has too many findings. */
  add(client: string | null, operation: string, { code, meant = '', ...oddity }: Oddity): void {
    const member = cutText(oddity.member);
    const key = JSON.stringify([client, operation, code, member]);
    const lastAt = new Date().toISOString();
    const known = this.#findings.get(key);
    if (known !== undefined) {
      known.count++;
      known.lastAt = lastAt;
      return;
    }

    const own = this.list().filter((finding) => finding.client === client);
    if (own.length >= maxFindingsPerClient) {
      this.beyondLimit++;
      return;
    }
    const advice = adviceByCode[code].replace('{meant}', meant);
    const names = { client, operation, code, member };
    this.#findings.set(key, { ...names, advice, count: 1, firstAt: lastAt, lastAt });
  }

  /**
   * Notes a call of an operation. It is an oddity if it comes too soon after the last one, by the
   * clock of the sandbox and by the real one: a client may live by either.
   */
  noteCall(
    client: string | null,
    operation: string,
    { everyMs, words }: CallAdvice,
    virtualMs: number,
  ): void {
    const key = JSON.stringify([client, operation]);
    const last = this.#lastCalls.get(key);
    const realMs = performance.now();
    this.#lastCalls.set(key, { realMs, virtualMs });
    if (last === undefined) return;
    const elapsedMs = Math.max(realMs - last.realMs, virtualMs - last.virtualMs);
    if (elapsedMs < everyMs * (1 - tolerance))
      this.add(client, operation, { code: 'too_often', member: '', meant: words });
  }

  /** The findings of all clients. Those with the latest oddities come first. */
  list(): Finding[] {
    return [...this.#findings.values()].sort((left, right) =>
      right.lastAt.localeCompare(left.lastAt),
    );
  }

  clear(): void {
    this.#findings.clear();
    this.#lastCalls.clear();
    this.beyondLimit = 0;
  }
}

function cutText(text: string): string {
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength)}…` : text;
}
