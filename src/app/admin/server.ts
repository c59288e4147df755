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
import { assetsFolder } from '../../core/installation.ts';
import { sqlState } from '../../erp/connection/transaction.ts';
import { openStandings } from '../health/overview.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { StateMetrics } from '../metrics/state-metrics.ts';
import { guard } from './access/access.ts';
import { prefixAnswers, stripBasePath } from './access/base-path.ts';
import { limitConnections, maxFormBytes, requestTimeoutMs, timeoutCheckMs } from './access/request-limits.ts';
import { createSessionSigner } from './access/session-signer.ts';
import { actionRoutes } from './actions.ts';
import type { AdminDeps } from './admin-deps.ts';
import { AdminError } from './admin-error.ts';
import { boardRoutes } from './board.ts';
import { liveRoutes } from './live.ts';
import { metricsRoute } from './metrics-route.ts';
import { html } from './pages/html.ts';
import { barePage } from './pages/view.ts';
import { probeRoutes } from './probes.ts';
import { pageRoutes } from './routes.ts';

export interface AdminServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Serves probes, metrics, the status pages and the queue board (contracts, section 6).
 * @throws CodedError `admin_port_taken` that says what to do
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
    // First: what is registered afterwards inherits it.
    explainErrors(app, log);
    prefixAnswers(app, basePath);
    await app.register(helmet, strictPolicy);
    app.addHook('onRequest', async (request, reply) => {
      // Nothing of the pages is kept by a browser or a proxy on the way.
      if (!request.url.startsWith(assetsPath)) reply.header('cache-control', 'no-store');
    });
    // A new token of either kind ends all sessions.
    const signer = createSessionSigner(deps.db, `${token ?? ''}\n${viewerToken ?? ''}`);
    await guard(app, { token, viewerToken, log, signer });
    const standings = openStandings(deps);
    probeRoutes(app, deps, standings.standing);
    metricsRoute(app, deps, new StateMetrics(deps.metrics.registry), standings.standing);
    await app.register(async (pages) => {
      liveRoutes(pages, standings.overview, basePath);
      pageRoutes(pages, deps, standings);
      actionRoutes(pages, deps);
    });
    await assetRoutes(app);
    boardRoutes(app, deps);
    const address = new URL(await app.listen({ host, port }));
    return { port: Number(address.port), close: () => app.close() };
  } catch (cause) {
    await app.close();
    const taken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
    if (!taken) throw cause;
    const message = `ADMIN_PORT ${port} is in use on ${host}; set another (0 takes any free one)`;
    throw new CodedError('admin_port_taken', message, { cause });
  }
}

const assetsPath = '/assets/';

/** Only what this server itself sends runs or is shown; nothing may frame it. */
const strictPolicy = {
  // Whoever puts TLS in front of it decides that.
  strictTransportSecurity: false,
  // With `no-referrer`, browsers send `Origin: null` with our own forms, and we would refuse them.
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

/** `/assets/…`: style, script and icon; open, as the login page needs them. */
async function assetRoutes(app: FastifyInstance): Promise<void> {
  await app.register(async (scope) => {
    scope.addHook('onRoute', (route) => {
      route.config = { ...route.config, open: true };
    });
    await scope.register(files, { root: fileURLToPath(assetsFolder), prefix: assetsPath, decorateReply: false });
  });
}

/** Problems in words: as a page for who looks at pages, else as JSON. Faults of our own are logged, and told as such. */
function explainErrors(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((error, request, reply) => {
    const { status, words } = judged(error);
    if (status >= 500) log.error({ event: 'admin_failed', ...errorFields(error) });
    reply.code(status);
    if (!(request.headers.accept ?? '').includes('text/html')) return reply.send({ error: words });
    const title = STATUS_CODES[status] ?? 'Error';
    return reply
      .type('text/html')
      .send(barePage(title, html`<h1>${title}</h1><p class="why">${words}</p><p><a href="/">To the overview</a></p>`));
  });
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'There is no such page; see /' }));
}

function judged(error: unknown): { status: number; words: string } {
  if (error instanceof ZodError)
    return { status: 400, words: `${error.issues[0]?.path.join('.')}: ${error.issues[0]?.message}` };
  if (error instanceof AdminError) return { status: error.status, words: error.message };
  const given = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  if (given === 403) return { status: 403, words: 'The form is too old, or came from elsewhere: load the page again' };
  if (given < 500) return { status: given, words: error instanceof Error ? error.message : 'It cannot be read' };
  const away = /^(ECONN|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND|57P|08|53|not_in_time|database_lost)/.test(sqlState(error));
  return away
    ? { status: 503, words: 'The database cannot be reached at present; the worker goes on once it is back' }
    : { status: 500, words: 'It failed; the log of the worker says why (event admin_failed)' };
}
