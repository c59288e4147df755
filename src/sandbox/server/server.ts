/**
 * The sandbox's HTTP server: routes, answers, faults and pages. It serves only the operations of operations/all.ts and
 * the sandbox's controls.
 */

import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { addControlRoutes } from '../control/routes.ts';
import type { FaultEffect } from '../faults.ts';
import { operations } from '../operations/all.ts';
import type { Operation } from '../operations/operation.ts';
import type { LoggedRequest } from '../request-log.ts';
import type { World } from '../world.ts';
import { answerError } from './errors.ts';
import { readForm } from './form.ts';
import { createOpenApiDocument } from './openapi.ts';
import { addPageRoute } from './page.ts';
import { answerOperation, applyFaultToAnswer, applyFaultToBody, refuseUrl, takeRequest } from './request-handling.ts';
import { rerouteRequest } from './reroute.ts';

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
    rewriteUrl: (request) => rerouteRequest(request, world.switches.unlike),
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
  addControlRoutes(app, world);
  addPageRoute(app, world);
  app.get('/openapi.json', { config: { operation: null } }, async () => createOpenApiDocument());
  return app;
}

function addParsers(app: FastifyInstance): void {
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (_request: FastifyRequest, body: string) => readForm(body),
  );
  const json = app.getDefaultJsonParser('error', 'error');
  // Clients also send the content type with requests without a body, such as a cancel. The second type is for JSON:API.
  app.addContentTypeParser<string>(
    ['application/json', 'application/vnd.api+json'],
    { parseAs: 'string' },
    (request, body, done) => (body === '' ? done(null, undefined) : json(request, body, done)),
  );
}

function addHooks(app: FastifyInstance, world: World): void {
  app.addHook('onRequest', (request: FastifyRequest, reply: FastifyReply) => takeRequest(request, reply, world));
  app.addHook('preSerialization', async (request, _reply, payload) => applyFaultToAnswer(request, payload, world));
  app.addHook('onSend', async (request, reply, payload) => applyFaultToBody(request, reply, payload));
  app.addHook('onResponse', async (request, reply) => {
    if (request.logged === null) return;
    request.logged.status = reply.statusCode;
    request.logged.durationMs = Math.round(performance.now() - request.startedAtMs);
  });
}
