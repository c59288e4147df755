/**
 * The sandbox's HTTP server: routes, answers, faults and pages. It serves only the operations of operations/all.ts and
 * the sandbox's controls.
 */

import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { addControlRoutes } from '../control/controls.ts';
import { refuseOtherSites } from '../control/same-origin.ts';
import type { FaultEffect } from '../faults.ts';
import { readForm } from '../form.ts';
import { operations } from '../operations/all.ts';
import type { Operation } from '../operations/operation.ts';
import { isPageForm, renderRefusedForm } from '../page/outcome.ts';
import { addPageRoutes, sendPage } from '../page/routes.ts';
import type { LoggedRequest } from '../request-log.ts';
import type { World } from '../world.ts';
import { answerError, describeError } from './errors.ts';
import { keepBodies } from './kept-exchange.ts';
import { createOpenApiDocument } from './openapi.ts';
import { answerOperation, applyFaultToAnswer, applyFaultToBody, refuseUrl, takeRequest } from './request-handling.ts';

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
