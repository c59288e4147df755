import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ApiToken } from '../../../config/files.ts';
import { type CheckedRows, checkRows, newRows } from '../../push/check-payload.ts';
import type { CodeLists, PayloadProblem } from '../../push/kind.ts';
import { readStoredCodes } from '../../push/setting-codes.ts';
import { insertRows, type RequestKey, readStoredRequest } from '../../push/sql/insert-rows.ts';
import { type ApiDeps, ApiError, refuseForNow, toCaller } from './api-deps.ts';
import type { Budget } from './budget.ts';
import type { RouteSchemas } from './document.ts';
import { checked, keyHeaders, newIds } from './schemas.ts';

/** Maximum milliseconds until the rows of one request are checked, with the wait for a turn. */
const checkMs = 45_000;
/**
 * Milliseconds for which the codes of a client are reused. A payload that they refuse is checked
 * with new ones.
 */
const codesMs = 10_000;

/** Registers the routes that check rows of the outbox, and that insert them. */
export function registerInserts(
  app: FastifyInstance,
  deps: ApiDeps,
  budget: Budget,
  check: CheckRequest,
): void {
  const schema: RouteSchemas = {
    summary:
      'Inserts one row, or several in one transaction; with the same Idempotency-Key, at most once',
    headers: keyHeaders,
    body: newRows,
    response: { 202: newIds },
  };
  app.post('/v1/outbox', { schema, config: { right: 'write' } }, async (request, reply) => {
    const caller = toCaller(request);
    const { 'idempotency-key': key } = request.headers as z.output<typeof keyHeaders>;

    const { rows } = await check(request);
    const named = key === undefined ? null : { token: caller.name, key, bodyHash: rows.hash };
    const ids = await budget.run(request, async () => {
      const known = await findIds(deps, caller, named);
      return known ?? insertChecked(deps, caller, rows, named);
    });

    const answer = ids.map((id) => ({ id }));
    return reply.code(202).send(rows.isList ? answer : answer[0]);
  });

  const checkSchema: RouteSchemas = {
    summary: 'Finds what a worker would refuse in one row, or in several. Inserts nothing',
    body: newRows,
    response: { 200: checked },
  };
  const checkOptions = { schema: checkSchema, config: { right: 'write' } } as const;
  app.post('/v1/outbox/check', checkOptions, async (request) => {
    const { rows, unchecked } = await check(request);
    return { problems: toTexts(rows.problems), why_unchecked: unchecked };
  });
}

/** @throws ApiError if the request has no body */
export function readBody({ body }: FastifyRequest): Uint8Array {
  if (body instanceof Uint8Array) return body;
  throw new ApiError(422, 'The request is missing: send one row, or several in an array');
}

/** Returns the ids that an earlier request with this key inserted; null if there was none. */
async function findIds(
  { db }: ApiDeps,
  { client }: ApiToken,
  named: RequestKey | null,
): Promise<readonly number[] | null> {
  const stored = named === null ? null : await readStoredRequest(db, client, named);

  if (stored !== null && stored.bodyHash !== named?.bodyHash)
    throw new ApiError(
      422,
      'This Idempotency-Key was used for another body; use a new key for a new request',
    );
  return stored?.ids ?? null;
}

const toTexts = (problems: readonly PayloadProblem[]) => problems.map(({ text }) => text);

export const refuseRows = (problems: readonly PayloadProblem[]) =>
  new ApiError(422, 'Nothing was stored: a worker would refuse this; `problems` says why', {
    problems: toTexts(problems),
  });

/** Inserts checked rows. If another request with the key is faster, returns its ids. */
async function insertChecked(
  deps: ApiDeps,
  caller: ApiToken,
  { rows, problems }: CheckedRows,
  named: RequestKey | null,
): Promise<readonly number[]> {
  if (problems.length > 0) throw refuseRows(problems);

  const inserted = await insertRows(deps.db, caller.client, rows, named);
  const ids = inserted ?? (await findIds(deps, caller, named));
  if (ids === null) throw refuseForNow('The request was not stored; try again');
  return ids;
}

/**
 * What was found in a body. `unchecked` says why codes were not compared with lists; null if they
 * were.
 */
interface Check {
  readonly rows: CheckedRows;
  readonly unchecked: string | null;
}

/** Checks the rows in the body of a request. */
export type CheckRequest = (request: FastifyRequest) => Promise<Check>;

/** The codes of a client, kept for a while. */
interface KeptCodes {
  readonly codes: CodeLists;
  readonly unchecked: string | null;
  readonly untilMs: number;
}

/**
 * Creates the check of the body of a request: that of `outbox check`, for each of its rows. It
 * takes turns at the database only to read codes.
 */
export function createCheck({ db, config: { operations } }: ApiDeps, budget: Budget): CheckRequest {
  const kept = new Map<string, KeptCodes>();

  const checkWith = async (request: FastifyRequest, codes: CodeLists) => {
    const body = readBody(request);
    const signal = AbortSignal.timeout(checkMs);
    const context = { codes, operations, owner: `token ${toCaller(request).name}`, signal };
    const checking = budget.check(request, () => checkRows(body, context));
    const found = await checking.catch((error: unknown) => {
      if (!signal.aborted) throw error;
      throw refuseForNow('Too many large requests are being checked; try again', 5);
    });

    if ('hash' in found) return found;
    if (!('status' in found)) throw refuseRows(found.problems);
    const { status, detail, problems } = found;
    throw new ApiError(status, detail, problems.length > 0 ? { problems: toTexts(problems) } : {});
  };

  return async (request) => {
    const { client } = toCaller(request);
    const known = kept.get(client);
    if (known !== undefined && known.untilMs > performance.now()) {
      const rows = await checkWith(request, known.codes);
      if (rows.problems.length === 0) return { rows, unchecked: known.unchecked };
    }

    const { codes, unchecked } = await budget.run(request, () => readStoredCodes(db, client));
    kept.set(client, { codes, unchecked, untilMs: performance.now() + codesMs });
    return { rows: await checkWith(request, codes), unchecked };
  };
}
