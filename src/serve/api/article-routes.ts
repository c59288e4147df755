import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { type ArticleTable, forgetArticle, nameArticles } from '../../pull/sql/stock-rows.ts';
import { type ApiDeps, toCaller } from './api-deps.ts';
import type { Budget } from './budget.ts';
import type { RouteSchemas } from './document.ts';
import { articleParams } from './schemas.ts';

const tables = [
  { table: 'stock_watch', what: 'an article whose stock is read' },
  { table: 'service_products', what: 'an article that is a cost, and is never shipped' },
] as const;

const writes = [
  {
    method: 'PUT',
    verb: 'Names',
    write: (db: ApiDeps['db'], table: ArticleTable, client: string, sku: string) =>
      nameArticles(db, table, client, [sku]),
  },
  { method: 'DELETE', verb: 'Forgets', write: forgetArticle },
] as const;

/** Registers the routes that name articles, as the ERP does by SQL. All may be repeated. */
export function registerArticles(app: FastifyInstance, { db }: ApiDeps, budget: Budget): void {
  for (const { table, what } of tables)
    for (const { method, verb, write } of writes) {
      const schema: RouteSchemas = {
        summary: `${verb} ${what}`,
        params: articleParams,
        response: { 200: articleParams },
      };

      const handler = (request: FastifyRequest) => {
        const { sku } = request.params as z.output<typeof articleParams>;
        return budget.run(request, async () => {
          await write(db, `fulfilment.${table}`, toCaller(request).client, sku);
          return { sku };
        });
      };

      app.route({
        method,
        url: `/v1/${table}/:sku`,
        schema,
        config: { right: 'write' },
        handler,
      });
    }
}
