import { setTimeout as wait } from 'node:timers/promises';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { ZodError } from 'zod';
import { bendPayload, type FaultEffect } from './faults.ts';
import { BadRequest } from './query.ts';
import type { LoggedRequest } from './request-log.ts';
import { controlRoutes } from './routes/control.ts';
import { orderRoutes } from './routes/orders.ts';
import { shipmentRoutes } from './routes/shipments.ts';
import { tokenAndSettingsRoutes } from './routes/token-and-settings.ts';
import type { World } from './world.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Name of the operation; null for what is not part of the service. */
    operation?: string | null;
    /** Needs no bearer token. */
    open?: boolean;
  }
  interface FastifyRequest {
    client: string | null;
    logged: LoggedRequest | null;
    startedAtMs: number;
    effect: FaultEffect | null;
  }
}

/** The stand-in for the fulfilment service, as interface.md describes it; docs/sandbox.md lists what is decided here. */
export function createSandbox(world: World): FastifyInstance {
  const app = fastify({
    logger: false,
    forceCloseConnections: true,
    routerOptions: { caseSensitive: false },
    bodyLimit: 16 * 1024 * 1024,
  });
  app.decorateRequest('client', null);
  app.decorateRequest('logged', null);
  app.decorateRequest('startedAtMs', 0);
  app.decorateRequest('effect', null);
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) =>
    done(null, body),
  );
  addHooks(app, world);
  app.setErrorHandler((error, _request, reply) => answerError(error, reply));
  app.setNotFoundHandler((_request, reply) =>
    reply.code(404).send({ errors: [{ status: '404', title: 'There is no such route' }] }),
  );
  tokenAndSettingsRoutes(app, world);
  shipmentRoutes(app, world);
  orderRoutes(app, world);
  controlRoutes(app, world);
  return app;
}

function addHooks(app: FastifyInstance, world: World): void {
  app.addHook('onRequest', async (request, reply) => {
    reply.header('date', new Date(world.clock.nowMs()).toUTCString());
    const { operation = null, open = false } = request.routeOptions.config;
    request.startedAtMs = performance.now();
    request.client = world.clientOfToken(bearerOf(request));
    if (request.url.startsWith('/_sandbox/')) return;
    const [path = '', query = ''] = request.url.split('?', 2);
    const { method, client } = request;
    request.logged = world.log.add({ atMs: Date.now(), method, path, query, operation, client });
    if (operation === null) return;
    request.effect = world.faults.strike(operation, client);
    const answered = request.effect !== null && (await interfere(request, reply, request.effect, world));
    if (answered || open) return;
    if (world.clientOfToken(bearerOf(request)) !== null) return;
    return reply.code(401).send({ message: 'Authorization has been denied for this request.' });
  });
  app.addHook('preSerialization', async (request, _reply, payload) =>
    request.effect === null
      ? payload
      : bendPayload(payload, request.effect, `${request.protocol}://${request.host}${request.url}`),
  );
  app.addHook('onSend', async (request, reply, payload) => {
    const { effect } = request;
    if (typeof payload !== 'string' || effect === null) return payload;
    if (effect.invalidJson) return `${payload.slice(0, -1)},,`;
    if (effect.truncate) {
      reply.hijack();
      const half = payload.slice(0, Math.floor(payload.length / 2));
      reply.raw.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) });
      reply.raw.write(half, () => request.raw.socket.destroy());
    }
    return payload;
  });
  app.addHook('onResponse', async (request, reply) => {
    if (request.logged === null) return;
    request.logged.status = reply.statusCode;
    request.logged.durationMs = Math.round(performance.now() - request.startedAtMs);
  });
}

/** Lets a fault have its way before the route is reached. True where the request has been answered or dropped by it. */
async function interfere(
  request: FastifyRequest,
  reply: FastifyReply,
  effect: FaultEffect,
  world: World,
): Promise<boolean> {
  if (effect.delayMs !== undefined) await wait(effect.delayMs);
  if (effect.expireTokens) world.expireTokens();
  if (effect.noAnswer || effect.reset) {
    reply.hijack();
    if (effect.reset) request.raw.socket.resetAndDestroy();
    return true;
  }
  if (effect.status === undefined) return false;
  reply.code(effect.status);
  if (effect.retryAfter !== undefined) reply.header('retry-after', effect.retryAfter);
  if (effect.location !== undefined) reply.header('location', effect.location);
  if (effect.html) reply.type('text/html').send('<html><body>Bad gateway</body></html>');
  else reply.send({ errors: [{ status: String(effect.status), title: 'A fault of the sandbox' }] });
  return true;
}

function bearerOf(request: FastifyRequest): string {
  return /^bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
}

function answerError(error: unknown, reply: FastifyReply): FastifyReply {
  if (error instanceof BadRequest) {
    const title = `${error.parameter} ${error.message}`;
    return reply.code(400).send({ errors: [{ status: '400', title, source: { parameter: error.parameter } }] });
  }
  if (error instanceof ZodError) {
    const errors = error.issues.map(({ path, message }) => ({ status: '400', title: `${path.join('.')}: ${message}` }));
    return reply.code(400).send({ errors });
  }
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  return reply
    .code(status)
    .send({ errors: [{ status: String(status), title: error instanceof Error ? error.message : 'fault' }] });
}
