import { z } from 'zod';
import { notServed, operations } from '../operations/all.ts';
import type { Operation } from '../operations/operation.ts';

const errors = z.strictObject({
  errors: z.array(
    z.strictObject({
      status: z.string(),
      title: z.string(),
      source: z.strictObject({ parameter: z.string().optional(), pointer: z.string().optional() }).optional(),
    }),
  ),
});
const oauthError = z.strictObject({ error: z.string(), error_description: z.string() });
const unauthorized = z.strictObject({ message: z.string() });

/**
 * The OpenAPI 3.1 document of the service as the sandbox plays it, made from the very schemas that read its requests.
 * Operations whose method or path interface.md does not show carry `x-documented: false`.
 */
export function openApiDocument(): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    const path = operation.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: describe(operation) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Warehouse fulfilment service (sandbox)',
      version: '1.0.0',
      description: `Not served: ${notServed.map(({ name, why }) => `${name} (${why})`).join('; ')}.`,
    },
    paths,
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    security: [{ bearer: [] }],
  };
}

function describe(operation: Operation): Record<string, unknown> {
  const { name, summary, documented, open, body, form, answer } = operation;
  const types = form === 'only' ? [formType] : form === 'allowed' ? [jsonType, formType] : [jsonType];
  const schema = body === null ? null : { schema: schemaOf(body, 'input') };
  const isV3 = name.startsWith('v3.');
  return {
    operationId: name,
    summary,
    tags: [name.split('.', 1)[0]],
    'x-documented': documented,
    parameters: [...pathParameters(operation), ...queryParameters(operation)],
    ...(schema && {
      requestBody: {
        required: !body?.safeParse(null).success,
        content: Object.fromEntries(types.map((type) => [type, schema])),
      },
    }),
    ...(open && { security: [] }),
    responses: {
      200: { description: 'Done', content: { [jsonType]: { schema: schemaOf(answer, 'output') } } },
      ...(open ? {} : { 401: response('The token is invalid or expired', unauthorized) }),
      ...(name === 'common.token' ? { 400: response('The credentials are wrong', oauthError) } : {}),
      ...(isV3 ? { '4XX': response('The request is not accepted', errors) } : {}),
    },
  };
}

const jsonType = 'application/json';
const formType = 'application/x-www-form-urlencoded';

function response(description: string, schema: z.ZodType) {
  return { description, content: { [jsonType]: { schema: schemaOf(schema, 'output') } } };
}

function pathParameters({ path }: Operation) {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

/** Lists are comma separated. */
function queryParameters({ query, required }: Operation) {
  return Object.entries(query).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: schemaOf(schema, 'output'),
    ...(schema instanceof z.ZodArray ? { style: 'form', explode: false } : {}),
  }));
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return json;
}
