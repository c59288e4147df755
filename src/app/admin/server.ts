/**
 * The admin server: probes, metrics, pages and the board of the queues. It has connections of its own, so looking at a
 * page never delays a run.
 */

import { STATUS_CODES } from 'node:http';
import { fileURLToPath } from 'node:url';
import helmet from '@fastify/helmet';
import files from '@fastify/static';
import { type FastifyInstance, fastify } from 'fastify';
import { ZodError } from 'zod';
import { CodedError } from '../../core/errors.ts';
import { html } from '../../core/html.ts';
import { assetsFolder, styleFolder } from '../../core/installation.ts';
import { readSqlState } from '../../erp/connection/transaction.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { guardRoutes } from './access/access.ts';
import { prefixAnswers, stripBasePath } from './access/base-path.ts';
import { limitConnections, maxFormBytes, requestTimeoutMs, timeoutCheckMs } from './access/request-limits.ts';
import { createSessionSigner } from './access/session-signer.ts';
import { registerActionRoutes } from './actions.ts';
import type { AdminDeps } from './admin-deps.ts';
import { AdminError } from './admin-error.ts';
import { registerBoardRoutes } from './board.ts';
import { registerHealthChecks } from './health-checks.ts';
import { registerOpenApiRoute } from './json/openapi.ts';
import { wantsJson } from './json/wants-json.ts';
import { registerLiveRoutes } from './live.ts';
import { registerOrderRoutes } from './order-routes.ts';
import { renderBarePage } from './pages/view.ts';
import { registerPageRoutes } from './routes.ts';

/** A running admin server. */
export interface AdminServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Starts the admin server.
 * @throws CodedError `admin_port_taken` if the port is in use
 */
export async function startAdmin(deps: AdminDeps): Promise<AdminServer> {
  const { config, log } = deps;
  const { ADMIN_HOST: host, ADMIN_PORT: port, ADMIN_TOKEN: token, ADMIN_VIEWER_TOKEN: viewerToken } = config;
  const basePath = config.ADMIN_BASE_PATH;
  const app = fastify({
    logger: false,
    trustProxy: config.ADMIN_TRUSTED_PROXIES ?? false,
    rewriteUrl: ({ url = '/' }) => stripBasePath(url, basePath),
    forceCloseConnections: true,
    bodyLimit: maxFormBytes,
    requestTimeout: requestTimeoutMs,
    // Node enforces requestTimeout only if headersTimeout is not longer.
    http: {
      requestTimeout: requestTimeoutMs,
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
    },
  });
  limitConnections(app.server);
  try {
    // First, because everything that is registered later inherits the handlers.
    registerErrorHandlers(app, log);
    prefixAnswers(app, basePath);
    await app.register(helmet, strictPolicy);
    app.addHook('onRequest', async (request, reply) => {
      // No browser and no proxy may store the pages.
      if (!request.url.startsWith(assetsPath)) reply.header('cache-control', 'no-store');
    });
    // A new token of either kind ends all sessions.
    const signer = createSessionSigner(deps.db, `${token ?? ''}\n${viewerToken ?? ''}`);
    await guardRoutes(app, { token, viewerToken, db: deps.db, log, signer });
    const { readers } = deps;
    registerHealthChecks(app, deps, readers.readState);
    registerMetricsRoute(app, deps);
    await app.register(async (pages) => {
      registerLiveRoutes(pages, readers.readOverview, basePath);
      registerPageRoutes(pages, deps, readers);
      registerOrderRoutes(pages, deps);
      registerOpenApiRoute(pages, basePath);
      registerActionRoutes(pages, deps);
    });
    await registerAssetRoutes(app);
    registerBoardRoutes(app, deps);
    const address = new URL(await app.listen({ host, port }));
    return { port: Number(address.port), close: () => app.close() };
  } catch (cause) {
    await app.close();
    const isPortTaken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
    if (!isPortTaken) throw cause;
    const message = `ADMIN_PORT ${port} is in use on ${host}; set another port (0 takes a free one)`;
    throw new CodedError('admin_port_taken', message, { cause });
  }
}

const assetsPath = '/assets/';

/** Content policy of the pages: they may load only from this server, and no other page may frame them. */
const strictPolicy = {
  // The operator of the TLS proxy decides about this header.
  strictTransportSecurity: false,
  // With `no-referrer`, browsers send `Origin: null` with our forms, and the server would refuse them.
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
    reply.code(status);
    const { accept } = request.headers;
    if (!(accept ?? '').includes('text/html') || wantsJson(accept)) return reply.send({ error: words });
    const title = STATUS_CODES[status] ?? 'Error';
    return reply
      .type('text/html')
      .send(
        renderBarePage(
          title,
          html`<h1>${title}</h1><p class="why">${words}</p><p><a href="/">Back to the overview</a></p>`,
        ),
      );
  });
  app.setNotFoundHandler((_request, reply) =>
    reply.code(404).send({ error: 'There is no page at this address; see /' }),
  );
}

/** Returns the HTTP status and the text for an error. */
function toErrorAnswer(error: unknown): { status: number; words: string } {
  if (error instanceof ZodError)
    return { status: 400, words: `${error.issues[0]?.path.join('.')}: ${error.issues[0]?.message}` };
  if (error instanceof AdminError) return { status: error.status, words: error.message };
  const given = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  if (given === 403)
    return { status: 403, words: 'The form has expired, or came from another site; reload the page and send it again' };
  if (given < 500)
    return { status: given, words: error instanceof Error ? error.message : 'The request cannot be read' };
  const isDatabaseAway = /^(ECONN|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND|57P|08|53|not_in_time|database_lost)/.test(
    readSqlState(error),
  );
  return isDatabaseAway
    ? {
        status: 503,
        words: 'The database cannot be reached; the worker continues when it is back. Reload the page later',
      }
    : { status: 500, words: 'The request failed; for the reason see the event admin_failed in the log of the worker' };
}

/** Registers `/metrics`, in the format of Prometheus. */
function registerMetricsRoute(app: FastifyInstance, { metrics }: AdminDeps): void {
  app.get('/metrics', async (_request, reply) =>
    metrics.read(async (registry) => reply.type(registry.contentType).send(await registry.metrics())),
  );
}
