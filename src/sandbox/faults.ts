import { z } from 'zod';
import type { Random } from './random.ts';

/** A rule by which requests of one operation go wrong. Every member of `effect` that is given takes effect. */
export const faultSchema = z.strictObject({
  /** Operation name such as `v3.shipments.list`, or `*`. */
  operation: z.string(),
  /** Only requests of this client. */
  client: z.string().optional(),
  /** Skips so many matching requests first. */
  after: z.number().int().min(0).default(0),
  /** Ends after so many hits. */
  count: z.number().int().positive().optional(),
  /** Share of matching requests that are hit. */
  probability: z.number().min(0).max(1).default(1),
  effect: z.strictObject({
    delayMs: z.number().int().positive().optional(),
    status: z.number().int().min(300).max(599).optional(),
    retryAfter: z.string().optional(),
    location: z.string().optional(),
    /** Not JSON: a proxy's page. */
    html: z.boolean().optional(),
    /** The request is taken and never answered. */
    noAnswer: z.boolean().optional(),
    reset: z.boolean().optional(),
    /** Half of the body, then the connection breaks. */
    truncate: z.boolean().optional(),
    invalidJson: z.boolean().optional(),
    /** All tokens given out so far are worth nothing any more. */
    expireTokens: z.boolean().optional(),
    /** `links.next` leads to this origin. */
    nextOrigin: z.string().optional(),
    /** `links.next` leads to the very page it stands on. */
    repeatNext: z.boolean().optional(),
    /** Sets a member of the answer, by path; without a value it is removed. */
    set: z
      .array(z.strictObject({ path: z.array(z.union([z.string(), z.number()])).min(1), value: z.unknown().optional() }))
      .optional(),
  }),
});
export type Fault = z.infer<typeof faultSchema>;
export type FaultEffect = Fault['effect'];

/** The rules in force, and how often each has struck. */
export class Faults {
  readonly #random: Random;
  #rules: { fault: Fault; seen: number; hits: number }[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  add(fault: Fault): void {
    this.#rules.push({ fault, seen: 0, hits: 0 });
  }

  clear(): void {
    this.#rules = [];
  }

  list(): readonly (Fault & { readonly hits: number })[] {
    return this.#rules.map(({ fault, hits }) => ({ ...fault, hits }));
  }

  /** What is to go wrong with this request; the first rule that strikes decides. */
  strike(operation: string, client: string | null): FaultEffect | null {
    for (const rule of this.#rules) {
      const { fault } = rule;
      if (fault.operation !== '*' && fault.operation !== operation) continue;
      if (fault.client !== undefined && fault.client !== client) continue;
      if (rule.seen++ < fault.after || (fault.count !== undefined && rule.hits >= fault.count)) continue;
      if (!this.#random.chance(fault.probability)) continue;
      rule.hits++;
      return fault.effect;
    }
    return null;
  }
}

/** Bends an answer before it is written. Works on a copy. */
export function bendPayload(payload: unknown, effect: FaultEffect, selfUrl: string): unknown {
  if (typeof payload !== 'object' || payload === null) return payload;
  const bent = structuredClone(payload) as Record<string, unknown>;
  const next = effect.repeatNext
    ? selfUrl
    : effect.nextOrigin
      ? `${effect.nextOrigin}${new URL(selfUrl).pathname}?stolen=1`
      : null;
  if (next !== null) bent.links = { next };
  for (const { path, value } of effect.set ?? []) setMember(bent, path, value);
  return bent;
}

function setMember(root: unknown, path: readonly (string | number)[], value: unknown): void {
  const last = path.at(-1);
  let target = root;
  for (const member of path.slice(0, -1)) target = (target as Record<string | number, unknown> | undefined)?.[member];
  if (typeof target !== 'object' || target === null || last === undefined) return;
  if (value === undefined) delete (target as Record<string | number, unknown>)[last];
  else (target as Record<string | number, unknown>)[last] = value;
}
