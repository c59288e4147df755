import type { FastifyInstance } from 'fastify';
import type { z } from 'zod';
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

/** @throws ApiError 404 if the client of the token has no such row, whatever other clients have */
function findOne([document]: readonly string[]): string {
  if (document === undefined) throw new ApiError(404, 'The client of the token has no such row');
  return document;
}

/** Registers the routes that read. */
export function registerReads(app: FastifyInstance, { db }: ApiDeps): void {
  const addRead: AddRead = (url, summary, parameters, answer, read) => {
    const place = url.includes(':') ? 'params' : 'querystring';
    const schema: RouteSchemas = { summary, [place]: parameters, response: { 200: answer } };
    app.get(url, { schema, config: { right: 'read' } }, async (request, reply) => {
      const given = (place === 'params' ? request.params : request.query) as never;
      return reply.type('application/json').send(await read(given, toCaller(request).client));
    });
  };
  const { idParams } = schemas;
  addRead(
    '/v1/outbox/:id',
    'A row of the outbox, with its history',
    idParams,
    schemas.outboxRow,
    async ({ id }, client) => {
      const row = await readOutbox(db, id);
      if (row?.client !== client) throw new ApiError(404, 'The client of the token has no such row');
      return { ...row, payload: parseExact(row.payload) };
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
        const continueFrom = Number(/continue from (\d+)$/.exec(error.message)?.[1]);
        throw new ApiError(410, error.message, { continueFrom });
      }
    },
  );
  addRead(
    '/v1/orders',
    'The orders that have a number, the newest first',
    schemas.numberQuery,
    schemas.orderList,
    async ({ number }, client) => `{"orders":[${await readOrderDocuments(db, client, { number })}]}`,
  );
  const orderSummary = 'An order with its state, items, addresses and shipments';
  addRead('/v1/orders/:id', orderSummary, idParams, schemas.order, async ({ id }, client) =>
    findOne(await readOrderDocuments(db, client, { id })),
  );
  const shipmentSummary = 'A shipment with its items and parcels';
  addRead('/v1/shipments/:id', shipmentSummary, idParams, schemas.shipment, async ({ id }, client) =>
    findOne(await readShipmentDocuments(db, client, id)),
  );
  addRead('/v1/return-items/:id', 'A return item', idParams, schemas.returnItem, async ({ id }, client) =>
    findOne(await readReturnItemDocuments(db, client, id)),
  );
  const stockSummary = 'The stock of an article of fulfilment.stock_watch';
  addRead('/v1/stock/:sku', stockSummary, schemas.skuParams, schemas.stockLevel, async ({ sku }, client) =>
    findOne(await readStockDocuments(db, client, sku)),
  );
}
