import type { FastifyInstance } from 'fastify';
import type { z } from 'zod';
import { readSqlState } from '../../db/transaction.ts';
import {
  readClientChanges,
  readEntity,
  readNewestSeq,
  readOrdersByNumber,
} from '../../operate/sql/program-reads.ts';
import { type OutboxDetail, readOutbox } from '../../push/sql/read-outbox.ts';
import { type ApiDeps, ApiError, toCaller } from './api-deps.ts';
import type { Budget } from './budget.ts';
import type { RouteSchemas } from './document.ts';
import * as schemas from './schemas.ts';

/**
 * Adds a route that reads for the client of the token.
 * @param parameters what the path names, or else the query
 * @param read returns the answer, or its JSON text
 */
type AddRead = <P extends z.ZodObject>(
  url: string,
  summary: string,
  parameters: P,
  answer: z.ZodType,
  read: (given: z.output<P>, client: string) => Promise<unknown>,
) => void;

const noSuchRow = () => new ApiError(404, 'The client of the token has no such row');

/** Returns a row of the outbox as JSON text. The payload is its text: numbers keep their digits. */
function toOutboxText({ payload, history, ...row }: OutboxDetail): string {
  const steps = history.map(({ durationMs, ...step }) => ({ ...step, duration_ms: durationMs }));
  const { nextAttemptAt, createdAt, finishedAt, lastError, ...others } = row;
  const { waitsFor, rowsBehind, mayBeCarriedOut, ...shown } = others;
  const named = {
    ...shown,
    next_attempt_at: nextAttemptAt,
    created_at: createdAt,
    finished_at: finishedAt,
    last_error: lastError,
    waits_for: waitsFor,
    rows_behind: rowsBehind,
    may_be_carried_out: mayBeCarriedOut,
    history: steps,
  };
  return `${JSON.stringify(named).slice(0, -1)},"payload":${payload}}`;
}

/** Registers the routes that read. */
export function registerReads(app: FastifyInstance, { db }: ApiDeps, budget: Budget): void {
  const addRead: AddRead = (url, summary, parameters, answer, read) => {
    const place = url.includes(':') ? 'params' : 'querystring';
    const schema: RouteSchemas = { summary, [place]: parameters, response: { 200: answer } };
    app.get(url, { schema, config: { right: 'read' } }, async (request, reply) => {
      const given = (place === 'params' ? request.params : request.query) as never;
      const found = await budget.run(request, () => read(given, toCaller(request).client));
      return reply.type('application/json').send(found);
    });
  };
  addRead(
    '/v1/outbox/:id',
    'A row of the outbox, with its history',
    schemas.idParams,
    schemas.outboxRow,
    async ({ id }, client) => {
      const row = await readOutbox(db, id);
      if (row?.client !== client) throw noSuchRow();
      return toOutboxText(row);
    },
  );
  addRead(
    '/v1/changes',
    'The feed: what changed after a place, in the order of commits',
    schemas.changesQuery,
    schemas.changes,
    async ({ after, limit }, client) => {
      try {
        return await readClientChanges(db, client, after, limit);
      } catch (error) {
        if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
        throw new ApiError(410, error.message, { continue_from: await readNewestSeq(db) });
      }
    },
  );
  addRead(
    '/v1/orders',
    'The orders that have a number, the newest first',
    schemas.numberQuery,
    schemas.orderList,
    async ({ number }, client) => `{"orders":[${await readOrdersByNumber(db, client, number)}]}`,
  );
  addRead(
    '/v1/:entity/:id',
    'A row of a table that the feed names; orders and shipments with what belongs to them',
    schemas.entityParams,
    schemas.anyEntityRow,
    async ({ entity, id }, client) => {
      const known = schemas.entityNames.find((name) => name === entity);
      if (known === undefined)
        throw new ApiError(
          404,
          `There is no such table; there are ${schemas.entityNames.join(', ')}`,
        );
      const row = await readEntity(db, client, known, id);
      if (row === null) throw noSuchRow();
      return row;
    },
  );
}
