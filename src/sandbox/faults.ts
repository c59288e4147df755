import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import type { Random } from './random.ts';

const maxWaitMs = 600_000;
/** One step of a path into an answer. Names that every object inherits are excluded. */
const memberSchema = z.union([
  z.string().regex(/^(?!(__proto__|constructor|prototype)$)/),
  z.number(),
]);

const effectSchema = z
  .strictObject({
    /** Milliseconds to wait before anything else happens. */
    delayMs: z.int().positive().max(maxWaitMs).optional(),
    status: z.int().min(300).max(599).optional(),
    retryAfter: z.string().optional(),
    location: z.string().optional(),
    /** With status: the body is an HTML page, as a proxy sends it, instead of JSON. */
    html: z.boolean().optional(),
    /** The sandbox accepts the request and never answers it. */
    noAnswer: z.boolean().optional(),
    reset: z.boolean().optional(),
    /** With status, noAnswer or reset: the sandbox carries the request out before. */
    afterEffect: z.boolean().optional(),
    /**
     * With status, noAnswer or reset: the sandbox carries the request out this many milliseconds
     * later.
     */
    effectAfterMs: z.int().min(0).max(maxWaitMs).optional(),
    /** Lists and searches show rows as they were this many milliseconds ago. */
    lagMs: z.int().positive().max(maxWaitMs).optional(),
    /** The sandbox sends half of the body and then breaks the connection. */
    truncate: z.boolean().optional(),
    invalidJson: z.boolean().optional(),
    /** A success has the status 204 and no body. */
    empty: z.boolean().optional(),
    contentType: z.string().optional(),
    /** The sandbox sends the body in pieces of `bytes` bytes, one every `everyMs` milliseconds. */
    drip: z
      .strictObject({ bytes: z.int().positive(), everyMs: z.int().positive().max(maxWaitMs) })
      .optional(),
    /** All tokens granted so far become invalid. */
    expireTokens: z.boolean().optional(),
    /** `links.next` names this origin. */
    nextOrigin: z.string().optional(),
    /** `links.next` names the page that contains it. */
    repeatNext: z.boolean().optional(),
    /** The first row of a list appears again at its end. */
    duplicateRow: z.boolean().optional(),
    reverseRows: z.boolean().optional(),
    /**
     * The row at `index` of this page is hidden from all requests for this many virtual seconds.
     */
    hideRow: z.strictObject({ index: z.int().min(0), seconds: z.number().positive() }).optional(),
    /** Sets members of the answer by path. A member without a value is removed. */
    set: z
      .array(z.strictObject({ path: z.array(memberSchema).min(1), value: z.unknown().optional() }))
      .optional(),
  })
  .refine(
    ({ afterEffect, effectAfterMs, status, noAnswer, reset }) =>
      (afterEffect === undefined && effectAfterMs === undefined) ||
      status !== undefined ||
      noAnswer ||
      reset,
    'afterEffect and effectAfterMs go with status, noAnswer or reset',
  );
export type FaultEffect = z.infer<typeof effectSchema>;

/** A rule that disturbs requests of an operation. Every given member of `effect` is applied. */
export const faultSchema = z.strictObject({
  /** Operation name such as `v3.shipments.list`. `v3.*` and `*` match several operations. */
  operation: z.string(),
  /** Only requests of this client. */
  client: z.string().optional(),
  /** Number of matching requests that are not affected at first. */
  after: z.int().min(0).default(0),
  /** Number of requests that are affected; then the rule is removed. Unlimited if absent. */
  count: z.int().positive().optional(),
  /** Share of the matching requests that are affected. */
  probability: z.number().min(0).max(1).default(1),
  effect: effectSchema,
});
export type Fault = z.infer<typeof faultSchema>;

/** A fault with the number of requests that matched it and the number that it affected. */
interface FaultRule {
  /** Counts the rules since the start. */
  readonly number: number;
  readonly fault: Fault;
  seen: number;
  hits: number;
}

/** The active fault rules, with their counters. */
export class Faults {
  readonly random: Random;
  #rules: FaultRule[] = [];
  #lastNumber = 0;

  constructor(random: Random) {
    this.random = random;
  }

  add(fault: Fault): void {
    this.#rules.push({ number: ++this.#lastNumber, fault, seen: 0, hits: 0 });
  }

  clear(): void {
    this.#rules = [];
  }

  remove(number: number): void {
    this.#rules = this.#rules.filter((rule) => rule.number !== number);
  }

  get rules(): readonly FaultRule[] {
    return this.#rules;
  }

  /** Replaces the rules by saved ones, with their counters. */
  restore(rules: readonly FaultRule[]): void {
    this.#rules = [...rules];
    this.#lastNumber = rules.at(-1)?.number ?? 0;
  }

  list(): readonly (Fault & Pick<FaultRule, 'number' | 'hits'>)[] {
    return this.#rules.map(({ fault, number, hits }) => ({ ...fault, number, hits }));
  }

  /**
   * Counts a request for each matching rule. Returns the effect of the first rule that affects it,
   * or null.
   */
  matchRequest(operation: string, client: string | null): FaultEffect | null {
    let effect: FaultEffect | null = null;
    for (const rule of this.#rules) {
      const { fault } = rule;
      if (!matchesOperation(fault.operation, operation) || (fault.client ?? client) !== client)
        continue;
      // Counted even if an earlier rule affects the request: `after` counts all matching requests.
      if (rule.seen++ < fault.after || effect !== null) continue;
      if (!this.random.chance(fault.probability)) continue;
      rule.hits++;
      effect = fault.effect;
    }
    this.#rules = this.#rules.filter(({ fault: { count }, hits }) => hits !== count);
    return effect;
  }
}

/**
 * Returns whether a pattern matches an operation name. `v3.*` matches all names that begin with
 * `v3.`.
 */
export function matchesOperation(pattern: string, operation: string): boolean {
  return pattern.endsWith('*') ? operation.startsWith(pattern.slice(0, -1)) : pattern === operation;
}

/**
 * Returns whether an effect replaces the answer by another status, no answer or a broken
 * connection.
 */
export function isAnswerReplaced({ status, noAnswer, reset }: FaultEffect): boolean {
  return status !== undefined || noAnswer === true || reset === true;
}

/** Returns a copy of an answer with the changes that a fault asks for. */
export function changePayload(payload: unknown, effect: FaultEffect, selfUrl: string): unknown {
  if (typeof payload !== 'object' || payload === null) return payload;
  const changed = structuredClone(payload) as Record<string, unknown>;
  if (effect.nextOrigin)
    changed.links = { next: `${effect.nextOrigin}${new URL(selfUrl).pathname}?stolen=1` };
  if (effect.repeatNext) changed.links = { next: selfUrl };
  for (const rows of ['data', 'result'])
    if (Array.isArray(changed[rows])) changed[rows] = changeRows(changed[rows], effect);
  for (const { path, value } of effect.set ?? []) setMember(changed, path, value);
  return changed;
}

/** Returns a stream that sends a body in pieces. */
export function streamInPieces(
  body: string,
  { bytes, everyMs }: NonNullable<FaultEffect['drip']>,
): Readable {
  const all = Buffer.from(body);
  async function* pieces() {
    for (let start = 0; start < all.length; start += bytes) {
      if (start > 0) await wait(everyMs);
      yield all.subarray(start, start + bytes);
    }
  }
  return Readable.from(pieces(), { objectMode: false });
}

function changeRows(
  rows: readonly unknown[],
  { duplicateRow, reverseRows, hideRow }: FaultEffect,
): unknown[] {
  const shown = rows.filter((_, index) => index !== hideRow?.index);
  if (duplicateRow && shown.length > 0) shown.push(shown[0]);
  return reverseRows ? shown.reverse() : shown;
}

function setMember(root: unknown, path: readonly (string | number)[], value: unknown): void {
  const last = path.at(-1);
  let target = root;
  for (const member of path.slice(0, -1))
    target = (target as Record<string | number, unknown> | undefined)?.[member];
  if (typeof target !== 'object' || target === null || last === undefined) return;
  if (value === undefined) delete (target as Record<string | number, unknown>)[last];
  else (target as Record<string | number, unknown>)[last] = value;
}
