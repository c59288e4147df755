/**
 * Who may see and change what on the pages. Every route needs a session or a token, unless it is
 * declared open.
 */

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { parse as parseForm } from 'node:querystring';
import cookie from '@fastify/cookie';
import formbody from '@fastify/formbody';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { z } from 'zod';
import { isLoopback } from '../../../config/admin.ts';
import { describeIssue } from '../../../config/config-error.ts';
import type { Config } from '../../../config/env.ts';
import { html } from '../../core/html.ts';
import { errorFields } from '../../core/logger.ts';
import { toVisible } from '../../core/quote.ts';
import { hourMs } from '../../core/time.ts';
import {
  beginSession,
  endSession,
  isSessionOpen,
  markSessionUsed,
} from '../../operate/sql/admin-sessions.ts';
import { readBearerToken, wantsPage } from '../listen.ts';
import { renderBarePage } from '../pages/view.ts';
import { catchRefusal, RequestError, refuseToken, toRetryAfter } from '../request-error.ts';
import type { AdminDeps } from './admin-deps.ts';

/**
 * Removes the base path, which a reverse proxy puts before every path of this server, from the
 * address of a request. An address without it, as probes use, stays unchanged.
 */
export function stripBasePath(url: string, basePath: string): string {
  const rest = url.slice(basePath.length);
  if (basePath === '' || !url.startsWith(basePath) || !/^(?:[/?]|$)/.test(rest)) return url;
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/**
 * Puts the base path before the addresses in markup. Values cannot have these attributes, because
 * their quotation marks are escaped.
 */
const addBasePath = (markup: string, basePath: string): string =>
  basePath === ''
    ? markup
    : markup.replaceAll(/ (href|src|action)="\/(?!\/)/g, ` $1="${basePath}/`);

/** Puts the base path before the addresses in all answers. */
export function prefixAnswers(app: FastifyInstance, basePath: string): void {
  if (basePath === '') return;

  app.addHook('onSend', async (_request, reply, payload) => {
    const location = reply.getHeader('location');
    if (typeof location === 'string' && location.startsWith('/'))
      reply.header('location', `${basePath}${location}`);

    const isPage = String(reply.getHeader('content-type')).startsWith('text/html');
    return isPage && typeof payload === 'string' ? addBasePath(payload, basePath) : payload;
  });
}

/** Maximum number of open connections to the admin server. */
const maxConnections = 128;
/** Maximum bytes of a form. */
export const maxFormBytes = 256 * 1024;
/** Maximum bytes of the login form, which has a token and a path. */
const maxLoginBytes = 4 * 1024;
/** Maximum number of members of a form: the 100 rows that a list shows, and what is beside them. */
const maxFormMembers = 110;
/**
 * Maximum bytes of the form that replaces a payload. What is larger is no text for a form: the
 * command `outbox replace` takes it.
 */
export const maxPayloadBytes = 512 * 1024;
/**
 * Maximum milliseconds until a request has arrived, with its body, and that a connection waits for
 * the next one.
 */
export const requestTimeoutMs = 10_000;

/**
 * Closes the oldest connection if there are too many. Refusing new ones instead would let somebody
 * who keeps half-sent requests open make `/livez` unreachable.
 * @param isBusy true for a connection that is closed only if all others are busy, too
 */
export function limitConnections(
  server: Server,
  most = maxConnections,
  isBusy: (socket: Socket) => boolean = () => false,
): void {
  // More are accepted only until the oldest ones are closed.
  server.maxConnections = 2 * most;
  const open = new Set<Socket>();

  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    if (open.size <= most) return;

    const oldest = open.values().find((one) => !isBusy(one)) ?? socket;
    // It is closed later in this turn of the event loop. Until then another connection must not
    // choose it again.
    open.delete(oldest);
    oldest.destroy();
  });
}

/**
 * Name of the session cookie. Behind TLS it has the prefix by which browsers bind it to this host
 * and to TLS.
 */
const sessionCookie = 'fulfilment_session';
const secureSessionCookie = `__Host-${sessionCookie}`;
/**
 * Maximum time of a session. It ends earlier after an hour without a request
 * (src/operate/sql/admin-sessions.ts).
 */
const sessionMs = 12 * hourMs;
/**
 * Maximum number of wrong tokens a minute from one address. Then every token is refused until the
 * minute is over.
 */
const maxFailures = 10;
const failureSpanS = 60;
/** Header with which the script of a page asks for the page again. */
const refreshHeader = 'x-refresh';

const cookieOptions = { httpOnly: true, sameSite: 'lax', path: '/' } as const;

declare module 'fastify' {
  interface FastifyRequest {
    /** Role of the sender; null before it is known, and on open routes. */
    role: Role | null;
    /** Cookie of the session that the request belongs to; empty if there is none. */
    session: string;
  }
  interface FastifyContextConfig {
    /** True if the route needs no session and no token. */
    open?: boolean;
  }
}

/**
 * The parts that the guards use. Without ADMIN_TOKEN, only this machine can reach the server, and
 * needs no token.
 */
type AccessDeps = Pick<AdminDeps, 'config' | 'db' | 'log'>;

/** Guards all routes: every route that is not marked `open` needs a session or a token. */
export async function guardRoutes(app: FastifyInstance, deps: AccessDeps): Promise<void> {
  const { ADMIN_TOKEN: token } = deps.config;
  const failures = new RateLimiterMemory({ points: maxFailures, duration: failureSpanS });
  await app.register(cookie);
  await app.register(formbody, {
    parser: (text) => parseForm(text, '&', '=', { maxKeys: maxFormMembers }),
  });

  app.decorateRequest('role', null);
  app.decorateRequest('session', '');
  // Before the body is read.
  app.addHook('onRequest', async (request, reply) => {
    assertOwnSite(request);
    if (request.routeOptions.config.open === true) return undefined;

    if (token === undefined) {
      assertOwnHost(request);
      request.role = 'operator';
      return undefined;
    }

    const given = readBearerToken(request);
    request.role =
      (await readSessionRole(request, deps)) ??
      (given === null ? null : await checkToken(failures, deps, given, request));
    if (request.role !== null) return assertMayChange(request);

    if (request.method === 'GET' && wantsPage(request))
      return reply.redirect(`/login?next=${encodeURIComponent(request.url)}`, 303);
    throw refuseToken('Send ADMIN_TOKEN as a bearer token, or log in at /login');
  });

  // After the body is read, because the token is in the form.
  app.addHook('preHandler', async (request) => {
    if (!isChange(request) || request.routeOptions.config.open === true) return;
    const given = csrfForm.safeParse(request.body).data?._csrf ?? '';
    if (!isSameText(given, toFormToken(request))) throw new RequestError(403, formExpired);
  });

  if (token !== undefined) registerLoginRoutes(app, failures, deps);
}

const csrfForm = z.object({ _csrf: z.string() });
const formExpired =
  'The form has expired, or came from another site; reload the page and send it again';

/** Key of the forms without a session, as on this machine without ADMIN_TOKEN. */
const localKey = randomBytes(32).toString('hex');

/** Returns the token of the forms of a page. It is bound to the session. */
export const toFormToken = ({ session }: FastifyRequest): string =>
  createHmac('sha256', session || localKey)
    .update('form')
    .digest('hex');

/** @throws RequestError if a request is refused whatever its token */
function assertOwnSite(request: FastifyRequest): void {
  if (request.url.includes('%00')) throw new RequestError(400, 'The address has a NUL character');
  if (!isChange(request) || !isCrossSite(request)) return;
  const words = 'The form came from another site; open the page of this server and use its form';
  throw new RequestError(403, words);
}

const isChange = ({ method }: FastifyRequest) => method !== 'GET' && method !== 'HEAD';

/** @throws RequestError if a viewer wants to change something, except a logout */
function assertMayChange(request: FastifyRequest): void {
  if (request.role === 'operator' || !isChange(request) || request.url === '/logout') return;
  const words = 'ADMIN_VIEWER_TOKEN may only read; log in with ADMIN_TOKEN to change something';
  throw new RequestError(403, words);
}

/**
 * Returns the id under which the database keeps a session. Only its owner can make it, and another
 * role or another token of either kind makes another id.
 */
const toSessionId = (
  session: string,
  { ADMIN_TOKEN: token, ADMIN_VIEWER_TOKEN: viewerToken = '' }: Config,
) => createHmac('sha256', `${token}\n${viewerToken}`).update(session).digest('hex');

/**
 * Finds the session of a request, which is a role and a random text. Returns its role; null if
 * there is none, or if it has ended. A page that asks for itself again keeps no session open:
 * perhaps nobody looks at it.
 */
async function readSessionRole(
  request: FastifyRequest,
  { config, db, log }: AccessDeps,
): Promise<Role | null> {
  const { cookies } = request;
  const session = cookies[secureSessionCookie] || cookies[sessionCookie] || '';
  const id = toSessionId(session, config);
  if (session === '' || !(await isSessionOpen(db, id))) return null;

  request.session = session;
  if (request.headers[refreshHeader] === undefined)
    await markSessionUsed(db, id).catch((error: unknown) =>
      log.warn({ event: 'admin_failed', ...errorFields(error) }),
    );

  return session.startsWith('operator.') ? 'operator' : 'viewer';
}

/**
 * Returns the role that a token gives.
 * @throws RequestError if it is wrong, or right after too many wrong ones
 */
async function checkToken(
  failures: RateLimiterMemory,
  { config: { ADMIN_TOKEN: token = '', ADMIN_VIEWER_TOKEN: viewerToken }, log }: AccessDeps,
  given: string,
  { ip }: FastifyRequest,
): Promise<Role> {
  // Counted before the check, so that requests at the same time are all counted.
  const { consumedPoints, msBeforeNext } = await failures.penalty(ip);
  if (consumedPoints > maxFailures) {
    const words = 'Too many wrong tokens from this address; wait a minute';
    throw new RequestError(429, words, {}, toRetryAfter(msBeforeNext));
  }

  const isViewer = viewerToken !== undefined && isSameText(given, viewerToken);
  if (isSameText(given, token) || isViewer) {
    await failures.reward(ip);
    return isViewer ? 'viewer' : 'operator';
  }

  log.warn({ event: 'admin_refused', from: ip });
  throw refuseToken('The token is wrong; enter ADMIN_TOKEN or ADMIN_VIEWER_TOKEN');
}

/** Compares two texts in a time that reveals neither their content nor their length. */
function isSameText(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

const loginSchema = z.object({ token: z.string(), next: z.string().default('/') });

function registerLoginRoutes(
  app: FastifyInstance,
  failures: RateLimiterMemory,
  deps: AccessDeps,
): void {
  const open = { config: { open: true }, bodyLimit: maxLoginBytes };

  app.get('/login', open, async (request, reply) => {
    const { next } = loginSchema
      .pick({ next: true })
      .parse(request.query, { error: describeIssue });
    return sendLoginPage(reply, next, null);
  });

  app.post('/login', open, async (request, reply) => {
    const { token, next } = loginSchema.parse(request.body, { error: describeIssue });
    const role = await checkToken(failures, deps, token, request).catch(catchRefusal);
    if (role instanceof RequestError)
      return sendLoginPage(reply.code(role.status).headers(role.headers), next, role.message);

    const session = `${role}.${randomBytes(32).toString('hex')}`;
    await beginSession(deps.db, toSessionId(session, deps.config), sessionMs);
    setSessionCookie(request, reply, session);
    return reply.redirect(toLocalPath(next), 303);
  });

  app.post('/logout', async (request, reply) => {
    await endSession(deps.db, toSessionId(request.session, deps.config));
    reply.clearCookie(sessionCookie, { path: '/' });
    reply.clearCookie(secureSessionCookie, { path: '/', secure: true });
    return reply.redirect('/login', 303);
  });
}

function setSessionCookie(request: FastifyRequest, reply: FastifyReply, session: string): void {
  // A proxy that ends TLS tells in this header how the browser is connected.
  const secure = request.protocol === 'https' || request.headers['x-forwarded-proto'] === 'https';
  const name = secure ? secureSessionCookie : sessionCookie;
  reply.setCookie(name, session, { ...cookieOptions, secure, maxAge: sessionMs / 1_000 });
}

/** Returns the path to show after a login. It is always a path of this server. */
function toLocalPath(next: string): string {
  const base = 'http://here.invalid';
  const url = URL.canParse(next, base) ? new URL(next, base) : null;
  // A path that begins with two slashes would name another server.
  return url !== null && url.origin === base
    ? `/${url.pathname.replace(/^\/+/, '')}${url.search}`
    : '/';
}

function sendLoginPage(reply: FastifyReply, next: string, problem: string | null): FastifyReply {
  const refusal = problem !== null && html`<p class="why" role="alert">${problem}</p>`;
  const body = html`<h1>fulfilment-sync</h1>
${refusal}
<form method="post" action="/login" class="login">
<input type="hidden" name="next" value="${next}">
<label>Token of an operator (ADMIN_TOKEN) or of a viewer (ADMIN_VIEWER_TOKEN)
<input type="password" name="token" required autofocus autocomplete="current-password"></label>
<button>Log in</button></form>`;

  return reply.type('text/html').send(renderBarePage('Log in', body));
}

/**
 * Refuses a request for another host name: another site can make its name point to this machine.
 */
function assertOwnHost({ headers: { host = '' } }: FastifyRequest): void {
  // The header itself: X-Forwarded-Host, which `hostname` may come from, can be set by a page.
  const hostname = host.replace(/:\d+$/, '');
  if (isLoopback(hostname.replace(/^\[|\]$/g, ''))) return;
  const words =
    'Without ADMIN_TOKEN the server answers only at localhost; set ADMIN_TOKEN to use another name';
  throw new RequestError(421, words);
}

/**
 * Returns true if a page of another site sent the request. Reads only headers, so that a foreign
 * request is refused before its body is read.
 */
function isCrossSite({ headers, host }: Pick<FastifyRequest, 'headers' | 'host'>): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  const { origin } = headers;
  if (origin === undefined) return false;
  return !URL.canParse(origin) || new URL(origin).host !== host;
}

/** The role that a token gives. A viewer reads pages and metrics, and changes nothing. */
type Role = 'operator' | 'viewer';

/** Maximum length of a name or an address in the audit. A proxy may forward a long text. */
const maxSenderLength = 100;

/**
 * Returns a function that names the sender of a request for the audit: address, and the user of a
 * trusted proxy.
 */
export function nameSenders({
  ADMIN_USER_HEADER: header,
  ADMIN_TRUSTED_PROXIES: isTrusted,
}: Pick<Config, 'ADMIN_USER_HEADER' | 'ADMIN_TRUSTED_PROXIES'>): (
  request: FastifyRequest,
) => string {
  const shorten = (text: string) => toVisible(text).slice(0, maxSenderLength);

  return ({ ip, headers, socket }) => {
    const page = `page ${shorten(ip)}`;
    const given = header === undefined ? undefined : headers[header];
    // The header counts only if it comes from a trusted proxy, because everybody can send it.
    if (typeof given !== 'string' || given === '' || isTrusted?.(socket.remoteAddress) !== true)
      return page;
    return `${shorten(given)} (${page})`;
  };
}
