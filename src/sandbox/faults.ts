import { z } from 'zod';
import type { Random } from './random.ts';

const maxWaitMs = 600_000;
const waitSchema = z.int().positive().max(maxWaitMs);
/** One step of a path into an answer. Names that every object inherits are excluded. */
const memberSchema = z.union([
  z.string().regex(/^(?!(__proto__|constructor|prototype)$)/),
  z.number(),
]);

const effectSchema = z
  .strictObject({
    /** Milliseconds to wait before anything else happens. */
    delayMs: waitSchema.optional(),
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
    lagMs: waitSchema.optional(),
    /** The sandbox sends half of the body and then breaks the connection. */
    truncate: z.boolean().optional(),
    invalidJson: z.boolean().optional(),
    /** A success has the status 204 and no body. */
    empty: z.boolean().optional(),
    contentType: z.string().optional(),
    /** The sandbox sends the body in pieces of `bytes` bytes, one every `everyMs` milliseconds. */
    drip: z.strictObject({ bytes: z.int().positive(), everyMs: waitSchema }).optional(),
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
    (effect) => isAnswerReplaced(effect) || !(effect.afterEffect ?? effect.effectAfterMs),
    'afterEffect and effectAfterMs go with status, noAnswer or reset',
  );
export type FaultEffect = z.infer<typeof effectSchema>;

interface Replacement {
  readonly status?: number | undefined;
  readonly noAnswer?: boolean | undefined;
  readonly reset?: boolean | undefined;
}

/** Returns whether an effect replaces the answer by another status, none or a broken connection. */
export function isAnswerReplaced({ status, noAnswer, reset }: Replacement): boolean {
  return status !== undefined || noAnswer === true || reset === true;
}

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

/** A rule with its place among those since the start, and its counters, as it is saved. */
interface FaultRule extends Fault {
  readonly number: number;
  /** Number of requests that matched. */
  seen: number;
  /** Number of requests that were affected. */
  hits: number;
}

/** The active fault rules, with their counters. */
export class Faults {
  readonly random: Random;
  rules: readonly FaultRule[];

  constructor(random: Random, rules: readonly FaultRule[] = []) {
    this.random = random;
    this.rules = rules;
  }

  add(fault: Fault): void {
    const number = (this.rules.at(-1)?.number ?? 0) + 1;
    this.rules = [...this.rules, { ...fault, number, seen: 0, hits: 0 }];
  }

  /** Removes the rule with a number, or all rules. Returns those that are left. */
  remove(number?: number): readonly FaultRule[] {
    this.rules = this.rules.filter((rule) => number !== undefined && rule.number !== number);
    return this.rules;
  }

  /**
   * Counts a request for each matching rule. Returns the effect of the first rule that affects it,
   * or null. Removes a rule that is used up.
   */
  matchRequest(operation: string, client: string | null): FaultEffect | null {
    let effect: FaultEffect | null = null;
    for (const rule of this.rules) {
      if (!matchesOperation(rule.operation, operation) || (rule.client ?? client) !== client)
        continue;

      // Counted even if an earlier rule affects the request: `after` counts all matching requests.
      if (rule.seen++ < rule.after || effect !== null) continue;
      if (!this.random.chance(rule.probability)) continue;
      rule.hits++;
      effect = rule.effect;
    }

    this.rules = this.rules.filter(({ count, hits }) => hits !== count);
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
