import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { version } from '../../core/version.ts';
import { problem } from './schemas.ts';

/** The schemas of a route. */
export interface RouteSchemas {
  readonly summary: string;
  readonly params?: z.ZodObject;
  readonly querystring?: z.ZodObject;
  readonly headers?: z.ZodObject;
  readonly body?: z.ZodType;
  readonly response: Readonly<Record<number, z.ZodType>>;
}

interface DescribedRoute {
  readonly url: string;
  readonly method: string;
  readonly schema: RouteSchemas;
}

/**
 * Collects the routes that are registered from now on. Returns a function that makes their OpenAPI
 * 3.1 document.
 */
export function createApiDocument(app: FastifyInstance): () => object {
  const routes: DescribedRoute[] = [];

  app.addHook('onRoute', ({ url, method, schema }) => {
    if (schema?.response === undefined || method === 'HEAD') return;
    routes.push({
      url,
      method: String(method).toLowerCase(),
      schema: schema as unknown as RouteSchemas,
    });
  });

  return () => ({
    openapi: '3.1.0',
    info: {
      title: 'fulfilment-sync API',
      version,
      description: 'Rows of the client of the token. Errors are problem+json.',
    },
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    security: [{ token: [] }],
    paths: describePaths(routes),
  });
}

const toJsonSchema = (schema: z.ZodType, io: 'input' | 'output') => {
  const { $schema: _, ...found } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return found;
};

function describePaths(routes: readonly DescribedRoute[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const { url, method, schema } of routes) {
    const path = url.replaceAll(/:(\w+)/g, '{$1}');
    const operationId = nameOperation(method, path);
    paths[path] = { ...paths[path], [method]: { operationId, ...describeRoute(schema) } };
  }
  return paths;
}

/** Returns the name of an operation, such as `postOutboxCheck`. */
function nameOperation(method: string, path: string): string {
  const words = path
    .replaceAll(/^\/v1\/|[{}]/g, '')
    .replaceAll(/[^a-z]+(\w)/g, (_, next: string) => next.toUpperCase());
  return `${method}${words.charAt(0).toUpperCase()}${words.slice(1)}`;
}

function describeRoute({ summary, params, querystring, headers, body, response }: RouteSchemas) {
  const parameters = [
    ...describeParameters(params, 'path'),
    ...describeParameters(querystring, 'query'),
    ...describeParameters(headers, 'header'),
  ];
  return {
    summary,
    parameters,
    ...(body && { requestBody: { required: true, ...describeContent(body, 'input') } }),
    responses: {
      ...describeAnswers(response),
      '4XX': describeProblem,
      '5XX': describeProblem,
    },
  };
}

/** Describes a body, or an answer. */
const describeContent = (schema: z.ZodType, io: 'input' | 'output', type = 'application/json') => ({
  content: { [type]: { schema: toJsonSchema(schema, io) } },
});

const describeProblem = {
  description: 'The request is refused, or failed; `detail` says why',
  ...describeContent(problem, 'output', 'application/problem+json'),
};

const describeAnswers = (answers: RouteSchemas['response']) =>
  Object.fromEntries(
    Object.entries(answers).map(([status, schema]) => [
      status,
      { description: 'Success', ...describeContent(schema, 'output') },
    ]),
  );

function describeParameters(
  schema: z.ZodObject | undefined,
  place: 'path' | 'query' | 'header',
): object[] {
  return Object.entries(schema?.shape ?? {}).map(([name, member]) => ({
    name: place === 'header' ? name.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase()) : name,
    in: place,
    required: !member.safeParse(undefined).success,
    schema: toJsonSchema(member as z.ZodType, 'input'),
  }));
}
