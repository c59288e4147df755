import { z } from 'zod';
import type { Random } from './random.ts';

const longestMs = 600_000;
/** A member of an answer that may be set; not what every object inherits. */
const member = z.union([z.string().regex(/^(?!(__proto__|constructor|prototype)$)/), z.number()]);

const effectSchema = z
  .strictObject({
    /** Waits before anything else. */
    delayMs: z.number().int().positive().max(longestMs).optional(),
    status: z.number().int().min(300).max(599).optional(),
    retryAfter: z.string().optional(),
    location: z.string().optional(),
    /** Not JSON: a proxy's page. */
    html: z.boolean().optional(),
    /** The request is taken and never answered. */
    noAnswer: z.boolean().optional(),
    reset: z.boolean().optional(),
    /** With status, noAnswer or reset: the request has been carried out before. */
    afterEffect: z.boolean().optional(),
    /** With status, noAnswer or reset: the request is carried out this much later. */
    effectAfterMs: z.number().int().min(0).max(longestMs).optional(),
    /** Lists and searches show what was there this long ago: nothing written since, and rows as they were before. */
    lagMs: z.number().int().positive().max(longestMs).optional(),
    /** Half of the body, then the connection breaks. */
    truncate: z.boolean().optional(),
    invalidJson: z.boolean().optional(),
    contentType: z.string().optional(),
    /** The body comes in pieces of `bytes`, `everyMs` apart. */
    drip: z
      .strictObject({ bytes: z.number().int().positive(), everyMs: z.number().int().positive().max(longestMs) })
      .optional(),
    /** All tokens given out so far are worth nothing any more. */
    expireTokens: z.boolean().optional(),
    /** `links.next` leads to this origin. */
    nextOrigin: z.string().optional(),
    /** `links.next` leads to the very page it stands on. */
    repeatNext: z.boolean().optional(),
    /** The first row of a list is there once more at its end. */
    duplicateRow: z.boolean().optional(),
    reverseRows: z.boolean().optional(),
    /** The row at `index` of this page is not shown, nor anywhere else, until this much virtual time has gone by. */
    hideRow: z.strictObject({ index: z.number().int().min(0), seconds: z.number().positive() }).optional(),
    /** Sets a member of the answer, by path; without a value it is removed. */
    set: z.array(z.strictObject({ path: z.array(member).min(1), value: z.unknown().optional() })).optional(),
  })
  .refine(
    ({ afterEffect, effectAfterMs, status, noAnswer, reset }) =>
      (afterEffect === undefined && effectAfterMs === undefined) || status !== undefined || noAnswer || reset,
    'afterEffect and effectAfterMs go with status, noAnswer or reset',
  );
export type FaultEffect = z.infer<typeof effectSchema>;

/** A rule by which requests of one operation go wrong. Every member of `effect` that is given takes effect. */
export const faultSchema = z.strictObject({
  /** Operation name such as `v3.shipments.list`; `v3.*` and `*` stand for several. */
  operation: z.string(),
  /** Only requests of this client. */
  client: z.string().optional(),
  /** Skips this many matching requests first. */
  after: z.number().int().min(0).default(0),
  /** Ends after this many hits. */
  count: z.number().int().positive().optional(),
  /** Share of matching requests that are hit. */
  probability: z.number().min(0).max(1).default(1),
  effect: effectSchema,
});
export type Fault = z.infer<typeof faultSchema>;

/** A fault with how often it was met and how often it struck. */
export interface Rule {
  readonly fault: Fault;
  seen: number;
  hits: number;
}

/** The rules in force, and how often each has struck. */
export class Faults {
  readonly random: Random;
  #rules: Rule[] = [];

  constructor(random: Random) {
    this.random = random;
  }

  add(fault: Fault): void {
    this.#rules.push({ fault, seen: 0, hits: 0 });
  }

  clear(): void {
    this.#rules = [];
  }

  get rules(): readonly Rule[] {
    return this.#rules;
  }

  /** Goes on with rules that were saved. */
  restore(rules: readonly Rule[]): void {
    this.#rules = [...rules];
  }

  list(): readonly (Fault & { readonly hits: number })[] {
    return this.#rules.map(({ fault, hits }) => ({ ...fault, hits }));
  }

  /** What is to go wrong with this request; the first rule that strikes decides. */
  strike(operation: string, client: string | null): FaultEffect | null {
    let effect: FaultEffect | null = null;
    for (const rule of this.#rules) {
      const { fault } = rule;
      if (!covers(fault.operation, operation)) continue;
      if (fault.client !== undefined && fault.client !== client) continue;
      // Also where another rule strikes: `after` counts requests, not what is left of them.
      if (rule.seen++ < fault.after || (fault.count !== undefined && rule.hits >= fault.count)) continue;
      if (effect !== null || !this.random.chance(fault.probability)) continue;
      rule.hits++;
      effect = fault.effect;
    }
    return effect;
  }
}

/** Whether a rule for `pattern` is about an operation: `v3.*` is about all whose names begin with `v3.`. */
export function covers(pattern: string, operation: string): boolean {
  return pattern.endsWith('*') ? operation.startsWith(pattern.slice(0, -1)) : pattern === operation;
}

/** Whether the request is not answered as it should be. */
export function isCut({ status, noAnswer, reset }: Partial<FaultEffect>): boolean {
  return status !== undefined || noAnswer === true || reset === true;
}
