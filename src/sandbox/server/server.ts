/** The sandbox's HTTP server: routes, answers, faults and pages. */

import type { OutgoingHttpHeaders } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { ZodError, type z } from 'zod';
import { addControlRoutes } from '../control/controls.ts';
import { changePayload, type FaultEffect, isAnswerReplaced, streamInPieces } from '../faults.ts';
import type { Oddity } from '../findings.ts';
import { isForm, normalizeBody, readForm } from '../normalize-body.ts';
import { notServed, operations } from '../operations/all.ts';
import {
  Call,
  nok,
  type Operation,
  type QueryReading,
  readQuery,
} from '../operations/operation.ts';
import { toRichAnswer } from '../operations/v3-dialect.ts';
import { addPageRoutes } from '../page/page.ts';
import { type ErrorSource, Refusal, refuseOtherSites } from '../refusal.ts';
import type { LoggedRequest } from '../request-log.ts';
import type { World } from '../world.ts';
import { createOpenApiDocument } from './openapi.ts';

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
    startedAtMs: number;
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
  app.decorateRequest('startedAtMs', 0);
  addParsers(app);
  addHooks(app, world);
  app.setErrorHandler((error, request, reply) =>
    answerError(error, request.routeOptions.config.operation ?? null, reply),
  );
  for (const operation of operations) {
    app.route({
      method: operation.method,
      url: operation.path,
      config: { operation },
      handler: (request, reply) => answerOperation(operation, request, reply, world),
    });
  }
  addControlRoutes(app, world);
  addPageRoutes(app, world);
  app.get('/openapi.json', { config: { operation: null } }, async () =>
    createOpenApiDocument(world),
  );
  return app;
}

function addParsers(app: FastifyInstance): void {
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (request: FastifyRequest, body: string) => {
      request.bodyText = body;
      return readForm(body);
    },
  );
  const json = app.getDefaultJsonParser('error', 'error');
  // Clients also send the content type with requests without a body, such as a cancel. The second
  // type is for JSON:API.
  app.addContentTypeParser<string>(
    ['application/json', 'application/vnd.api+json'],
    { parseAs: 'string' },
    (request, body, done) => {
      request.bodyText = body;
      return body === '' ? done(null, undefined) : json(request, body, done);
    },
  );
}

function addHooks(app: FastifyInstance, world: World): void {
  app.addHook('onRequest', async (request) => refuseOtherSites(request));
  app.addHook('onRequest', (request: FastifyRequest, reply: FastifyReply) =>
    takeRequest(request, reply, world),
  );
  // A fault may prevent the answer, so that the request is kept before.
  app.addHook('preValidation', async (request) => keepBodies(request, world));
  app.addHook('preSerialization', async (request, _reply, payload) =>
    applyFaultToAnswer(request, payload, world),
  );
  app.addHook('onSend', async (request, reply, payload) => {
    if (typeof payload === 'string') keepBodies(request, world, payload);
    return applyFaultToBody(request, reply, payload);
  });
  app.addHook('onResponse', async (request, reply) => recordEnd(request, reply.statusCode));
}

/** Keeps the bodies of a logged request; its answer as it was before faults changed its bytes. */
function keepBodies(request: FastifyRequest, { log }: World, answer: string | null = null): void {
  if (request.logged === null) return;
  log.keepBodies(request.logged.place, {
    contentType: request.headers['content-type'] ?? null,
    hasToken: request.headers.authorization !== undefined,
    request: request.bodyText,
    answer,
  });
}

interface Problem {
  readonly title: string;
  readonly source?: ErrorSource;
}

/**
 * Answers a refused request in the form of its generation. The forms of v3 and the token are our
 * assumption.
 */
function answerError(
  error: unknown,
  operation: Operation | null,
  reply: FastifyReply,
): FastifyReply {
  const { status, problems } = describeError(error);
  const name = operation?.name ?? '';
  if (name === 'common.token') {
    const code = error instanceof Refusal && status === 400 ? 'invalid_grant' : 'invalid_request';
    return reply.code(status).send({ error: code, error_description: joinTitles(problems) });
  }
  if (/^(oldest|v2|common)\./.test(name)) {
    // Older operations report logical errors in the envelope, with status 200 (docs/interface.md,
    // 4.1 Outcomes).
    const isLogical = error instanceof Refusal || error instanceof ZodError;
    return reply.code(isLogical && status !== 415 ? 200 : status).send(nok(joinTitles(problems)));
  }
  return reply
    .code(status)
    .send({ errors: problems.map((problem) => ({ status: String(status), ...problem })) });
}

function describeError(error: unknown): { status: number; problems: Problem[] } {
  if (error instanceof Refusal)
    return {
      status: error.status,
      problems: [{ title: error.message, ...(error.source && { source: error.source }) }],
    };
  if (error instanceof ZodError) return { status: 400, problems: error.issues.map(toProblem) };
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  return {
    status,
    problems: [{ title: error instanceof Error ? error.message : 'An unknown error' }],
  };
}

function toProblem({ path, message }: ZodError['issues'][number]): Problem {
  const place = path.map(String);
  if (place.length === 0) return { title: message };
  return { title: `${place.join('.')}: ${message}`, source: { pointer: `/${place.join('/')}` } };
}

function joinTitles(problems: readonly Problem[]): string {
  return problems.map(({ title }) => title).join('; ');
}

/**
 * Answers a request for an unknown route. Says why, if it is a call that clients of similar
 * services make.
 */
function refuseRoute(path: string, reply: FastifyReply, isExtra: boolean): FastifyReply {
  const why = isExtra
    ? 'docs/interface.md does not show it, and this sandbox is strict'
    : notServed.find(({ name }) => name.split(' ').at(-1) === path.toLowerCase())?.why;
  const title = why === undefined ? 'There is no such route' : `There is no such route: ${why}`;
  return reply.code(404).send({ errors: [{ status: '404', title }] });
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
  const operation = selectOperation(request.routeOptions.config.operation, world);
  request.startedAtMs = performance.now();
  request.client = world.findClientByToken(readBearer(request));
  if (operation === null) return undefined;
  request.logged = logRequest(request, operation?.name ?? null, world);
  if (operation === undefined)
    return refuseRoute(
      request.logged.path,
      reply,
      request.routeOptions.config.operation !== undefined,
    );
  const effect = world.faults.matchRequest(operation.name, request.client);
  request.effect = effect;
  if (effect !== null) {
    request.logged.faulty = true;
    world.changes++;
    // A timer may fire up to a millisecond early, but the delay must not be shorter than the rule
    // says.
    if (effect.delayMs !== undefined) await wait(effect.delayMs + 1);
    if (effect.expireTokens) world.expireTokens();
    if (isAnswerReplaced(effect) && !effect.afterEffect && effect.effectAfterMs === undefined)
      return sendFault(request, reply, effect);
  }
  if (operation.open || world.findClientByToken(readBearer(request)) !== null) return undefined;
  return reply.code(401).send({ message: 'Authorization has been denied for this request.' });
}

/**
 * Returns the operation of a route. Returns undefined, as for an unknown route, if the sandbox is
 * not to serve it.
 */
function selectOperation(operation: Operation | null | undefined, { strict }: World) {
  return operation && !operation.described && strict ? undefined : operation;
}

function logRequest(
  request: FastifyRequest,
  operation: string | null,
  world: World,
): LoggedRequest {
  const [path, query] = splitUrl(request.raw.url ?? '');
  const client = world.findClientByToken(readBearer(request));
  const [atMs, virtualMs] = [Date.now(), world.clock.nowMs()];
  return world.log.add({ atMs, virtualMs, method: request.method, path, query, operation, client });
}

/** Answers a request whose URL is malformed, and logs it like a request for an unknown route. */
function refuseUrl(error: Error, request: FastifyRequest, reply: FastifyReply, world: World): void {
  Object.assign(logRequest(request, null, world), { status: 400, durationMs: 0 });
  reply.code(400).send({ errors: [{ status: '400', title: error.message }] });
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
  if (effect === null || !isAnswerReplaced(effect)) return runOperation(operation, request, world);
  if (effect.effectAfterMs !== undefined) {
    const { resets } = world;
    setTimeout(() => {
      // The connection has ended, so that a refusal cannot be answered.
      if (world.resets === resets) runOperation(operation, request, world).catch(ignoreRefusal);
    }, effect.effectAfterMs).unref();
    return sendFault(request, reply, effect);
  }
  await runOperation(operation, request, world).catch(ignoreRefusal);
  return sendFault(request, reply, effect);
}

/** Changes an answer as the fault says, and hides a row if the fault says so. */
function applyFaultToAnswer(request: FastifyRequest, payload: unknown, world: World): unknown {
  const { effect, client } = request;
  if (effect === null) return payload;
  const rows = (payload as { data?: { id: number; type: string }[] } | null)?.data;
  const row =
    effect.hideRow === undefined || !Array.isArray(rows) ? undefined : rows[effect.hideRow.index];
  if (effect.hideRow !== undefined && row !== undefined && client !== null)
    world
      .requireClient(client)
      .visibility.hide(row.type, row.id, world.clock.nowMs() + effect.hideRow.seconds * 1_000);
  return changePayload(payload, effect, `${request.protocol}://${request.host}${request.url}`);
}

function applyFaultToBody(request: FastifyRequest, reply: FastifyReply, payload: unknown): unknown {
  const { effect } = request;
  if (typeof payload !== 'string' || effect === null) return payload;
  if (effect.contentType !== undefined) reply.header('content-type', effect.contentType);
  if (effect.truncate) {
    reply.hijack();
    const half = payload.slice(0, Math.floor(payload.length / 2));
    const headers = { ...reply.getHeaders(), 'content-length': Buffer.byteLength(payload) };
    reply.raw.writeHead(reply.statusCode, headers as OutgoingHttpHeaders);
    reply.raw.write(half, () => request.raw.socket.destroy());
    recordEnd(request, reply.statusCode);
    return payload;
  }
  if (effect.empty && reply.statusCode < 300) {
    reply.code(204).removeHeader('content-type');
    return '';
  }
  const body = effect.invalidJson ? `${payload.slice(0, -1)},,` : payload;
  return effect.drip === undefined ? body : streamInPieces(body, effect.drip);
}

async function runOperation(
  operation: Operation,
  request: FastifyRequest,
  world: World,
): Promise<unknown> {
  const [path, rawQuery] = splitUrl(request.url);
  const { query, body } = readInput(operation, request, world);
  const client = request.client === null ? undefined : world.requireClient(request.client);
  const { switches } = world;
  const call = new Call<never, never>(world, client, {
    query: query as never,
    body: body as never,
    path: request.params as Record<string, string>,
    address: { origin: `${request.protocol}://${request.host}`, path, rawQuery },
    lagMs: request.effect?.lagMs ?? 0,
  });
  try {
    const answer = await operation.run(call);
    if (switches.dialect === 'plain' || client === undefined || !operation.name.startsWith('v3.'))
      return answer;
    return toRichAnswer(answer, client.simulation.store, switches.included);
  } finally {
    if (operation.method !== 'GET') world.changes++;
  }
}

function sendFault(
  request: FastifyRequest,
  reply: FastifyReply,
  effect: FaultEffect,
): FastifyReply {
  if (effect.status === undefined) {
    reply.hijack();
    if (effect.reset) request.raw.socket.resetAndDestroy();
    recordEnd(request, null);
    return reply;
  }
  reply.code(effect.status);
  if (effect.retryAfter !== undefined) reply.header('retry-after', effect.retryAfter);
  if (effect.location !== undefined) reply.header('location', effect.location);
  if (effect.html) return reply.type('text/html').send('<html><body>Bad gateway</body></html>');
  return reply.send({
    errors: [{ status: String(effect.status), title: 'A fault of the sandbox' }],
  });
}

function recordEnd(request: FastifyRequest, status: number | null): void {
  if (request.logged === null) return;
  request.logged.status = status;
  request.logged.durationMs = Math.round(performance.now() - request.startedAtMs);
}

/** Ignores a refusal that cannot be answered any more. Other errors are defects of the sandbox. */
function ignoreRefusal(error: unknown): void {
  if (error instanceof Refusal || error instanceof ZodError) return;
  throw error;
}

function readBearer(request: FastifyRequest): string {
  return /^bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
}

/**
 * Reads query and body, and records what docs/interface.md does not show. Strict refuses it, else
 * it is adapted.
 */
function readInput(
  operation: Operation,
  request: FastifyRequest,
  { strict: isStrict, findings, clock, switches: { decodesBeforeSplit } }: World,
): { readonly query: unknown; readonly body: unknown } {
  const record = (oddity: Oddity) => findings.add(request.client, operation.name, oddity);
  const reading = {
    isStrict,
    isOlder: /^(oldest|v2)\./.test(operation.name),
    decodesBeforeSplit,
    record,
  };
  const { replacedBy, advised, method, path, described } = operation;
  if (advised !== null) findings.noteCall(request.client, operation.name, advised, clock.nowMs());
  if (replacedBy !== null)
    record({ code: 'deprecated_call', member: '', shape: `${method} ${path}`, meant: replacedBy });
  if (!described) record({ code: 'not_in_description', member: '', shape: `${method} ${path}` });
  const [, rawQuery] = splitUrl(request.url);
  const query = readQuery(rawQuery, operation.query, operation.required, reading);
  const { form, body, describedBody } = operation;
  const schema = isStrict ? describedBody : body;
  return { query, body: schema === null ? null : readBody({ schema, form }, request, reading) };
}

function readBody(
  { schema, form }: { readonly schema: z.ZodType; readonly form: Operation['form'] },
  request: FastifyRequest,
  { isStrict, isOlder, record }: QueryReading,
): unknown {
  const isFormBody = isForm(request);
  if (isFormBody && form === 'never') record({ code: 'form_body', member: '', shape: 'form' });
  const takesForms = form !== 'never' || (isOlder && !isStrict);
  if (isFormBody ? !takesForms : form === 'only')
    throw new Refusal(
      415,
      isFormBody ? 'The body must be JSON' : 'The body must be application/x-www-form-urlencoded',
    );
  const body = request.body ?? null;
  const normalized = normalizeBody(body, schema, { isOlder, isForm: isFormBody, record });
  return schema.parse(isStrict ? body : normalized);
}

function splitUrl(url: string): [string, string] {
  const mark = url.indexOf('?');
  return mark < 0 ? [url, ''] : [url.slice(0, mark), url.slice(mark + 1)];
}
