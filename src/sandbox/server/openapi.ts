import { z } from 'zod';
import { notServed, operations } from '../operations/all.ts';
import type { Operation } from '../operations/operation.ts';
import type { World } from '../world.ts';

const source = z.strictObject({ parameter: z.string().optional(), pointer: z.string().optional() });
const v3Error = z.strictObject({
  status: z.string(),
  title: z.string(),
  source: source.optional(),
});
const errorsSchema = z.strictObject({ errors: z.array(v3Error) });
const oauthErrorSchema = z.strictObject({ error: z.string(), error_description: z.string() });
const unauthorizedSchema = z.strictObject({ message: z.string() });

/**
 * Creates the OpenAPI 3.1 document, of the dialect `plain`. `x-documented` and
 * `x-not-in-description` mark what docs/interface.md lacks.
 */
export function createOpenApiDocument({ strict }: World): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    if (strict && !operation.described) continue;
    const path = operation.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = {
      ...paths[path],
      [operation.method.toLowerCase()]: describeOperation(operation, strict),
    };
  }
  const reasons = notServed.map(({ name, why }) => `${name} (${why})`);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Warehouse fulfilment service (sandbox)',
      version: '1.0.0',
      description: `Not served: ${reasons.join('; ')}.`,
    },
    paths,
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    security: [{ bearer: [] }],
  };
}

function describeOperation(operation: Operation, isStrict: boolean): Record<string, unknown> {
  const { name, summary, documented, described, replacedBy, open, form } = operation;
  const body = isStrict ? operation.describedBody : operation.body;
  const types =
    form === 'only' ? [formType] : form === 'allowed' ? [jsonType, formType] : [jsonType];
  const schema = body === null ? null : { schema: toSchema(body, 'input') };
  const isV3 = name.startsWith('v3.');
  return {
    operationId: name,
    summary,
    tags: [name.split('.', 1)[0]],
    'x-documented': documented,
    ...(!described && { 'x-not-in-description': true }),
    ...(replacedBy !== null && { deprecated: true }),
    parameters: [...listPathParameters(operation), ...listQueryParameters(operation)],
    ...(schema && {
      requestBody: {
        required: !body?.safeParse(null).success,
        content: Object.fromEntries(types.map((type) => [type, schema])),
      },
    }),
    ...(open && { security: [] }),
    responses: {
      200: describeResponse('Done', operation.answer),
      ...(open
        ? {}
        : { 401: describeResponse('The token is invalid or expired', unauthorizedSchema) }),
      ...(name === 'common.token'
        ? { 400: describeResponse('The credentials are wrong', oauthErrorSchema) }
        : {}),
      ...(isV3 ? { '4XX': describeResponse('The request is not accepted', errorsSchema) } : {}),
    },
  };
}

const jsonType = 'application/json';
const formType = 'application/x-www-form-urlencoded';

function describeResponse(description: string, schema: z.ZodType) {
  return { description, content: { [jsonType]: { schema: toSchema(schema, 'output') } } };
}

function listPathParameters({ path }: Operation) {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

/** Returns the query parameters of an operation. Values of lists are separated by commas. */
function listQueryParameters({ query, required }: Operation) {
  return Object.entries(query).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: toSchema(schema, 'output'),
    ...(schema instanceof z.ZodArray ? { style: 'form', explode: false } : {}),
  }));
}

function toSchema(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return json;
}
