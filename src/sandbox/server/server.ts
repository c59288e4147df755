/**
 * The sandbox's HTTP server: routes, answers, faults and pages. It serves only the operations of operations/all.ts and
 * the sandbox's controls.
 */

import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { ZodError } from 'zod';
import { addControlRoutes } from '../control/controls.ts';
import { refuseOtherSites } from '../control/same-origin.ts';
import type { FaultEffect } from '../faults.ts';
import { readForm } from '../form.ts';
import { operations } from '../operations/all.ts';
import { nok, type Operation } from '../operations/operation.ts';
import { addPageRoutes, isPageForm, renderRefusedForm, sendPage } from '../page/page.ts';
import { type ErrorSource, Refusal } from '../refusal.ts';
import type { LoggedRequest } from '../request-log.ts';
import type { World } from '../world.ts';
import { answerOperation, applyFaultToAnswer, applyFaultToBody, refuseUrl, takeRequest } from './handle-request.ts';
import { createOpenApiDocument } from './openapi.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation of the service; null for a control or page of the sandbox; undefined for an unknown route. */
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

/**
 * Creates the sandbox's server. It serves the operations of docs/interface.md. docs/sandbox.md lists our decisions
 * on what docs/interface.md leaves open.
 */
export function createSandbox(world: World): FastifyInstance {
  const app = fastify({
    logger: false,
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    frameworkErrors: (error, request, reply) => refuseUrl(error, request, reply, world),
    routerOptions: { caseSensitive: false, maxParamLength: 500 },
    bodyLimit,
  });
  app.decorateRequest('client', null);
  app.decorateRequest('logged', null);
  app.decorateRequest('startedAtMs', 0);
  app.decorateRequest('effect', null);
  app.decorateRequest('bodyText', null);
  addParsers(app);
  addHooks(app, world);
  app.setErrorHandler((error, request, reply) => {
    if (!isPageForm(request)) return answerError(error, request.routeOptions.config.operation ?? null, reply);
    const { status, problems } = describeError(error);
    const titles = problems.map(({ title }) => title);
    return sendPage(reply.code(status), renderRefusedForm(request, titles));
  });
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
  app.get('/openapi.json', { config: { operation: null } }, async () => createOpenApiDocument(world));
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
  // Clients also send the content type with requests without a body, such as a cancel. The second type is for JSON:API.
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
  app.addHook('onRequest', (request: FastifyRequest, reply: FastifyReply) => takeRequest(request, reply, world));
  // A fault may prevent the answer, so that the request is kept before.
  app.addHook('preValidation', async (request) => keepBodies(request, world));
  app.addHook('preSerialization', async (request, _reply, payload) => applyFaultToAnswer(request, payload, world));
  app.addHook('onSend', async (request, reply, payload) => {
    if (typeof payload === 'string') keepBodies(request, world, payload);
    return applyFaultToBody(request, reply, payload);
  });
  app.addHook('onResponse', async (request, reply) => {
    if (request.logged === null) return;
    request.logged.status = reply.statusCode;
    request.logged.durationMs = Math.round(performance.now() - request.startedAtMs);
  });
}

/**
 * Keeps the bodies of a logged request.
 * @param answer the answer before faults change its bytes; absent if there is none yet
 */
function keepBodies(request: FastifyRequest, { log }: World, answer?: string): void {
  if (request.logged === null) return;
  log.bodies.keep(request.logged.place, {
    contentType: request.headers['content-type'] ?? null,
    hasToken: request.headers.authorization !== undefined,
    request: request.bodyText ?? undefined,
    answer,
  });
}

/** An error of a request, with the part of the request that caused it. */
interface Problem {
  readonly title: string;
  readonly source?: ErrorSource;
}

/**
 * Answers a request that is not accepted, in the form of its generation: JSON:API errors for v3, a NOK envelope for
 * older operations, and an OAuth error for the token. docs/interface.md does not show the errors of v3 and of the
 * token; their forms are our assumption.
 */
function answerError(error: unknown, operation: Operation | null, reply: FastifyReply): FastifyReply {
  const { status, problems } = describeError(error);
  const name = operation?.name ?? '';
  if (name === 'common.token') {
    const code = error instanceof Refusal && status === 400 ? 'invalid_grant' : 'invalid_request';
    return reply.code(status).send({ error: code, error_description: joinTitles(problems) });
  }
  if (/^(oldest|v2|common)\./.test(name)) {
    // Older operations report logical errors in the envelope, with status 200 (docs/interface.md, 4.1 Outcomes).
    const isLogical = error instanceof Refusal || error instanceof ZodError;
    return reply.code(isLogical && status !== 415 ? 200 : status).send(nok(joinTitles(problems)));
  }
  return reply.code(status).send({ errors: problems.map((problem) => ({ status: String(status), ...problem })) });
}

/** Returns the status of an error and its problems in words. */
function describeError(error: unknown): { status: number; problems: Problem[] } {
  if (error instanceof Refusal)
    return {
      status: error.status,
      problems: [{ title: error.message, ...(error.source && { source: error.source }) }],
    };
  if (error instanceof ZodError) return { status: 400, problems: error.issues.map(toProblem) };
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  return { status, problems: [{ title: error instanceof Error ? error.message : 'An unknown error' }] };
}

function toProblem({ path, message }: ZodError['issues'][number]): Problem {
  const place = path.map(String);
  if (place.length === 0) return { title: message };
  return { title: `${place.join('.')}: ${message}`, source: { pointer: `/${place.join('/')}` } };
}

function joinTitles(problems: readonly Problem[]): string {
  return problems.map(({ title }) => title).join('; ');
}
