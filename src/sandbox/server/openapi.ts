import { z } from 'zod';
import { operations } from '../operations/all.ts';
import type { Operation } from '../operations/operation.ts';
import type { World } from '../world.ts';
import { formType } from './request-input.ts';

const refusal = z.strictObject({
  status: z.string(),
  title: z.string(),
  source: z.object({ parameter: z.string(), pointer: z.string() }).partial().optional(),
});

/**
 * Creates the OpenAPI 3.1 document, of the dialect `plain`. `x-documented` and
 * `x-not-in-description` mark what docs/interface.md lacks.
 */
export function createOpenApiDocument({ strictness }: World): Record<string, unknown> {
  const { strict = false } = strictness;
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations.filter(({ described }) => described || !strict)) {
    const path = operation.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][operation.method.toLowerCase()] = describeOperation(operation);
  }

  return {
    openapi: '3.1.0',
    info: {
      title: 'Warehouse fulfilment service (sandbox)',
      version: '1.0.0',
    },
    paths,
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    security: [{ bearer: [] }],
  };
}

const jsonType = 'application/json';
const bodyTypes = {
  never: [jsonType],
  allowed: [jsonType, formType],
  only: [formType],
} as const;

function describeOperation(operation: Operation): Record<string, unknown> {
  const { name, summary, documented, described, replacedBy, open, form, body } = operation;
  const schema = body && { schema: toSchema(body, 'input') };
  const content = Object.fromEntries(bodyTypes[form].map((type) => [type, schema]));

  return {
    operationId: name,
    summary,
    tags: [name.split('.', 1)[0]],
    'x-documented': documented,
    ...(!described && { 'x-not-in-description': true }),
    ...(replacedBy !== null && { deprecated: true }),
    parameters: listParameters(operation),
    ...(body && { requestBody: { required: !body.safeParse(null).success, content } }),
    ...(open && { security: [] }),
    responses: {
      200: describeAnswer('Done', operation.answer),
      ...(!open && { 401: { description: 'The token is invalid or expired' } }),
      ...(name === 'common.token' && { 400: { description: 'The credentials are wrong' } }),
      ...(name.startsWith('v3.') && {
        '4XX': describeAnswer('Refused', z.strictObject({ errors: z.array(refusal) })),
      }),
    },
  };
}

const describeAnswer = (description: string, schema: z.ZodType) => ({
  description,
  content: { [jsonType]: { schema: toSchema(schema, 'output') } },
});

/** Lists the parameters of path and query. Values of lists are separated by commas. */
function listParameters({ path, query, required }: Operation) {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } };
  });
  const inQuery = Object.entries(query).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: toSchema(schema, 'output'),
    ...(schema instanceof z.ZodArray && { style: 'form', explode: false }),
  }));
  return [...inPath, ...inQuery];
}

function toSchema(schema: z.ZodType, io: 'input' | 'output'): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return json;
}
