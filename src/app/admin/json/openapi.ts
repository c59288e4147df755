import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { version } from '../../version.ts';
import { type PageDescription, pageDescriptions } from './schemas.ts';

const jsonType = 'application/json';
const errorSchema = toSchema(z.strictObject({ error: z.string() }));

/**
 * Registers `/openapi.json`: the OpenAPI 3.1 document of the pages as JSON.
 * @param basePath path that a proxy puts before all others
 */
export function registerOpenApiRoute(app: FastifyInstance, basePath: string): void {
  const document = createOpenApiDocument(basePath);
  app.get('/openapi.json', async (_request, reply) => reply.send(document));
}

/** Creates the document from the schemas of the pages. */
function createOpenApiDocument(basePath: string): Record<string, unknown> {
  const paths = Object.entries(pageDescriptions).map(([path, page]) => [path, { get: describePage(path, page) }]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'fulfilment-sync',
      version,
      description: `The pages of a worker as JSON. Send \`Accept: ${jsonType}\`. They only read; actions are forms of the pages.`,
    },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    paths: Object.fromEntries(paths),
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    // Without ADMIN_TOKEN, this machine needs no token.
    security: [{ token: [] }, {}],
  };
}

function describePage(path: string, { summary, query, answer }: PageDescription): Record<string, unknown> {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inQuery = query.map((name) => ({
    name,
    in: 'query',
    required: path === '/order',
    schema: { type: 'string' },
  }));
  const refusal = (description: string) => ({ description, content: { [jsonType]: { schema: errorSchema } } });
  return {
    summary,
    operationId:
      path === '/'
        ? 'overview'
        : path.slice(1).replaceAll(/[^a-z]+(\w)?/g, (_, next = '') => String(next).toUpperCase()),
    parameters: [...inPath, ...inQuery],
    responses: {
      200: { description: 'The page', content: { [jsonType]: { schema: toSchema(answer) } } },
      401: refusal('The token is missing or wrong'),
      '4XX': refusal('The request is not accepted'),
      503: refusal('The database cannot be reached'),
    },
  };
}

function toSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'output', reused: 'inline' });
  return json;
}
