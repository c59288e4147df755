/**
 * Who may see and change what on the pages. Every route needs a session or a token, unless it is declared open.
 */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { parse as parseForm } from 'node:querystring';
import { setTimeout as wait } from 'node:timers/promises';
import cookie from '@fastify/cookie';
import csrf from '@fastify/csrf-protection';
import formbody from '@fastify/formbody';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { z } from 'zod';
import { isLoopback } from '../../../../config/env.ts';
import { hourMs } from '../../../core/time.ts';
import { errorFields, type Logger } from '../../logging/logger.ts';
import { html } from '../pages/html.ts';
import { barePage } from '../pages/view.ts';
import type { Role } from './identity.ts';
import { maxFormMembers, maxLoginBytes } from './request-limits.ts';
import { isCrossSite } from './request-origin.ts';
import type { SessionSigner } from './session-signer.ts';

/** Name of the session cookie. Behind TLS it has the prefix by which browsers bind it to this host and to TLS. */
const sessionCookie = 'fulfilment_session';
const secureSessionCookie = `__Host-${sessionCookie}`;
const sessionMs = 12 * hourMs;
/** So many wrong tokens a minute from one address; after that none is looked at until the minute is over. */
const mostFailures = 10;
const failureSpanS = 60;
/** How long the first requests wait for the secret of the cookies. */
const secretWithinMs = 2_000;

const cookieOptions = { signed: true, httpOnly: true, sameSite: 'lax', path: '/' } as const;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without a token. */
    open?: boolean;
  }
}

export interface AccessOptions {
  /** Undefined: only this machine can reach the server, and need not say who it is. */
  readonly token: string | undefined;
  /** Token of those who may only read. */
  readonly viewerToken: string | undefined;
  readonly log: Logger;
  readonly signer: SessionSigner;
}

/** Who may see and do what: everything asks for the token but what is marked `open`. */
export async function guard(app: FastifyInstance, options: AccessOptions): Promise<void> {
  const { token, log, signer } = options;
  const failures = new RateLimiterMemory({ points: mostFailures, duration: failureSpanS });
  const loaded = signer
    .load()
    .catch((error: unknown) => log.warn({ event: 'admin_secret_unread', ...errorFields(error) }));
  // A form that was signed before would be refused afterwards. Without a database, pages still answer.
  const ready = Promise.race([loaded, wait(secretWithinMs, undefined, { ref: false })]);
  await app.register(cookie, { secret: signer });
  await app.register(csrf, {
    cookieKey: 'fulfilment_csrf',
    cookieOpts: cookieOptions,
    getUserInfo: formOwner,
    // The session it binds to is random, and the token needs the secret of a signed cookie: this key need not be secret.
    csrfOpts: { hmacKey: 'fulfilment-sync forms', userInfo: true },
  });
  await app.register(formbody, {
    parser: (text) => parseForm(text, '&', '=', { maxKeys: maxFormMembers }),
  });

  app.decorateRequest('role', 'viewer');
  // Before the body is read.
  app.addHook('onRequest', async (request, reply) => {
    if (request.url.includes('%00')) return refuse(reply, { status: 400, words: 'The address holds a NUL character' });
    const changes = request.method !== 'GET' && request.method !== 'HEAD';
    if (changes && isCrossSite(request))
      return refuse(reply, { status: 403, words: 'The form came from another site; load the page of this server' });
    if (request.routeOptions.config.open === true) {
      if (request.routeOptions.url === '/login') await ready;
      return;
    }
    await ready;
    if (token === undefined) {
      request.role = 'operator';
      return refuseForeignHost(request, reply);
    }
    const role = readRole(request);
    if (role !== null) return letIn(request, reply, role);
    const [scheme, given] = (request.headers.authorization ?? '').split(' ', 2);
    if (given !== undefined && scheme?.toLowerCase() === 'bearer') {
      const judged = await judge(failures, options, given, request);
      return typeof judged === 'string' ? letIn(request, reply, judged) : refuse(reply, judged);
    }
    if (wantsPage(request)) return reply.redirect(`/login?next=${encodeURIComponent(request.url)}`, 303);
    return refuse(reply, { status: 401, words: 'Send ADMIN_TOKEN as a bearer token, or log in at /login' });
  });
  // After the form was read: that is where its token stands.
  app.addHook('preHandler', (request, reply, done) => {
    if (request.method === 'GET' || request.method === 'HEAD') return done();
    app.csrfProtection(request, reply, done);
  });
  if (token !== undefined) loginRoutes(app, failures, options);
}

/** Lets a request in. A viewer may change nothing but its own session. */
function letIn(request: FastifyRequest, reply: FastifyReply, role: Role): FastifyReply | undefined {
  request.role = role;
  const changes = request.method !== 'GET' && request.method !== 'HEAD';
  if (role === 'operator' || !changes || request.url === '/logout') return undefined;
  return refuse(reply, { status: 403, words: 'ADMIN_VIEWER_TOKEN changes nothing; log in with ADMIN_TOKEN' });
}

/** Returns true if the request belongs to a session that began at the login form. */
export const hasSession = (request: FastifyRequest): boolean => readSession(request) !== '';

/** Returns the session that a request belongs to; empty if there is none. The token of each form is bound to it. */
function readSession(request: FastifyRequest): string {
  const cookies = request.cookies[secureSessionCookie] || request.cookies[sessionCookie] || '';
  const { valid, value } = request.unsignCookie(cookies);
  const [kind, until] = value?.split('.') ?? [];
  // The cookie of the forms is signed with the same secret.
  return valid && kind === 'session' && Number(until) > Date.now() ? (value ?? '') : '';
}

/** Returns the role of the session that a request belongs to; null if there is none. */
function readRole(request: FastifyRequest): Role | null {
  const session = readSession(request);
  if (session === '') return null;
  return session.endsWith('.operator') ? 'operator' : 'viewer';
}

/** Returns what the token of a form is bound to. */
export const formOwner = (request: FastifyRequest): string => readSession(request) || 'no session';

interface Refusal {
  readonly status: 400 | 401 | 403 | 429;
  readonly words: string;
  readonly retryAfterS?: number;
}

/**
 * Returns the role that a token gives, or why it is refused. While an address is held off, the right token is refused, too:
 * otherwise it could continue to guess.
 */
async function judge(
  failures: RateLimiterMemory,
  { token = '', viewerToken, log }: AccessOptions,
  given: string,
  { ip }: FastifyRequest,
): Promise<Role | Refusal> {
  // Counted before anything is waited for: requests that come together must not all be the first.
  const { consumedPoints, msBeforeNext } = await failures.penalty(ip);
  const retryAfterS = Math.ceil(msBeforeNext / 1_000);
  if (consumedPoints > mostFailures) return { status: 429, words: 'Too many wrong tokens; wait a minute', retryAfterS };
  const isViewer = viewerToken !== undefined && sameText(given, viewerToken);
  if (sameText(given, token) || isViewer) {
    await failures.reward(ip);
    return isViewer ? 'viewer' : 'operator';
  }
  log.warn({ event: 'admin_refused', from: ip });
  return { status: 401, words: 'That is not the ADMIN_TOKEN of this worker' };
}

/** In a time that tells nothing, not even the length. */
function sameText(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

function refuse(reply: FastifyReply, { status, words, retryAfterS }: Refusal): FastifyReply {
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="fulfilment-sync"');
  if (retryAfterS !== undefined) reply.header('retry-after', String(retryAfterS));
  return reply.code(status).send({ error: words });
}

/** A page elsewhere may have its own name lead to this machine; without a token only names of this machine are answered. */
function refuseForeignHost(request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
  const { hostname } = request;
  if (isLoopback(hostname.replace(/^\[|\]$/g, ''))) return undefined;
  const error = 'Without ADMIN_TOKEN only localhost is answered here; set a token to use another name';
  return reply.code(421).send({ error });
}

const wantsPage = ({ method, headers }: FastifyRequest) =>
  method === 'GET' && (headers.accept ?? '').includes('text/html');

const loginSchema = z.object({ token: z.string(), next: z.string().default('/') });

function loginRoutes(app: FastifyInstance, failures: RateLimiterMemory, options: AccessOptions): void {
  const open = { config: { open: true }, bodyLimit: maxLoginBytes };
  app.get('/login', open, async (request, reply) => {
    const { next } = loginSchema.pick({ next: true }).parse(request.query);
    return reply.type('text/html').send(loginPage(reply.generateCsrf({ userInfo: formOwner(request) }), next, null));
  });
  app.post('/login', open, async (request, reply) => {
    const { token: given, next } = loginSchema.parse(request.body);
    const judged = await judge(failures, options, given, request);
    if (typeof judged !== 'string') {
      if (judged.retryAfterS !== undefined) reply.header('retry-after', String(judged.retryAfterS));
      return reply
        .code(judged.status)
        .type('text/html')
        .send(loginPage(reply.generateCsrf({ userInfo: formOwner(request) }), next, judged.words));
    }
    const value = `session.${Date.now() + sessionMs}.${randomBytes(16).toString('hex')}.${judged}`;
    // Behind a proxy that ends TLS, it alone knows how the browser came.
    const secure = request.protocol === 'https' || request.headers['x-forwarded-proto'] === 'https';
    await options.signer.load();
    const name = secure ? secureSessionCookie : sessionCookie;
    reply.setCookie(name, value, { ...cookieOptions, secure, maxAge: sessionMs / 1_000 });
    return reply.redirect(ownPath(next), 303);
  });
  app.post('/logout', async (_request, reply) => {
    reply.clearCookie(sessionCookie, { path: '/' });
    reply.clearCookie(secureSessionCookie, { path: '/', secure: true });
    return reply.redirect('/login', 303);
  });
}

/** Where a login leads: a path of this server, whatever the address said. */
function ownPath(next: string): string {
  const base = 'http://here.invalid';
  const url = URL.canParse(next, base) ? new URL(next, base) : null;
  // A path that begins with two slashes would name another server.
  return url !== null && url.origin === base ? `/${url.pathname.replace(/^\/+/, '')}${url.search}` : '/';
}

function loginPage(csrfToken: string, next: string, problem: string | null): string {
  return barePage(
    'Log in',
    html`<h1>fulfilment-sync</h1>
${problem === null ? '' : html`<p class="why" role="alert">${problem}</p>`}
<form method="post" action="/login" class="login">
<input type="hidden" name="_csrf" value="${csrfToken}"><input type="hidden" name="next" value="${next}">
<label>ADMIN_TOKEN <input type="password" name="token" required autocomplete="current-password"></label>
<button>Log in</button></form>`,
  );
}
