/** The fault rules, and what they do to requests and answers. */

import type { OutgoingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
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
    delayMs: waitSchema,
    status: z.int().min(300).max(599),
    retryAfter: z.string(),
    location: z.string(),
    /** With status: the body is an HTML page, as a proxy sends it, instead of JSON. */
    html: z.boolean(),
    /** The sandbox accepts the request and never answers it. */
    noAnswer: z.boolean(),
    reset: z.boolean(),
    /** With status, noAnswer or reset: the sandbox carries the request out before. */
    afterEffect: z.boolean(),
    /**
     * With status, noAnswer or reset: the sandbox carries the request out this many milliseconds
     * later.
     */
    effectAfterMs: z.int().min(0).max(maxWaitMs),
    /** Lists and searches show rows as they were this many milliseconds ago. */
    lagMs: waitSchema,
    /** The sandbox sends half of the body and then breaks the connection. */
    truncate: z.boolean(),
    invalidJson: z.boolean(),
    /** A success has the status 204 and no body. */
    empty: z.boolean(),
    contentType: z.string(),
    /** The sandbox sends the body in pieces of `bytes` bytes, one every `everyMs` milliseconds. */
    drip: z.strictObject({ bytes: z.int().positive(), everyMs: waitSchema }),
    /** All tokens granted so far become invalid. */
    expireTokens: z.boolean(),
    /** `links.next` names this origin. */
    nextOrigin: z.string(),
    /** `links.next` names the page that contains it. */
    repeatNext: z.boolean(),
    /** The first row of a list appears again at its end. */
    duplicateRow: z.boolean(),
    reverseRows: z.boolean(),
    /**
     * The row at `index` of this page is hidden from all requests for this many virtual seconds.
     */
    hideRow: z.strictObject({ index: z.int().min(0), seconds: z.number().positive() }),
    /** Sets members of the answer by path. A member without a value is removed. */
    set: z.array(
      z.strictObject({ path: z.array(memberSchema).min(1), value: z.unknown().optional() }),
    ),
  })
  .partial();
export type FaultEffect = z.infer<typeof effectSchema>;

/** Returns whether an effect replaces the answer by another status, none or a broken connection. */
export function isAnswerReplaced({ status, noAnswer, reset }: FaultEffect): boolean {
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
  effect: effectSchema.refine(
    (effect) => isAnswerReplaced(effect) || !(effect.afterEffect ?? effect.effectAfterMs),
    'afterEffect and effectAfterMs go with status, noAnswer or reset',
  ),
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

/** Sends the status of a fault, or breaks the connection, or leaves it open without an answer. */
export function sendFault(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, retryAfter, location, html, reset }: FaultEffect,
): FastifyReply {
  if (status === undefined) {
    reply.hijack();
    if (reset) request.raw.socket.resetAndDestroy();
    return reply;
  }

  reply.code(status);
  if (retryAfter !== undefined) reply.header('retry-after', retryAfter);
  if (location !== undefined) reply.header('location', location);
  if (html) return reply.type('text/html').send('<html><body>Bad gateway</body></html>');
  return reply.send({ errors: [{ status: String(status), title: 'A fault of the sandbox' }] });
}

/**
 * Returns a copy of an answer with the changes that a fault asks for.
 * @param hide hides the row with an id for some seconds
 */
export function changePayload(
  request: FastifyRequest,
  payload: unknown,
  hide: (id: number, seconds: number) => void,
): unknown {
  const { effect } = request;
  if (effect === null || typeof payload !== 'object' || payload === null) return payload;

  const changed = structuredClone(payload) as Record<string, unknown>;
  const selfUrl = `${request.protocol}://${request.host}${request.url}`;
  if (effect.hideRow && Array.isArray(changed.data)) {
    const [row] = changed.data.splice(effect.hideRow.index, 1) as { id: number }[];
    if (row !== undefined) hide(row.id, effect.hideRow.seconds);
  }
  if (effect.nextOrigin)
    changed.links = { next: `${effect.nextOrigin}${new URL(selfUrl).pathname}?stolen=1` };
  if (effect.repeatNext) changed.links = { next: selfUrl };

  for (const name of ['data', 'result']) {
    const rows = changed[name];
    if (!Array.isArray(rows)) continue;
    if (effect.duplicateRow && rows.length > 0) rows.push(rows[0]);
    if (effect.reverseRows) rows.reverse();
  }

  for (const { path, value } of effect.set ?? []) setMember(changed, path, value);
  return changed;
}

type Members = Record<string | number, unknown>;

function setMember(root: unknown, path: readonly (string | number)[], value: unknown): void {
  const parent = path.slice(0, -1).reduce((from, member) => (from as Members)?.[member], root);
  if (typeof parent !== 'object' || parent === null) return;

  const last = path.at(-1) ?? '';
  if (value === undefined) delete (parent as Members)[last];
  else (parent as Members)[last] = value;
}

/** Returns what is sent instead of the text of an answer. May break the connection halfway. */
export function changeText(request: FastifyRequest, reply: FastifyReply, text: string): unknown {
  const { effect } = request;
  if (effect === null) return text;

  if (effect.contentType !== undefined) reply.header('content-type', effect.contentType);
  if (effect.truncate) {
    reply.hijack();
    const headers = { ...reply.getHeaders(), 'content-length': Buffer.byteLength(text) };
    reply.raw.writeHead(reply.statusCode, headers as OutgoingHttpHeaders);
    const half = text.slice(0, Math.floor(text.length / 2));
    reply.raw.write(half, () => request.raw.socket.destroy());
    return text;
  }

  if (effect.empty && reply.statusCode < 300) {
    reply.code(204).removeHeader('content-type');
    return '';
  }
  const body = effect.invalidJson ? `${text.slice(0, -1)},,` : text;
  return effect.drip === undefined
    ? body
    : Readable.from(sendPieces(body, effect.drip), { objectMode: false });
}

async function* sendPieces(body: string, { bytes, everyMs }: NonNullable<FaultEffect['drip']>) {
  const all = Buffer.from(body);
  for (let start = 0; start < all.length; start += bytes) {
    if (start > 0) await wait(everyMs);
    yield all.subarray(start, start + bytes);
  }
}
