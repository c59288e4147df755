import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { z } from 'zod';
import type { ApiToken } from '../../../config/files.ts';
import { findValueProblems, readStoredCodes } from '../../push/check-payload.ts';
import { type CodeFinder, limitProblems, maxProblems } from '../../push/kind.ts';
import { makeKinds } from '../../push/kinds/registry.ts';
import {
  insertRows,
  type NewRow,
  type RequestKey,
  readStoredRequest,
} from '../../push/sql/insert-rows.ts';
import { type ApiDeps, ApiError, toCaller } from './api-deps.ts';
import type { Budget } from './budget.ts';
import type { RouteSchemas } from './document.ts';
import { checked, keyHeaders, newIds, newRows } from './schemas.ts';

/** Maximum milliseconds of the checks of one request. */
const checkMs = 10_000;
/**
 * Milliseconds for which the codes of a client are reused. A payload that they refuse is checked
 * with new ones.
 */
const codesMs = 10_000;

/** Registers the routes that check rows of the outbox, and that insert them. */
export function registerInserts(app: FastifyInstance, deps: ApiDeps, budget: Budget): void {
  const findProblems = createCheck(deps);
  const schema: RouteSchemas = {
    summary:
      'Inserts one row, or several in one transaction; with the same Idempotency-Key, at most once',
    headers: keyHeaders,
    body: newRows,
    response: { 202: newIds },
  };
  app.post('/v1/outbox', { schema, config: { right: 'write' } }, async (request, reply) => {
    const caller = toCaller(request);
    const body = request.body as z.output<typeof newRows>;
    const { 'idempotency-key': key } = request.headers as z.output<typeof keyHeaders>;
    const named = key === undefined ? null : { token: caller.name, key, bodyHash: hashBody(body) };
    const ids = await budget.run(request, async () => {
      const known = await findIds(deps, caller, named);
      return known ?? insertChecked(deps, caller, toRows(body), named, findProblems);
    });
    const answer = ids.map((id) => ({ id }));
    return reply.code(202).send(Array.isArray(body) ? answer : answer[0]);
  });

  const checkSchema: RouteSchemas = {
    summary: 'Finds what a worker would refuse in one row, or in several. Inserts nothing',
    body: newRows,
    response: { 200: checked },
  };
  app.post(
    '/v1/outbox/check',
    { schema: checkSchema, config: { right: 'write' } },
    async (request) => {
      const { client } = toCaller(request);
      const rows = toRows(request.body as z.output<typeof newRows>);
      const { problems, unchecked } = await budget.run(request, () => findProblems(client, rows));
      return { problems, why_unchecked: unchecked };
    },
  );
}

const toRows = (body: z.output<typeof newRows>): readonly NewRow[] =>
  [body].flat().map(({ not_before, notBefore, ...row }) => ({
    ...(row as Pick<NewRow, 'kind' | 'reference' | 'payload'>),
    notBefore: not_before ?? notBefore,
  }));

const hashBody = (body: unknown) => createHash('sha256').update(JSON.stringify(body)).digest('hex');

/**
 * What was found wrong with rows. `unchecked` says why codes were not compared with lists; null if
 * they were.
 */
interface Check {
  readonly problems: readonly string[];
  readonly unchecked: string | null;
}
type FindProblems = (client: string, rows: readonly NewRow[]) => Promise<Check>;

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

/** Checks the rows and inserts them. If another request with the key is faster, returns its ids. */
async function insertChecked(
  deps: ApiDeps,
  caller: ApiToken,
  rows: readonly NewRow[],
  named: RequestKey | null,
  findProblems: FindProblems,
): Promise<readonly number[]> {
  const { problems } = await findProblems(caller.client, rows);
  if (problems.length > 0)
    throw new ApiError(
      422,
      'Nothing was inserted: a worker would refuse this; `problems` says why',
      { problems },
    );
  const ids =
    (await insertRows(deps.db, caller.client, rows, named)) ?? (await findIds(deps, caller, named));
  if (ids === null)
    throw new ApiError(503, 'The request was not stored; try again', {}, { 'retry-after': '1' });
  return ids;
}

/** The codes of a client, kept for a while. */
interface KeptCodes {
  readonly codes: CodeFinder;
  readonly unchecked: string | null;
  readonly untilMs: number;
}

/** Creates the check of rows: that of `outbox check`, for each row. */
function createCheck({ db, config: { operations } }: ApiDeps): FindProblems {
  const kinds = new Map(makeKinds(operations).map((kind) => [kind.name, kind]));
  const kept = new Map<string, KeptCodes>();
  const checkAll = async (rows: readonly NewRow[], codes: CodeFinder) => {
    const context = { codes, operations, signal: AbortSignal.timeout(checkMs) };
    const found: string[] = [];
    for (const [place, { kind: name, reference, payload }] of rows.entries()) {
      if (found.length > maxProblems) break;
      const kind = kinds.get(name);
      const problems =
        kind === undefined
          ? [`kind: there is no kind ${name}; known are ${[...kinds.keys()].join(', ')}`]
          : await findValueProblems(kind, payload, reference, context);
      for (const problem of problems)
        found.push(rows.length === 1 ? problem : `[${place}] ${problem}`);
      await nextTurn();
    }
    return limitProblems(found);
  };
  return async (client, rows) => {
    const known = kept.get(client);
    const isKnown = known !== undefined && known.untilMs > performance.now();
    if (isKnown && (await checkAll(rows, known.codes)).length === 0)
      return { problems: [], unchecked: known.unchecked };

    const { codes, unchecked } = await readStoredCodes(db, client);
    kept.set(client, { codes, unchecked, untilMs: performance.now() + codesMs });
    return { problems: await checkAll(rows, codes), unchecked };
  };
}
