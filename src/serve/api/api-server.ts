/**
 * The API for programs: a server of its own, with tokens of its own. It lives in the worker, and
 * has its own pool.
 */

import { createHash } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
} from 'fastify';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { z } from 'zod';
import { CodedError } from '../../core/errors.ts';
import { parseExact, ShapeError } from '../../core/json.ts';
import { errorFields } from '../../core/logger.ts';
import { shorten } from '../../core/quote.ts';
import { readSqlState } from '../../db/transaction.ts';
import { limitProblems } from '../../push/kind.ts';
import { describeIssues, maxPayloadValues } from '../../push/payload.ts';
import { limitConnections, timeoutCheckMs } from '../admin/access.ts';
import { type ApiDeps, ApiError } from './api-deps.ts';
import { registerReads } from './api-routes.ts';
import { Budget, maxBodyBytes } from './budget.ts';
import { createApiDocument } from './document.ts';
import { registerInserts } from './insert-route.ts';
import { maxRows } from './schemas.ts';

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

/** A running API. */
export interface ApiServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Starts the API.
 * @throws CodedError `api_port_taken` if the port is in use
 */
export async function startApi(deps: ApiDeps): Promise<ApiServer> {
  const { API_HOST: host, API_PORT: port } = deps.config;
  const app = fastify({
    logger: false,
    bodyLimit: maxBodyBytes,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: requestTimeoutMs,
    http: {
      requestTimeout: requestTimeoutMs,
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
      // Node would answer without a problem document. Nothing here depends on the host.
      requireHostHeader: false,
    },
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength },
    return503OnClosing: false,
    frameworkErrors: ({ code }, _request, reply) => {
      const isLong = code === 'FST_ERR_MAX_PARAM_LENGTH';
      const words = isLong
        ? 'A value of the address is too long'
        : 'The address has a wrong percent-encoding';
      void sendProblem(reply, new ApiError(isLong ? 414 : 400, words));
    },
    clientErrorHandler: refuseRawRequest,
  });
  const budget = new Budget();
  limitConnections(app.server, maxConnections, (socket) => budget.isBusy(socket));
  app.server.on('checkExpectation', (_request, response: ServerResponse) => {
    const { status, type, body } = toProblem(
      new ApiError(417, 'The header Expect may only be 100-continue'),
    );
    const headers = { 'content-type': type, 'content-length': body.length, connection: 'close' };
    response.writeHead(status, headers).end(body);
  });
  // Without a listener, Node would end the connection without an answer.
  app.server.on('connect', (_request, socket: Socket) =>
    endRaw(socket, new ApiError(405, 'This is no proxy: it takes no CONNECT')),
  );
  prepare(app, deps);
  try {
    await app.register(async (scope) => {
      guard(scope, deps, budget);
      registerReads(scope, deps, budget);
      registerInserts(scope, deps, budget);
    });
    const address = new URL(await app.listen({ host, port }));
    const close = async () => {
      const forced = setTimeout(() => app.server.closeAllConnections(), closeTimeoutMs);
      await app.close().finally(() => clearTimeout(forced));
    };
    return { port: Number(address.port), close };
  } catch (cause) {
    await app.close();
    if (readSqlState(cause) !== 'EADDRINUSE') throw cause;
    const message = `API_PORT ${port} is in use on ${host}; set another port (0 takes a free one)`;
    throw new CodedError('api_port_taken', message, { cause });
  }
}

/**
 * Sets how requests are parsed, checked, answered and logged, and serves the document of the
 * routes.
 */
function prepare(app: FastifyInstance, { log }: ApiDeps): void {
  app.decorateRequest('caller', null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'string' },
    async (_request: FastifyRequest, body: string) => {
      try {
        const parsed = parseExact(body, maxPayloadValues);
        await nextTurn();
        return parsed;
      } catch (error) {
        if (error instanceof ShapeError) throw new ApiError(422, `The body ${error.message}`);
        if (error instanceof SyntaxError)
          throw new ApiError(
            400,
            `The body is not JSON that can be read: ${shorten(error.message, maxErrorLength)}`,
          );
        throw error;
      }
    },
  );
  app.setValidatorCompiler<z.ZodType>(
    ({ schema, httpPart }) =>
      (data) =>
        check(schema, data, httpPart),
  );
  app.setSerializerCompiler(() => JSON.stringify);
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    const answer = toApiError(error);
    if (answer.status === 500) log.error({ event: 'api_failed', ...errorFields(error) });
    return sendProblem(reply, answer);
  });
  const findMethods = watchRoutes(app);
  app.setNotFoundHandler(({ url, method }, reply) => {
    const allow = findMethods(url);
    if (allow.length === 0)
      return sendProblem(
        reply,
        new ApiError(404, 'There is nothing at this address; /openapi.json lists the routes'),
      );
    const words = `This address takes no ${method}, only ${allow.join(', ')}`;
    return sendProblem(reply, new ApiError(405, words, {}, { allow: allow.join(', ') }));
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

/**
 * Collects the routes that are registered from now on. Returns a function that finds the methods of
 * an address.
 */
function watchRoutes(app: FastifyInstance): (url: string) => string[] {
  const routes: { readonly pattern: RegExp; readonly method: string }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`);
    for (const one of [method].flat()) routes.push({ pattern, method: one });
  });
  return (url) => {
    const path = url.split('?', 1)[0] ?? '';
    const methods = routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    return [...new Set(methods)];
  };
}

/** Answers a request that Node cannot read, and ends its connection. */
function refuseRawRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  const { _httpMessage: answer } = socket as Socket & {
    readonly _httpMessage?: ServerResponse | null;
  };
  const refusal = rawRefusals[error.code ?? ''] ?? [
    400,
    'The request is not HTTP that can be read',
  ];
  if (error.code === 'ECONNRESET' || !socket.writable || answer?.headersSent === true) {
    socket.destroy();
    return;
  }
  endRaw(socket, new ApiError(...refusal));
}

/** Answers on a connection that no request belongs to, and ends it. */
function endRaw(socket: Socket, error: ApiError): void {
  const { status, type, body } = toProblem(error);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `content-type: ${type}`,
    `content-length: ${body.length}`,
    'connection: close',
  ];
  socket.on('error', () => undefined);
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  socket.write(body);
  socket.destroySoon();
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
 * Reads a part of a request with its schema. A body may be one row or an array: the problems are
 * those of its form.
 */
function check(
  schema: z.ZodType,
  data: unknown,
  part: string | undefined,
): { value: unknown } | { error: Error } {
  const [one, several] = schema instanceof z.ZodUnion ? (schema.options as z.ZodType[]) : [schema];
  // One row more than the maximum is enough to refuse a list.
  const given = Array.isArray(data) ? data.slice(0, maxRows + 1) : data;
  const read = ((Array.isArray(data) ? several : one) ?? schema).safeParse(given, {
    reportInput: true,
  });
  if (read.success) return { value: read.data };

  const found = describeIssues(read.error.issues);
  const words = found.map(
    ({ path, problem }) => `${path === 'payload' ? 'The request' : path} ${problem}`,
  );
  const problems = limitProblems(words);
  return { error: new ApiError(part === 'body' ? 422 : 400, problems.join('; '), { problems }) };
}

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
    const [scheme, given = ''] = (request.headers.authorization ?? '').split(' ', 2);
    // The hash is compared, so the time of the look-up says nothing about a token.
    const found = tokens.get(createHash('sha256').update(given).digest('hex'));
    if (scheme?.toLowerCase() !== 'bearer' || given === '' || found === undefined)
      throw new ApiError(
        401,
        'Send a token of API_TOKENS_FILE as Authorization: Bearer',
        {},
        {
          'www-authenticate': 'Bearer realm="fulfilment-sync"',
        },
      );
    request.caller = found.token;
    const { right } = request.routeOptions.config;
    if (right !== undefined && !found.token.rights.includes(right))
      throw new ApiError(403, `The token ${found.token.name} lacks the right ${right}`);
    await found.limiter.consume('').catch((refused: unknown) => {
      if (!(refused instanceof RateLimiterRes)) throw refused;
      const retryAfter = String(Math.ceil(refused.msBeforeNext / 1_000));
      const limit = `${found.token.requestsPerSecond} requests a second`;
      throw new ApiError(
        429,
        `The token may send ${limit}; wait`,
        {},
        { 'retry-after': retryAfter },
      );
    });
    if (!isReady())
      throw new ApiError(
        503,
        'The worker has not started yet; try again',
        {},
        { 'retry-after': '2' },
      );
    budget.admit(request, reply);
  });
  scope.addHook('preParsing', async (request, _reply, body) =>
    request.method === 'POST' ? budget.count(request, body) : body,
  );
}

function toApiError(error: FastifyError): ApiError {
  if (error instanceof ApiError) return error;
  const state = readSqlState(error);
  const busyWords = busyStates[state];
  if (busyWords !== undefined)
    return new ApiError(503, `${busyWords}; try again`, {}, { 'retry-after': '2' });
  if (/^(ECONN|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND|57P|08|53|database_)/.test(state))
    return new ApiError(
      503,
      'The database cannot be reached; try again',
      {},
      { 'retry-after': '2' },
    );
  // Lengths, and characters that Postgres cannot store: the INSERT of the outbox says what is
  // wrong.
  if (/^(22|23|54)/.test(state))
    return new ApiError(
      422,
      `The database refuses a value: ${shorten(error.message, maxErrorLength)}`,
    );
  const status = error.statusCode ?? 500;
  if (status === 415)
    return new ApiError(415, 'Send the body as JSON, with Content-Type: application/json');
  if (status >= 500)
    return new ApiError(
      500,
      'The request failed; the event api_failed in the log of the worker says why',
    );
  return new ApiError(status, shorten(error.message, maxErrorLength));
}

/** Words for what another session makes the database do, by SQLSTATE. */
const busyStates: Readonly<Record<string, string>> = {
  '55P03': 'Another session has locked a table or row that the request needs',
  '57014': 'The database took too long for the request',
  '40P01': 'The request and another session waited for each other',
  '40001': 'The request met a change of another session',
};

/**
 * Returns an error as a problem (RFC 9457). Its body is bytes: fastify adds a character set to the
 * type of a text.
 */
function toProblem({ status, message, members }: ApiError) {
  const problem = {
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    detail: message,
    ...members,
  };
  return { status, type: 'application/problem+json', body: Buffer.from(JSON.stringify(problem)) };
}

function sendProblem(reply: FastifyReply, error: ApiError): FastifyReply {
  const { status, type, body } = toProblem(error);
  return reply.code(status).headers(error.headers).type(type).send(body);
}
