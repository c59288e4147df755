import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ApiToken } from '../../../config/files.ts';
import { parseExact } from '../../core/json.ts';
import { readSqlState } from '../../erp/connection/transaction.ts';
import { readOutbox } from '../../erp/outbox/read-outbox.ts';
import {
  readClientChanges,
  readOrderDocuments,
  readReturnItemDocuments,
  readShipmentDocuments,
  readStockDocuments,
} from '../../erp/reports/program-reads.ts';
import { type ApiDeps, ApiError, toCaller } from './api-deps.ts';
import type { RouteSchemas } from './document.ts';
import * as schemas from './schemas.ts';

/** A route that reads, for the client of the token. */
interface ReadRoute<P extends z.ZodObject> {
  readonly url: string;
  readonly summary: string;
  /** What the path, or else the query, names. */
  readonly params?: P;
  readonly querystring?: P;
  readonly answer: z.ZodType;
  /** Returns the answer, or its JSON text. */
  readonly read: (given: z.output<P>, caller: ApiToken) => Promise<unknown>;
}

function addRead<P extends z.ZodObject>(app: FastifyInstance, route: ReadRoute<P>): void {
  const { url, summary, params, querystring, answer, read } = route;
  const parts = { ...(params && { params }), ...(querystring && { querystring }) };
  const schema: RouteSchemas = { summary, ...parts, response: { 200: answer } };
  app.get(url, { schema, config: { right: 'read' } }, async (request: FastifyRequest, reply: FastifyReply) => {
    const given = (params === undefined ? request.query : request.params) as z.output<P>;
    return reply.type('application/json').send(await read(given, toCaller(request)));
  });
}

/** @throws ApiError 404 if the client of the token has no such row, whatever other clients have */
function findOne([document]: readonly string[]): string {
  if (document === undefined) throw new ApiError(404, 'The client of the token has no such row');
  return document;
}

/** Registers the routes that read. */
export function registerReads(app: FastifyInstance, { db }: ApiDeps): void {
  addRead(app, {
    url: '/v1/outbox/:id',
    summary: 'A row of the outbox, with its history',
    params: schemas.idParams,
    answer: schemas.outboxRow,
    read: async ({ id }, { client }) => {
      const row = await readOutbox(db, id);
      if (row?.client !== client) throw new ApiError(404, 'The client of the token has no such row');
      return { ...row, payload: parseExact(row.payload) };
    },
  });
  addRead(app, {
    url: '/v1/changes',
    summary: 'The feed: what changed after a place, in the order of commits',
    querystring: schemas.changesQuery,
    answer: schemas.changes,
    read: async ({ after, limit }, { client }) => {
      try {
        return await readClientChanges(db, client, after, limit);
      } catch (error) {
        if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
        const continueFrom = Number(/continue from (\d+)$/.exec(error.message)?.[1]);
        throw new ApiError(410, error.message, { continueFrom });
      }
    },
  });
  addRead(app, {
    url: '/v1/orders',
    summary: 'The orders that have a number, the newest first',
    querystring: schemas.numberQuery,
    answer: schemas.orderList,
    read: async ({ number }, { client }) => `{"orders":[${await readOrderDocuments(db, client, { number })}]}`,
  });
  addRead(app, {
    url: '/v1/orders/:id',
    summary: 'An order with its state, items, addresses and shipments',
    params: schemas.idParams,
    answer: schemas.order,
    read: async ({ id }, { client }) => findOne(await readOrderDocuments(db, client, { id })),
  });
  addRead(app, {
    url: '/v1/shipments/:id',
    summary: 'A shipment with its items and parcels',
    params: schemas.idParams,
    answer: schemas.shipment,
    read: async ({ id }, { client }) => findOne(await readShipmentDocuments(db, client, id)),
  });
  addRead(app, {
    url: '/v1/return-items/:id',
    summary: 'A return item',
    params: schemas.idParams,
    answer: schemas.returnItem,
    read: async ({ id }, { client }) => findOne(await readReturnItemDocuments(db, client, id)),
  });
  addRead(app, {
    url: '/v1/stock/:sku',
    summary: 'The stock of an article of fulfilment.stock_watch',
    params: schemas.skuParams,
    answer: schemas.stockLevel,
    read: async ({ sku }, { client }) => findOne(await readStockDocuments(db, client, sku)),
  });
}
