/**
 * Who may see and change what on the pages. Every route needs a session or a token, unless it is
 * declared open.
 */

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { parse as parseForm } from 'node:querystring';
import { setTimeout as wait } from 'node:timers/promises';
import cookie, { Signer } from '@fastify/cookie';
import csrf from '@fastify/csrf-protection';
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
import type { Database } from '../../db/pool.ts';
import {
  beginSession,
  endSession,
  isSessionOpen,
  markSessionUsed,
  readAdminSecret,
} from '../../operate/sql/admin-sessions.ts';
import { readBearerToken } from '../listen.ts';
import { renderBarePage, renderCsrfField } from '../pages/view.ts';
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
/** Maximum milliseconds that the first requests wait for the secret of the cookies. */
const secretWithinMs = 2_000;

/** Header with which the script of a page asks for the page again. */
const refreshHeader = 'x-refresh';

const cookieOptions = { signed: true, httpOnly: true, sameSite: 'lax', path: '/' } as const;

declare module 'fastify' {
  interface FastifyRequest {
    /** Role of the sender. */
    role: Role;
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
  const { config, db, log } = deps;
  const { ADMIN_TOKEN: token, ADMIN_VIEWER_TOKEN: viewerToken } = config;
  // A new token of either kind ends all sessions.
  const signer = createSessionSigner(db, `${token ?? ''}\n${viewerToken ?? ''}`);
  const failures = new RateLimiterMemory({ points: maxFailures, duration: failureSpanS });
  await registerForms(app, signer);

  const loaded = signer
    .load()
    .catch((error: unknown) => log.warn({ event: 'admin_secret_unread', ...errorFields(error) }));
  // The first requests wait, because a form that is signed without the secret would be refused
  // later. They wait only briefly, so that pages still answer without a database.
  const ready = Promise.race([loaded, wait(secretWithinMs, undefined, { ref: false })]);

  app.decorateRequest('role', 'viewer');
  // Before the body is read.
  app.addHook('onRequest', async (request, reply) => {
    const refusal = findRefusal(request);
    if (refusal !== null) return refuse(reply, refusal);

    const { config: route, url } = request.routeOptions;
    if (route.open !== true || url === '/login') await ready;
    if (route.open === true) return;

    if (token === undefined) {
      request.role = 'operator';
      return refuseForeignHost(request, reply);
    }

    const given = readBearerToken(request);
    const role =
      (await readSessionRole(request, deps)) ??
      (given === null ? null : await checkToken(failures, deps, given, request));
    if (typeof role === 'string') return authorize(request, reply, role);
    if (role !== null) return refuse(reply, role);

    if (wantsPage(request))
      return reply.redirect(`/login?next=${encodeURIComponent(request.url)}`, 303);
    const words = 'Send ADMIN_TOKEN as a bearer token, or log in at /login';
    return refuse(reply, { status: 401, words });
  });

  // After the body is read, because the token is in the form.
  app.addHook('preHandler', (request, reply, done) => {
    if (!isChange(request)) return done();
    app.csrfProtection(request, reply, done);
  });

  if (token !== undefined) registerLoginRoutes(app, failures, deps, signer);
}

/** Registers what reads forms and their tokens, and cookies. */
async function registerForms(app: FastifyInstance, signer: SessionSigner): Promise<void> {
  await app.register(cookie, { secret: signer });
  await app.register(csrf, {
    cookieKey: 'fulfilment_csrf',
    cookieOpts: cookieOptions,
    getUserInfo: readFormOwner,
    // This key need not be secret: the session is random, and the token needs the secret of a
    // signed cookie.
    csrfOpts: { hmacKey: 'fulfilment-sync forms', userInfo: true },
  });
  await app.register(formbody, {
    parser: (text) => parseForm(text, '&', '=', { maxKeys: maxFormMembers }),
  });
}

/** Finds why a request is refused, whatever its token; null if it is not refused. */
function findRefusal(request: FastifyRequest): Refusal | null {
  if (request.url.includes('%00')) return { status: 400, words: 'The address has a NUL character' };
  if (!isChange(request) || !isCrossSite(request)) return null;
  const words = 'The form came from another site; open the page of this server and use its form';
  return { status: 403, words };
}

const isChange = ({ method }: FastifyRequest) => method !== 'GET' && method !== 'HEAD';

/** Gives a request its role. Refuses a change by a viewer, except a logout. */
function authorize(
  request: FastifyRequest,
  reply: FastifyReply,
  role: Role,
): FastifyReply | undefined {
  request.role = role;
  if (role === 'operator' || !isChange(request) || request.url === '/logout') return undefined;
  return refuse(reply, {
    status: 403,
    words: 'ADMIN_VIEWER_TOKEN may only read; log in with ADMIN_TOKEN to change something',
  });
}

/** Returns true if the request belongs to a session that began at the login form. */
export const hasSession = (request: FastifyRequest): boolean => readSession(request) !== '';

/**
 * Returns the session that a request belongs to; empty if there is none. The token of each form is
 * bound to it.
 */
function readSession(request: FastifyRequest): string {
  const cookies = request.cookies[secureSessionCookie] || request.cookies[sessionCookie] || '';
  const { valid, value } = request.unsignCookie(cookies);
  const [kind, until] = value?.split('.') ?? [];
  // The kind is checked because the cookie of the forms is signed with the same secret.
  return valid && kind === 'session' && Number(until) > Date.now() ? (value ?? '') : '';
}

/**
 * Returns the id of a session, which is the random part of its cookie; empty if there is no
 * session.
 */
const toSessionId = (session: string) => session.split('.')[2] ?? '';

/**
 * Returns the role of the session that a request belongs to; null if there is none, or if it has
 * ended. A page that asks for itself again keeps no session open: perhaps nobody looks at it.
 */
async function readSessionRole(
  request: FastifyRequest,
  { db, log }: AccessDeps,
): Promise<Role | null> {
  const session = readSession(request);
  if (session === '' || !(await isSessionOpen(db, toSessionId(session)))) return null;

  if (request.headers[refreshHeader] === undefined)
    await markSessionUsed(db, toSessionId(session)).catch((error: unknown) =>
      log.warn({ event: 'admin_failed', ...errorFields(error) }),
    );

  return session.endsWith('.operator') ? 'operator' : 'viewer';
}

/** Returns the text that the token of a form is bound to. */
export const readFormOwner = (request: FastifyRequest): string =>
  readSession(request) || 'no session';

/**
 * Returns the role that a token gives, or a refusal. After too many wrong tokens the right one is
 * refused, too.
 */
async function checkToken(
  failures: RateLimiterMemory,
  { config: { ADMIN_TOKEN: token = '', ADMIN_VIEWER_TOKEN: viewerToken }, log }: AccessDeps,
  given: string,
  { ip }: FastifyRequest,
): Promise<Role | Refusal> {
  // Counted before the check, so that requests at the same time are all counted.
  const { consumedPoints, msBeforeNext } = await failures.penalty(ip);
  if (consumedPoints > maxFailures) {
    const words = 'Too many wrong tokens from this address; wait a minute';
    return { status: 429, words, retryAfterS: Math.ceil(msBeforeNext / 1_000) };
  }

  const isViewer = viewerToken !== undefined && isSameText(given, viewerToken);
  if (isSameText(given, token) || isViewer) {
    await failures.reward(ip);
    return isViewer ? 'viewer' : 'operator';
  }

  log.warn({ event: 'admin_refused', from: ip });
  return { status: 401, words: 'The token is wrong; enter ADMIN_TOKEN or ADMIN_VIEWER_TOKEN' };
}

/** Compares two texts in a time that reveals neither their content nor their length. */
function isSameText(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

const wantsPage = ({ method, headers }: FastifyRequest) =>
  method === 'GET' && (headers.accept ?? '').includes('text/html');

const loginSchema = z.object({ token: z.string(), next: z.string().default('/') });

function registerLoginRoutes(
  app: FastifyInstance,
  failures: RateLimiterMemory,
  deps: AccessDeps,
  signer: SessionSigner,
): void {
  const open = { config: { open: true }, bodyLimit: maxLoginBytes };

  app.get('/login', open, async (request, reply) => {
    const { next } = loginSchema
      .pick({ next: true })
      .parse(request.query, { error: describeIssue });
    return sendLoginPage(request, reply, next, null);
  });

  app.post('/login', open, async (request, reply) => {
    const { token, next } = loginSchema.parse(request.body, { error: describeIssue });
    const role = await checkToken(failures, deps, token, request);
    if (typeof role !== 'string') {
      if (role.retryAfterS !== undefined) reply.header('retry-after', String(role.retryAfterS));
      return sendLoginPage(request, reply.code(role.status), next, role.words);
    }

    const id = randomBytes(16).toString('hex');
    await signer.load();
    await beginSession(deps.db, id, sessionMs);
    setSessionCookie(request, reply, `session.${Date.now() + sessionMs}.${id}.${role}`);
    return reply.redirect(toLocalPath(next), 303);
  });

  app.post('/logout', async (request, reply) => {
    await endSession(deps.db, toSessionId(readSession(request)));
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

function sendLoginPage(
  request: FastifyRequest,
  reply: FastifyReply,
  next: string,
  problem: string | null,
): FastifyReply {
  const csrfToken = reply.generateCsrf({ userInfo: readFormOwner(request) });
  const refusal = problem !== null && html`<p class="why" role="alert">${problem}</p>`;
  const body = html`<h1>fulfilment-sync</h1>
${refusal}
<form method="post" action="/login" class="login">
${renderCsrfField(csrfToken)}<input type="hidden" name="next" value="${next}">
<label>Token of an operator (ADMIN_TOKEN) or of a viewer (ADMIN_VIEWER_TOKEN)
<input type="password" name="token" required autofocus autocomplete="current-password"></label>
<button>Log in</button></form>`;

  return reply.type('text/html').send(renderBarePage('Log in', body));
}

/** An answer to a request that is not allowed. */
interface Refusal {
  readonly status: 400 | 401 | 403 | 429;
  readonly words: string;
  readonly retryAfterS?: number;
}

function refuse(reply: FastifyReply, { status, words, retryAfterS }: Refusal): FastifyReply {
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="fulfilment-sync"');
  if (retryAfterS !== undefined) reply.header('retry-after', String(retryAfterS));
  return reply.code(status).send({ error: words });
}

/**
 * Refuses a request for another host name: another site can make its name point to this machine.
 */
function refuseForeignHost(request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
  // The header itself: X-Forwarded-Host, which `hostname` may come from, can be set by a page.
  const hostname = (request.headers.host ?? '').replace(/:\d+$/, '');
  if (isLoopback(hostname.replace(/^\[|\]$/g, ''))) return undefined;
  const error =
    'Without ADMIN_TOKEN the server answers only at localhost; set ADMIN_TOKEN to use another name';
  return reply.code(421).send({ error });
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

/** Signs and checks the cookies of the admin pages. */
interface SessionSigner extends Pick<Signer, 'sign' | 'unsign'> {
  /** Loads the secret that the workers share. Call it before a session begins. */
  readonly load: () => Promise<void>;
}

/** Creates a signer. Its key is made of a random secret in schema sync and of the token. */
function createSessionSigner(db: Database, token: string): SessionSigner {
  let signer = new Signer(randomBytes(32).toString('hex'));
  let isLoaded = false;

  return {
    sign: (value) => signer.sign(value),
    unsign: (value) => signer.unsign(value),
    load: async () => {
      if (isLoaded) return;
      const secret = await readAdminSecret(db, 'admin cookies');
      signer = new Signer(createHmac('sha256', secret).update(token).digest('hex'));
      isLoaded = true;
    },
  };
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
