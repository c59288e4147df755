import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { Database } from '../../db/pool.ts';
import { readSqlState } from '../../db/transaction.ts';
import {
  readClientChanges,
  readEntity,
  readNewestSeq,
  readOrdersByNumber,
} from '../../operate/sql/program-reads.ts';
import type { OutboxDetail } from '../../push/sql/read-outbox.ts';
import { RequestError } from '../request-error.ts';
import { requireRow } from '../row-actions.ts';
import { type ApiDeps, noSuchRow, toCaller } from './api-deps.ts';
import type { Budget } from './budget.ts';
import type { RouteSchemas } from './document.ts';
import * as schemas from './schemas.ts';

/** A route that reads for the client of the token. */
interface ReadRoute<P extends z.ZodObject> {
  readonly url: string;
  readonly summary: string;
  /** What the path names, or else the query. */
  readonly parameters: P;
  readonly answer: z.ZodType;
  /** Returns the answer, or its JSON text. */
  readonly read: (given: z.output<P>, client: string) => Promise<unknown>;
}

/** Returns the members of an object under the names of columns. */
const nameAsColumns = (row: object) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value as unknown,
    ]),
  );

/** Returns a row of the outbox as JSON text. The payload is its text: numbers keep their digits. */
function toOutboxText({ payload, history, ...row }: OutboxDetail): string {
  const shown = { ...nameAsColumns(row), history: history.map(nameAsColumns) };
  return `${JSON.stringify(shown).slice(0, -1)},"payload":${payload}}`;
}

/** A query without members. */
const noQuery = z.object({});

/** Registers the routes that read. */
export function registerReads(app: FastifyInstance, { db }: ApiDeps, budget: Budget): void {
  const addRead = <P extends z.ZodObject>(route: ReadRoute<P>) => {
    const { url, summary, parameters, answer, read } = route;
    const place = url.includes(':') ? 'params' : 'querystring';
    const parts = { querystring: noQuery, [place]: parameters };
    const schema: RouteSchemas = { summary, ...parts, response: { 200: answer } };

    app.get(url, { schema, config: { right: 'read' } }, async (request, reply) => {
      const given = (place === 'params' ? request.params : request.query) as never;
      const found = await budget.run(request, () => read(given, toCaller(request).client));
      return reply.type('application/json').send(found);
    });
  };

  addRead({
    url: '/v1/outbox/:id',
    summary: 'A row of the outbox, with its history',
    parameters: schemas.idParams,
    answer: schemas.outboxRow,
    read: async ({ id }, client) => toOutboxText(await requireRow(db, id, client)),
  });

  addRead({
    url: '/v1/changes',
    summary: 'The feed: what changed after a place, in the order of commits',
    parameters: schemas.changesQuery,
    answer: schemas.changes,
    read: ({ after, limit }, client) => readChanges(db, client, after, limit),
  });

  addRead({
    url: '/v1/orders',
    summary: 'The orders that have a number, the newest first',
    parameters: schemas.numberQuery,
    answer: schemas.orderList,
    read: async ({ number }, client) =>
      `{"orders":[${await readOrdersByNumber(db, client, number)}]}`,
  });

  addRead({
    url: '/v1/:entity/:id',
    summary:
      'A row of a table that the feed names; orders, shipments and goods with what belongs to them',
    parameters: schemas.entityParams,
    answer: schemas.anyEntityRow,
    read: async ({ entity, id }, client) => {
      const known = schemas.entityNames.find((name) => name === entity);
      const names = schemas.entityNames.join(', ');
      if (known === undefined)
        throw new RequestError(404, `There is no such table; there are ${names}`);

      const row = await readEntity(db, client, known, id);
      if (row === null) throw noSuchRow();
      return row;
    },
  });
}

/** @throws RequestError 410 if the feed no longer has what came after the place */
async function readChanges(
  db: Database,
  client: string,
  after: number,
  limit: number,
): Promise<unknown> {
  try {
    return await readClientChanges(db, client, after, limit);
  } catch (error) {
    if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
    throw new RequestError(410, error.message, { continue_from: await readNewestSeq(db) });
  }
}
