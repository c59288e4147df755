/**
 * The admin server: probes, metrics and pages. It has connections of its own, so looking at a page
 * never delays a run.
 */

import { STATUS_CODES } from 'node:http';
import { fileURLToPath } from 'node:url';
import helmet from '@fastify/helmet';
import files from '@fastify/static';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { ZodError } from 'zod';
import type { Config } from '../../../config/env.ts';
import { html } from '../../core/html.ts';
import { assetsFolder, styleFolder } from '../../core/installation.ts';
import { errorFields, type Logger } from '../../core/logger.ts';
import { minuteMs } from '../../core/time.ts';
import { withReadTimeout } from '../../operate/health/overview.ts';
import type { LateJob } from '../../operate/health/state.ts';
import { sweepMs } from '../../schedule/schedules.ts';
import { type ListeningServer, limitTimes, listen, wantsPage } from '../listen.ts';
import { renderBarePage } from '../pages/view.ts';
import { describeTrouble, holdsNul, nulWords, RequestError } from '../request-error.ts';
import {
  guardRoutes,
  limitConnections,
  maxFormBytes,
  prefixAnswers,
  requestTimeoutMs,
  stripBasePath,
} from './access.ts';
import { registerActionRoutes } from './actions.ts';
import type { AdminDeps } from './admin-deps.ts';
import { registerPageRoutes } from './routes.ts';
import { sendPage } from './send-page.ts';

/** A worker is not ready if its last complete sweep is older than this, in milliseconds. */
const lateAfterMs = 20 * sweepMs;
/**
 * A worker should be restarted if it has begun no sweep for this long. Sweeps that fail count: a
 * restart does not help while Postgres is away.
 */
const deadAfterMs = minuteMs;

/**
 * Registers the probes. `/livez` answers 503 if no sweep has begun for a minute, `/readyz` if
 * none was completed for one.
 */
function registerHealthChecks(
  app: FastifyInstance,
  { daemon, config, readOverview }: AdminDeps,
): void {
  const startedAtMs = performance.now();
  const open = { config: { open: true } };
  const readSweepAgeMs = () => daemon()?.sinceLastSweepMs();

  app.get('/livez', open, async (_request, reply) => {
    const sinceStartMs = performance.now() - startedAtMs;
    const alive = (daemon()?.sinceSweepBegunMs() ?? sinceStartMs) < deadAfterMs;
    const ageMs = readSweepAgeMs() ?? sinceStartMs;
    const answer = { alive, lastSweepSecondsAgo: Math.round(ageMs / 1_000) };
    return reply.code(alive ? 200 : 503).send(answer);
  });

  app.get<{ Querystring: { stale?: string } }>('/readyz', open, async (request, reply) => {
    const ageMs = readSweepAgeMs();
    const state = await withReadTimeout(readOverview()).catch(() => null);
    const ready = ageMs !== undefined && ageMs < lateAfterMs;
    const isStale = request.query.stale === 'fail' && state !== null && state.stale.length > 0;

    // A worker starts when it has reached all its servers. It tries for ever.
    const readOnly = state?.snapshot.readOnly ?? false;
    const isPostgres = state === null || readOnly || config.REDIS_URL === undefined;
    return reply.code(ready && !isStale ? 200 : 503).send({
      ready,
      lastSweepSecondsAgo: ageMs === undefined ? null : Math.round(ageMs / 1_000),
      ...(daemon() === null && { waitsFor: isPostgres ? 'Postgres' : 'Redis' }),
      ...(readOnly && { database: 'takes no writes' }),
      ...(state === null
        ? { database: 'cannot be read' }
        : { stale: state.stale.map(toLateJobJson) }),
    });
  });
}

/** Returns a late job as `/readyz` lists it. */
const toLateJobJson = ({ client, job, since, lastSuccessAt, because }: LateJob) => ({
  client,
  job,
  since: since.toISOString(),
  lastSuccessAt: lastSuccessAt?.toISOString() ?? null,
  because,
});

/**
 * Starts the admin server.
 * @throws CodedError `admin_port_taken` if the port is in use
 */
export async function startAdmin(deps: AdminDeps): Promise<ListeningServer> {
  const { ADMIN_HOST, ADMIN_PORT } = deps.config;
  const app = createServer(deps.config);
  limitConnections(app.server);
  await registerRoutes(app, deps);

  const port = await listen(app, ADMIN_HOST, ADMIN_PORT, 'ADMIN_PORT');
  return { port, close: () => app.close() };
}

const createServer = ({ ADMIN_TRUSTED_PROXIES, ADMIN_BASE_PATH }: Config): FastifyInstance =>
  fastify({
    logger: false,
    trustProxy: ADMIN_TRUSTED_PROXIES ?? false,
    rewriteUrl: ({ url = '/' }) => stripBasePath(url, ADMIN_BASE_PATH),
    forceCloseConnections: true,
    bodyLimit: maxFormBytes,
    frameworkErrors: (error, request, reply) =>
      void sendError(request, reply, error.statusCode ?? 400, error.message),
    ...limitTimes(requestTimeoutMs),
  });

/** Registers hooks and routes. What is registered later inherits the hooks of what came before. */
async function registerRoutes(app: FastifyInstance, deps: AdminDeps): Promise<void> {
  const { config, log } = deps;
  registerErrorHandlers(app, log);
  prefixAnswers(app, config.ADMIN_BASE_PATH);
  await app.register(helmet, strictPolicy);
  app.addHook('onRequest', async (request, reply) => {
    // No browser and no proxy may store the pages.
    if (!request.url.startsWith(assetsPath)) reply.header('cache-control', 'no-store');
  });
  await guardRoutes(app, deps);

  registerHealthChecks(app, deps);
  registerMetricsRoute(app, deps);
  await app.register(async (pages) => {
    registerPageRoutes(pages, deps);
    registerActionRoutes(pages, deps);
  });
  await registerAssetRoutes(app);
}

const assetsPath = '/assets/';

/**
 * Content policy of the pages: they may load only from this server, and no other page may frame
 * them.
 */
const strictPolicy = {
  // The operator of the TLS proxy decides about this header.
  strictTransportSecurity: false,
  // With `no-referrer`, browsers send `Origin: null` with our forms, and the server would refuse
  // them.
  referrerPolicy: { policy: 'same-origin' as const },
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'"],
      connectSrc: ["'self'"],
      formAction: ["'self'"],
      baseUri: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
};

/** Registers style, script and icon. They need no session, because the login page uses them. */
async function registerAssetRoutes(app: FastifyInstance): Promise<void> {
  await app.register(async (scope) => {
    scope.addHook('onRoute', (route) => {
      route.config = { ...route.config, open: true };
    });
    const root = [assetsFolder, styleFolder].map((folder) => fileURLToPath(folder));
    await scope.register(files, { root, prefix: assetsPath, decorateReply: false });
  });
}

/** Answers errors as a page to browsers, and as JSON to others. Logs faults of this server. */
function registerErrorHandlers(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((error, request, reply) => {
    const { status, words } = toErrorAnswer(error);
    if (status >= 500) log.error({ event: 'admin_failed', ...errorFields(error) });
    if (error instanceof RequestError) reply.headers(error.headers);
    return sendFramedError(request, reply, status, words);
  });
  app.setNotFoundHandler((request, reply) =>
    sendFramedError(request, reply, 404, 'There is no page at this address'),
  );
}

/** Sends an error with the navigation to whoever may read pages. */
function sendFramedError(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  words: string,
) {
  if (request.role === null || status >= 500 || !wantsPage(request))
    return sendError(request, reply, status, words);

  reply.code(status);
  const page = { title: toErrorTitle(status), body: renderError(status, words), data: null };
  return sendPage(request, reply, page);
}

// "Service" means the warehouse here.
const toErrorTitle = (status: number) =>
  status === 503 ? 'The database cannot be used' : (STATUS_CODES[status] ?? 'Error');

const renderError = (status: number, words: string) =>
  html`<h1>${toErrorTitle(status)}</h1><p class="why">${words}</p>`;

/** Sends an error as a page or as JSON, as the request prefers. */
function sendError(request: FastifyRequest, reply: FastifyReply, status: number, words: string) {
  reply.code(status);
  if (!wantsPage(request)) return reply.send({ error: words });

  const way = request.url === '/' ? 'Try again' : 'To the overview';
  const body = html`${renderError(status, words)}<p><a href="/">${way}</a></p>`;
  return reply.type('text/html').send(renderBarePage(toErrorTitle(status), body));
}

/** Returns the status and the words with which an error is answered. */
function toErrorAnswer(error: unknown): { readonly status: number; readonly words: string } {
  if (error instanceof ZodError) {
    const [issue] = error.issues;
    return { status: 400, words: `${issue?.path.join('.')}: ${issue?.message}` };
  }
  if (error instanceof RequestError) return { status: error.status, words: error.message };
  if (holdsNul(error)) return { status: 400, words: nulWords };

  const trouble = describeTrouble(error);
  if (trouble !== null) return { status: 503, words: trouble };

  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  if (status === 413) return { status, words: tooLarge };
  if (status < 500 && error instanceof Error) return { status, words: error.message };

  const place = 'for the reason see the event admin_failed in the log of the worker';
  return { status: 500, words: `The request failed; ${place}` };
}

const tooLarge =
  'The form is too large. Replace a large payload with: fulfilment-sync outbox replace';

/** Registers `/metrics`, in the format of Prometheus. */
function registerMetricsRoute(app: FastifyInstance, { metrics }: AdminDeps): void {
  app.get('/metrics', async (_request, reply) =>
    metrics.read(async (registry) =>
      reply.type(registry.contentType).send(await registry.metrics()),
    ),
  );
}
