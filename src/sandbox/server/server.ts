/** The sandbox's HTTP server: routes, answers, faults and pages. */

import { setTimeout as wait } from 'node:timers/promises';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { ZodError, z } from 'zod';
import { addControlRoutes } from '../controls.ts';
import {
  changePayload,
  changeText,
  type FaultEffect,
  isAnswerReplaced,
  sendFault,
} from '../faults.ts';
import { operations } from '../operations/all.ts';

import { type Call, nok, type Operation } from '../operations/operation.ts';
import { addPageRoutes } from '../page/page.ts';
import { Refusal, refuseOtherSites } from '../refusal.ts';
import type { LoggedRequest } from '../request-log.ts';

import type { World } from '../world.ts';
import { formType, readInput, splitUrl } from './request-input.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The operation of the service; null for a control or page of the sandbox; undefined for an
     * unknown route.
     */
    operation?: Operation | null;
  }
  interface FastifyRequest {
    client: string | null;
    logged: LoggedRequest | null;
    effect: FaultEffect | null;
    /** The body as it was sent. Null if it was not read. */
    bodyText: string | null;
  }
}

const bodyLimit = 32 * 1024 * 1024;

/** Creates the sandbox's server. */
export function createSandbox(world: World): FastifyInstance {
  const app = fastify({
    logger: false,
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    frameworkErrors: (error, request, reply) => refuseUrl(error, request, reply, world),
    routerOptions: { caseSensitive: false, maxParamLength: 500 },
    bodyLimit,
  });
  for (const name of ['client', 'logged', 'effect', 'bodyText']) app.decorateRequest(name, null);
  addParsers(app);
  addHooks(app, world);
  app.setErrorHandler((error, { routeOptions: { config } }, reply) =>
    answerError(error, config.operation?.name ?? '', reply),
  );

  for (const operation of operations)
    app.route({
      method: operation.method,
      url: operation.path,
      config: { operation },
      handler: (request, reply) => answerOperation(operation, request, reply, world),
    });
  const config = { operation: null };
  addControlRoutes(app, world, config);
  addPageRoutes(app, world, config);
  app.get('/openapi.json', { config }, async () => createOpenApiDocument(world));
  return app;
}

function addParsers(app: FastifyInstance): void {
  const options = { parseAs: 'string' } as const;
  app.addContentTypeParser<string>(
    formType,
    options,
    async (request: FastifyRequest, body: string) => {
      request.bodyText = body;
    },
  );

  const json = app.getDefaultJsonParser('error', 'error');
  // Clients also send the content type with requests without a body, such as a cancel. The second
  // type is for JSON:API.
  const types = ['application/json', 'application/vnd.api+json'];
  app.addContentTypeParser<string>(types, options, (request, body, done) => {
    request.bodyText = body;
    return body === '' ? done(null, undefined) : json(request, body, done);
  });
}

function addHooks(app: FastifyInstance, world: World): void {
  app.addHook('onRequest', async (request) => refuseOtherSites(request));
  app.addHook('onRequest', (request, reply) => takeRequest(request, reply, world));
  // A fault may prevent the answer, so that the request is kept before.
  app.addHook('preValidation', async (request) => keepBodies(request, world, null));
  app.addHook('preSerialization', async (request, _reply, payload) =>
    changePayload(request, payload, (id, seconds) => {
      // Only operations with a token answer with rows that have an id.
      const { visibility } = world.requireClient(request.client ?? '');
      visibility.hiddenUntilMs.set(id, world.clock.nowMs() + seconds * 1_000);
    }),
  );
  app.addHook('onSend', async (request, reply, payload) => {
    if (typeof payload !== 'string') return payload;
    keepBodies(request, world, payload);
    return changeText(request, reply, payload);
  });
}

/** Keeps the bodies of a logged request; its answer as it was before faults changed its bytes. */
function keepBodies(
  { logged, headers, bodyText: requestBody }: FastifyRequest,
  { log }: World,
  answerBody: string | null,
): void {
  if (logged === null) return;
  const { 'content-type': contentType = null, authorization } = headers;
  const hasToken = authorization !== undefined;
  log.keepBodies(logged.place, { contentType, hasToken, requestBody, answerBody });
}

interface Problem {
  readonly title: string;
  readonly source?: { readonly parameter: string } | { readonly pointer: string };
}

const toErrors = (status: number, problems: readonly Problem[]) => ({
  errors: problems.map((problem) => ({ status: String(status), ...problem })),
});

/**
 * Answers a refused request in the form of its generation. The forms of v3 and the token are our
 * assumption.
 */
function answerError(error: unknown, name: string, reply: FastifyReply): FastifyReply {
  const { status, problems } = describeError(error);
  const titles = problems.map(({ title }) => title).join('; ');
  if (name === 'common.token') {
    const code = error instanceof Refusal && status === 400 ? 'invalid_grant' : 'invalid_request';
    return reply.code(status).send({ error: code, error_description: titles });
  }
  if (!/^(oldest|v2|common)\./.test(name))
    return reply.code(status).send(toErrors(status, problems));

  // Older operations report logical errors in the envelope, with status 200 (docs/interface.md, 4.1
  // Outcomes).
  return reply.code(isRefusal(error) && status !== 415 ? 200 : status).send(nok(titles));
}

const isRefusal = (error: unknown) => error instanceof Refusal || error instanceof ZodError;

function describeError(error: unknown): { status: number; problems: Problem[] } {
  if (error instanceof ZodError) return { status: 400, problems: error.issues.map(toProblem) };

  const { message: title, statusCode = 500 } = error as Error & { statusCode?: number };
  if (!(error instanceof Refusal)) return { status: statusCode, problems: [{ title }] };
  const { status, parameter } = error;
  return { status, problems: [{ title, ...(parameter && { source: { parameter } }) }] };
}

function toProblem({ path, message }: ZodError['issues'][number]): Problem {
  const place = path.map(String);
  if (place.length === 0) return { title: message };
  return { title: `${place.join('.')}: ${message}`, source: { pointer: `/${place.join('/')}` } };
}

/**
 * Logs a request, applies faults, and checks its token. Returns the reply if the request is
 * answered with that.
 */
async function takeRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  world: World,
): Promise<FastifyReply | undefined> {
  reply.header('date', new Date(world.clock.nowMs()).toUTCString());
  request.client = world.findClientByToken(readBearer(request));
  const { operation } = request.routeOptions.config;
  if (operation === null) return undefined;

  const isHidden = operation !== undefined && !operation.described && world.strictness.strict;
  const served = isHidden ? undefined : operation;
  logRequest(request, reply, served?.name ?? null, world);
  if (served === undefined) {
    const why = isHidden ? ': docs/interface.md does not show it, and this sandbox is strict' : '';
    return reply.code(404).send(toErrors(404, [{ title: `There is no such route${why}` }]));
  }

  const effect = world.faults.matchRequest(served.name, request.client);
  request.effect = effect;
  if (effect !== null) {
    if (request.logged) request.logged.faulty = true;
    world.changes++;
    // A timer may fire up to a millisecond early, but the delay must not be shorter than the rule
    // says.
    if (effect.delayMs !== undefined) await wait(effect.delayMs + 1);
    if (effect.expireTokens) world.expireTokens();
    if (isAnswerReplaced(effect) && !effect.afterEffect && effect.effectAfterMs === undefined)
      return sendFault(request, reply, effect);
  }

  if (served.open || world.findClientByToken(readBearer(request)) !== null) return undefined;
  return reply.code(401).send({ message: 'Authorization has been denied for this request.' });
}

/** Logs a request, and its status and duration when its answer or its connection has ended. */
function logRequest(
  request: FastifyRequest,
  { raw }: FastifyReply,
  operation: string | null,
  world: World,
): void {
  const startMs = performance.now();
  const [path, query] = splitUrl(request.raw.url ?? '');
  const { method, client = null } = request;
  const logged = world.log.add({ atMs: Date.now(), method, path, query, operation, client });
  request.logged = logged;

  raw.once('close', () => {
    logged.status = raw.headersSent ? raw.statusCode : null;
    logged.durationMs = Math.round(performance.now() - startMs);
  });
}

/** Answers a request whose URL is malformed, and logs it like a request for an unknown route. */
function refuseUrl(error: Error, request: FastifyRequest, reply: FastifyReply, world: World): void {
  logRequest(request, reply, null, world);
  reply.code(400).send(toErrors(400, [{ title: error.message }]));
}

/**
 * Runs an operation. If a fault replaces its answer, it runs before or after the request has ended.
 */
async function answerOperation(
  operation: Operation,
  request: FastifyRequest,
  reply: FastifyReply,
  world: World,
): Promise<unknown> {
  const { effect } = request;
  const run = () => runOperation(operation, request, world);
  if (effect === null || !isAnswerReplaced(effect)) return run();

  if (effect.effectAfterMs === undefined) await run().catch(ignoreRefusal);
  else {
    const { resets } = world;
    setTimeout(() => {
      // The connection has ended, so that a refusal cannot be answered.
      if (world.resets === resets) run().catch(ignoreRefusal);
    }, effect.effectAfterMs).unref();
  }
  return sendFault(request, reply, effect);
}

async function runOperation(
  operation: Operation,
  request: FastifyRequest,
  world: World,
): Promise<unknown> {
  const { query, body } = readInput(operation, request, world);
  const [path, rawQuery] = splitUrl(request.url);
  const client = request.client === null ? undefined : world.requireClient(request.client);
  const call = {
    world,
    client,
    query,
    body,
    path: request.params as Record<string, string>,
    address: { origin: `${request.protocol}://${request.host}`, path, rawQuery },
    nowMs: world.clock.nowMs(),
    lagMs: request.effect?.lagMs ?? 0,
  };

  try {
    return await operation.run(call as unknown as Call<never, never>);
  } finally {
    if (operation.method !== 'GET') world.changes++;
  }
}

/** Ignores a refusal that cannot be answered any more. Other errors are defects of the sandbox. */
function ignoreRefusal(error: unknown): void {
  if (!isRefusal(error)) throw error;
}

function readBearer({ headers }: FastifyRequest): string {
  return /^bearer (.+)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
}

const refusal = z.strictObject({
  status: z.string(),
  title: z.string(),
  source: z.object({ parameter: z.string(), pointer: z.string() }).partial().optional(),
});

/**
 * Creates the OpenAPI 3.1 document, of the dialect `plain`. `x-documented` and
 * `x-not-in-description` mark what docs/interface.md lacks.
 */
function createOpenApiDocument({ strictness }: World) {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations.filter(({ described }) => described || !strictness.strict)) {
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

function describeOperation(operation: Operation) {
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

function toSchema(schema: z.ZodType, io: 'input' | 'output') {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return json;
}
