/** The routes that write: rows of the outbox, and articles. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ApiToken } from '../../../config/files.ts';
import { parseExact } from '../../core/json.ts';
import { type ArticleTable, forgetArticle, nameArticles } from '../../pull/sql/stock-rows.ts';
import { type CheckedRows, checkRows, newRow, newRows } from '../../push/check-payload.ts';
import type { CodeLists, PayloadProblem } from '../../push/kind.ts';
import { maxPayloadValues } from '../../push/payload.ts';
import { readStoredCodes } from '../../push/setting-codes.ts';
import { insertRows, type RequestKey, readStoredRequest } from '../../push/sql/insert-rows.ts';
import { RequestError } from '../request-error.ts';
import { changeRow, replacePayload, requireRow } from '../row-actions.ts';
import { type ApiDeps, refuseForNow, toCaller } from './api-deps.ts';
import type { Budget } from './budget.ts';
import type { RouteSchemas } from './document.ts';
import { articleParams, checked, idParams, keyHeaders, newId, newIds } from './schemas.ts';

/** Maximum milliseconds until the rows of one request are checked, with the wait for a turn. */
const checkMs = 45_000;
/**
 * Milliseconds for which the codes of a client are reused. A payload that they refuse is checked
 * with new ones.
 */
const codesMs = 10_000;

/** Registers the routes that check and change rows of the outbox, and that name articles. */
export function registerWrites(app: FastifyInstance, deps: ApiDeps, budget: Budget): void {
  const check = createCheck(deps, budget);
  const addWrite: AddWrite = (method, url, schema, handler) =>
    app.route({ method, url, schema, config: { right: 'write' }, handler });
  addArticles(addWrite, deps, budget);

  const inserted = {
    summary:
      'Inserts one row, or several in one transaction; with the same Idempotency-Key, at most once',
    headers: keyHeaders,
    body: newRows,
    response: { 202: newIds },
  };
  addWrite('POST', '/v1/outbox', inserted, async (request, reply) => {
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

  const checkedOnly = {
    summary: 'Finds what a worker would refuse in one row, or in several. Inserts nothing',
    body: newRows,
    response: { 200: checked },
  };
  addWrite('POST', '/v1/outbox/check', checkedOnly, async (request) => {
    const { rows, unchecked } = await check(request);
    return { problems: toTexts(rows.problems), why_unchecked: unchecked };
  });

  addChanges(addWrite, deps, budget, check);
}

/** Registers a route that needs the right to write. */
type AddWrite = (
  method: 'DELETE' | 'POST' | 'PUT',
  url: string,
  schema: RouteSchemas,
  handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
) => void;

/** Adds the routes that change dead and pending rows, as the functions of the outbox do. */
function addChanges(addWrite: AddWrite, { db }: ApiDeps, budget: Budget, check: CheckRequest) {
  const readOwn = (request: FastifyRequest) => {
    const { id } = request.params as z.output<typeof idParams>;
    return requireRow(db, id, toCaller(request).client);
  };

  const replaced = {
    summary: 'Replaces the payload of a dead or pending row, which is then sent in its place',
    params: idParams,
    body: newRow,
    response: { 200: newId },
  };
  addWrite('POST', '/v1/outbox/:id/replace', replaced, async (request) => {
    const { rows } = await check(request);
    if (rows.problems.length > 0) throw refuseRows(rows.problems);
    if (rows.isList) throw new RequestError(422, 'Send one row, not a list');

    const sent = newRow.parse(
      parseExact(Buffer.from(readBody(request)).toString(), maxPayloadValues),
    );
    return budget.run(request, async () => {
      const row = await readOwn(request);
      if (row.kind !== sent.kind || row.reference !== sent.reference)
        throw new RequestError(422, `Row ${row.id} is ${row.kind} of ${row.reference}`);

      const time = sent.not_before ?? sent.notBefore;
      if (time !== undefined && Date.parse(time) !== row.notBefore?.getTime())
        throw new RequestError(422, `Row ${row.id} keeps its time: leave out not_before`);

      await replacePayload(db, row.id, JSON.stringify(sent.payload), nameCaller(request));
      return { id: row.id };
    });
  });

  const cancelled = {
    summary: 'Cancels a dead or pending row: it is never sent',
    params: idParams,
    response: { 200: newId },
  };
  addWrite('POST', '/v1/outbox/:id/cancel', cancelled, (request) =>
    budget.run(request, async () => {
      const row = await readOwn(request);
      await changeRow(db, row, 'cancel', { isSure: true, by: nameCaller(request) });
      return { id: row.id };
    }),
  );
}

const nameCaller = (request: FastifyRequest) => `token ${toCaller(request).name}`;

const articleTables = [
  { table: 'stock_watch', what: 'an article whose stock is read' },
  { table: 'service_products', what: 'an article that is a cost, and is never shipped' },
] as const;

const articleWrites = [
  {
    method: 'PUT',
    verb: 'Names',
    write: (db: ApiDeps['db'], table: ArticleTable, client: string, sku: string) =>
      nameArticles(db, table, client, [sku]),
  },
  { method: 'DELETE', verb: 'Forgets', write: forgetArticle },
] as const;

/** Adds the routes that name articles, as the ERP does by SQL. All may be repeated. */
function addArticles(addWrite: AddWrite, { db }: ApiDeps, budget: Budget): void {
  for (const { table, what } of articleTables)
    for (const { method, verb, write } of articleWrites) {
      const schema = {
        summary: `${verb} ${what}`,
        params: articleParams,
        response: { 200: articleParams },
      };
      addWrite(method, `/v1/${table}/:sku`, schema, (request) => {
        const { sku } = request.params as z.output<typeof articleParams>;
        return budget.run(request, async () => {
          await write(db, `fulfilment.${table}`, toCaller(request).client, sku);
          return { sku };
        });
      });
    }
}

/** @throws RequestError if the request has no body */
function readBody({ body }: FastifyRequest): Uint8Array {
  if (body instanceof Uint8Array) return body;
  throw new RequestError(422, 'The request is missing: send one row, or several in an array');
}

/** Returns the ids that an earlier request with this key inserted; null if there was none. */
async function findIds(
  { db }: ApiDeps,
  { client }: ApiToken,
  named: RequestKey | null,
): Promise<readonly number[] | null> {
  const stored = named === null ? null : await readStoredRequest(db, client, named);

  if (stored !== null && stored.bodyHash !== named?.bodyHash)
    throw new RequestError(
      422,
      'This Idempotency-Key was used for another body; use a new key for a new request',
    );
  return stored?.ids ?? null;
}

const toTexts = (problems: readonly PayloadProblem[]) => problems.map(({ text }) => text);

const refuseRows = (problems: readonly PayloadProblem[]) =>
  new RequestError(422, 'Nothing was stored: a worker would refuse this; `problems` says why', {
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
type CheckRequest = (request: FastifyRequest) => Promise<Check>;

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
function createCheck({ db, config: { operations } }: ApiDeps, budget: Budget): CheckRequest {
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
    throw new RequestError(
      status,
      detail,
      problems.length > 0 ? { problems: toTexts(problems) } : {},
    );
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
