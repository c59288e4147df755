/**
 * The sandbox's HTTP server: routes, answers, faults and pages. It answers only what the table of operations declares.
 */

import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { controlRoutes } from '../control/routes.ts';
import type { FaultEffect } from '../faults.ts';
import { operations } from '../operations/all.ts';
import type { Operation } from '../operations/operation.ts';
import type { LoggedRequest } from '../request-log.ts';
import type { World } from '../world.ts';
import { answerOperation, bentAnswer, refuseUrl, shapeBody, takeRequest } from './answering.ts';
import { answerError } from './errors.ts';
import { readForm } from './form.ts';
import { openApiDocument } from './openapi.ts';
import { pageRoute } from './page.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation of the service; null for what is the sandbox's own. */
    operation?: Operation | null;
  }
  interface FastifyRequest {
    client: string | null;
    logged: LoggedRequest | null;
    startedAtMs: number;
    effect: FaultEffect | null;
  }
}

const bodyLimit = 32 * 1024 * 1024;

/** The stand-in for the fulfilment service, as interface.md describes it; docs/sandbox.md lists what is decided here. */
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
  controlRoutes(app, world);
  pageRoute(app, world);
  app.get('/openapi.json', { config: { operation: null } }, async () => openApiDocument());
  return app;
}

function addParsers(app: FastifyInstance): void {
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (_request: FastifyRequest, body: string) => readForm(body),
  );
  const json = app.getDefaultJsonParser('error', 'error');
  // Clients send the type along with requests that have no body, such as a cancel. The second is that of JSON:API.
  app.addContentTypeParser<string>(
    ['application/json', 'application/vnd.api+json'],
    { parseAs: 'string' },
    (request, body, done) => (body === '' ? done(null, undefined) : json(request, body, done)),
  );
}

function addHooks(app: FastifyInstance, world: World): void {
  app.addHook('onRequest', (request: FastifyRequest, reply: FastifyReply) => takeRequest(request, reply, world));
  app.addHook('preSerialization', async (request, _reply, payload) => bentAnswer(request, payload, world));
  app.addHook('onSend', async (request, reply, payload) => shapeBody(request, reply, payload));
  app.addHook('onResponse', async (request, reply) => {
    if (request.logged === null) return;
    request.logged.status = reply.statusCode;
    request.logged.durationMs = Math.round(performance.now() - request.startedAtMs);
  });
}
