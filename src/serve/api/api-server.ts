/**
 * The API for programs: a server of its own, with tokens of its own. It lives in the worker, and
 * has its own pool.
 */

import { createHash } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
} from 'fastify';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import type { z } from 'zod';
import { hasCode } from '../../core/errors.ts';
import { errorFields } from '../../core/logger.ts';
import { quote, shorten } from '../../core/quote.ts';
import { isConstraintViolated, isDataRefused } from '../../db/transaction.ts';
import { readPart } from '../../push/check-payload.ts';
import { limitConnections } from '../admin/access.ts';
import { type ListeningServer, limitTimes, listen, readBearerToken } from '../listen.ts';
import {
  describeTrouble,
  holdsNul,
  nulWords,
  RequestError,
  refuseToken,
  toRetryAfter,
} from '../request-error.ts';
import { type ApiDeps, refuseForNow } from './api-deps.ts';
import { registerReads } from './api-routes.ts';
import { Budget, maxBodyBytes } from './budget.ts';
import { createApiDocument } from './document.ts';
import { registerWrites } from './write-routes.ts';

const maxConnections = 512;
/** Maximum characters of an error of others: it may repeat what was sent. */
const maxErrorLength = 1_000;
/**
 * Maximum characters of a value in a path, percent-encoded. Its schema has a lower limit, with
 * words.
 */
const maxParamLength = 4_096;
/** Maximum milliseconds until a request has arrived. */
const requestTimeoutMs = 30_000;
/**
 * Milliseconds that requests have to end when the server closes. Programs repeat them with their
 * keys.
 */
const closeTimeoutMs = 5_000;

/**
 * Starts the API.
 * @throws CodedError `api_port_taken` if the port is in use
 */
export async function startApi(deps: ApiDeps): Promise<ListeningServer> {
  const { API_HOST, API_PORT } = deps.config;
  const budget = new Budget();
  const app = createApp(budget);
  prepare(app, deps);

  await app.register(async (scope) => {
    guard(scope, deps, budget);
    registerReads(scope, deps, budget);
    registerWrites(scope, deps, budget);
  });

  const port = await listen(app, API_HOST, API_PORT, 'API_PORT');
  const close = async () => {
    const forced = setTimeout(() => app.server.closeAllConnections(), closeTimeoutMs);
    await app.close().finally(() => clearTimeout(forced));
  };
  return { port, close };
}

/** Creates the server, which answers also what is no request of a route. */
function createApp(budget: Budget): FastifyInstance {
  const { http, ...times } = limitTimes(requestTimeoutMs);
  const app = fastify({
    logger: false,
    bodyLimit: maxBodyBytes,
    ...times,
    // Node would answer without a problem document. Nothing here depends on the host.
    http: { ...http, requireHostHeader: false },
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength },
    return503OnClosing: false,
    frameworkErrors: (error, _request, reply) => void sendProblem(reply, toAddressError(error)),
    clientErrorHandler: refuseRawRequest,
  });

  limitConnections(app.server, maxConnections, (socket) => budget.isBusy(socket));
  return app;
}

function toAddressError({ code }: FastifyError): RequestError {
  return code === 'FST_ERR_MAX_PARAM_LENGTH'
    ? new RequestError(414, 'A value of the address is too long')
    : new RequestError(400, 'The address has a wrong percent-encoding');
}

/**
 * Sets how requests are parsed, checked, answered and logged, and serves the document of the
 * routes.
 */
function prepare(app: FastifyInstance, { log }: ApiDeps): void {
  app.decorateRequest('caller', null);
  setReading(app);

  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    const answer = toApiError(error);
    if (answer.status === 500) log.error({ event: 'api_failed', ...errorFields(error) });
    return sendProblem(reply, answer);
  });

  app.setNotFoundHandler(({ method }, reply) => {
    const words = `Nothing takes ${method} at this address; /openapi.json lists the routes`;
    return sendProblem(reply, new RequestError(404, words));
  });

  app.addHook('onResponse', async ({ caller, method, routeOptions, ip }, reply) => {
    log.info({
      event: 'api_request',
      method,
      route: routeOptions.url ?? 'none',
      status: reply.statusCode,
      durationMs: Math.round(reply.elapsedTime),
      from: ip,
      ...(caller === null ? {} : { token: caller.name, client: caller.client }),
    });
  });

  const document = createApiDocument(app);
  app.get('/openapi.json', async (_request, reply) => reply.send(document()));
}

/** Sets how requests are read. A body stays bytes: its route reads it. */
function setReading(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const readBytes = async (_request: FastifyRequest, body: Buffer) => body;
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, readBytes);

  app.setValidatorCompiler<z.ZodObject>(({ schema, httpPart }) => (data) => {
    if (httpPart === 'body') return { value: data };
    if (httpPart === 'querystring') assertMembersKnown(Object.keys(schema.shape), data);
    const read = readPart(schema, data);
    if ('value' in read) return read;

    const problems = read.problems.map(({ text }) => text);
    return { error: new RequestError(400, problems.join('; '), { problems }) };
  });
}

/** @throws RequestError 400 if a query has another member than the known ones */
function assertMembersKnown(known: readonly string[], query: object): void {
  const unknown = Object.keys(query).find((name) => !known.includes(name));
  if (unknown === undefined) return;

  const others = known.length > 0 ? `known are ${known.join(', ')}` : 'there are none here';
  throw new RequestError(400, `${quote(unknown)} is not a known member of the query; ${others}`);
}

/** Answers a request that Node cannot read, and ends its connection. */
function refuseRawRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  const { _httpMessage: answer } = socket as Socket & {
    readonly _httpMessage?: ServerResponse | null;
  };
  if (error.code === 'ECONNRESET' || !socket.writable || answer?.headersSent === true) {
    socket.destroy();
    return;
  }

  const words = 'The request is not HTTP that can be read';
  const refusal = new RequestError(...(rawRefusals[error.code ?? ''] ?? [400, words]));
  const { status, type, body } = toProblem(refusal);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `content-type: ${type}`,
    `content-length: ${body.length}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

const rawRefusals: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'The address and the headers are larger than 16 KB'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'The extensions of the chunks are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [
    408,
    `The request did not arrive within ${requestTimeoutMs / 1_000} seconds`,
  ],
};

/**
 * Requires a token with the right of the route, within its rate. The body is read only after that.
 */
function guard(scope: FastifyInstance, { config, isReady }: ApiDeps, budget: Budget): void {
  const tokens = new Map(
    (config.apiTokens ?? []).map((token) => {
      const limiter = new RateLimiterMemory({ points: token.requestsPerSecond, duration: 1 });
      return [token.sha256, { token, limiter }] as const;
    }),
  );

  scope.addHook('onRequest', async (request, reply) => {
    const given = readBearerToken(request) ?? '';
    // The hash is compared, so the time of the look-up says nothing about a token.
    const found = tokens.get(createHash('sha256').update(given).digest('hex'));
    if (given === '' || found === undefined)
      throw refuseToken('Send a token of API_TOKENS_FILE as Authorization: Bearer');

    const { token, limiter } = found;
    request.caller = token;
    const { right } = request.routeOptions.config;
    if (right !== undefined && !token.rights.includes(right))
      throw new RequestError(403, `The token ${token.name} lacks the right ${right}`);

    await limiter.consume('').catch((refused: unknown) => {
      if (!(refused instanceof RateLimiterRes)) throw refused;
      throw refuseRate(token.requestsPerSecond, refused.msBeforeNext);
    });

    if (!isReady()) throw refuseForNow('The worker has not started yet; try again', 2);
    budget.admit(request, reply);
  });

  scope.addHook('preParsing', async (request, _reply, body) =>
    ['GET', 'HEAD'].includes(request.method) ? body : budget.count(request, body),
  );
}

function refuseRate(requestsPerSecond: number, waitMs: number): RequestError {
  const words = `The token may send ${requestsPerSecond} requests a second; wait`;
  return new RequestError(429, words, {}, toRetryAfter(waitMs));
}

function toApiError(error: FastifyError): RequestError {
  if (error instanceof RequestError) return error;

  const trouble = describeTrouble(error);
  if (trouble !== null) return refuseForNow(trouble, 2);
  if (hasCode(error, 'payload_not_checked'))
    return refuseForNow('The check of the request was interrupted; try again', 2);

  if (holdsNul(error)) return new RequestError(422, nulWords);
  const shown = shorten(error.message, maxErrorLength);
  // The INSERT of the outbox says what is wrong.
  if (isDataRefused(error) || isConstraintViolated(error))
    return new RequestError(422, `The database refuses a value: ${shown}`);

  const status = error.statusCode ?? 500;
  if (status === 415)
    return new RequestError(415, 'Send the body as JSON, with Content-Type: application/json');
  if (status === 413) return new RequestError(413, 'The body must have at most 16 MB');
  if (status < 500) return new RequestError(status, shown);
  return new RequestError(
    500,
    'The request failed; the event api_failed in the log of the worker says why',
  );
}

/**
 * Returns an error as a problem (RFC 9457). Its body is bytes: fastify adds a character set to the
 * type of a text.
 */
function toProblem({ status, message, members }: RequestError) {
  const problem = {
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    detail: message,
    ...members,
  };
  return { status, type: 'application/problem+json', body: Buffer.from(JSON.stringify(problem)) };
}

function sendProblem(reply: FastifyReply, error: RequestError): FastifyReply {
  const { status, type, body } = toProblem(error);
  return reply.code(status).headers(error.headers).type(type).send(body);
}
