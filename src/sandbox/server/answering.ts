import type { OutgoingHttpHeaders } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type FaultEffect, isCut } from '../faults.ts';
import { Call, type Operation } from '../operations/operation.ts';
import { readQuery } from '../operations/parameters.ts';
import { Refusal } from '../refusal.ts';
import type { World } from '../world.ts';
import { bendPayload, drip } from './bend.ts';

const noSuchRoute = { errors: [{ status: '404', title: 'There is no such route' }] };

/** First of all: notes the request, lets a fault have its way, and asks for the token. */
export async function takeRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  world: World,
): Promise<FastifyReply | undefined> {
  reply.header('date', new Date(world.clock.nowMs()).toUTCString());
  const operation = request.routeOptions.config.operation;
  request.startedAtMs = performance.now();
  request.client = world.clientOfToken(bearerOf(request));
  if (operation === null) return undefined;
  const [path, query] = splitUrl(request.url);
  const { method, client } = request;
  const name = operation?.name ?? null;
  request.logged = world.log.add({ atMs: Date.now(), method, path, query, operation: name, client });
  if (operation === undefined) return reply.code(404).send(noSuchRoute);
  const effect = world.faults.strike(operation.name, client);
  request.effect = effect;
  if (effect !== null) {
    request.logged.faulty = true;
    world.changes++;
    // A timer may fire up to a millisecond early; the delay is one that was promised.
    if (effect.delayMs !== undefined) await wait(effect.delayMs + 1);
    if (effect.expireTokens) world.expireTokens();
    if (isCut(effect) && !effect.afterEffect && effect.effectAfterMs === undefined) return cut(request, reply, effect);
  }
  if (operation.open || world.clientOfToken(bearerOf(request)) !== null) return undefined;
  return reply.code(401).send({ message: 'Authorization has been denied for this request.' });
}

/** A URL that no route can be looked up by is on record as unexpected, like an unknown route. */
export function refuseUrl(error: Error, request: FastifyRequest, reply: FastifyReply, world: World): void {
  const [path, query] = splitUrl(request.raw.url ?? '');
  const client = world.clientOfToken(bearerOf(request));
  const logged = world.log.add({ atMs: Date.now(), method: request.method, path, query, operation: null, client });
  logged.status = 400;
  logged.durationMs = 0;
  reply.code(400).send({ errors: [{ status: '400', title: error.message }] });
}

/** Carries an operation out, and answers; unless a fault cuts the answer off, before or after the effect. */
export async function answerOperation(
  operation: Operation,
  request: FastifyRequest,
  reply: FastifyReply,
  world: World,
): Promise<unknown> {
  const { effect } = request;
  if (effect === null || !isCut(effect)) return carryOut(operation, request, world);
  if (effect.effectAfterMs !== undefined) {
    const { beginnings } = world;
    setTimeout(() => {
      // Nobody is there any more to be told that the request was refused.
      if (world.beginnings === beginnings) carryOut(operation, request, world).catch(ignoreRefusal);
    }, effect.effectAfterMs).unref();
    return cut(request, reply, effect);
  }
  await carryOut(operation, request, world).catch(ignoreRefusal);
  return cut(request, reply, effect);
}

/** Bends an answer as the fault says, and hides the row that is to be hidden. */
export function bentAnswer(request: FastifyRequest, payload: unknown, world: World): unknown {
  const { effect, client } = request;
  if (effect === null) return payload;
  const rows = (payload as { data?: { id: number; type: string }[] } | null)?.data;
  const row = effect.hideRow === undefined || !Array.isArray(rows) ? undefined : rows[effect.hideRow.index];
  if (effect.hideRow !== undefined && row !== undefined && client !== null)
    world.client(client)?.sight.hide(row.type, row.id, world.clock.nowMs() + effect.hideRow.seconds * 1_000);
  return bendPayload(payload, effect, `${request.protocol}://${request.host}${request.url}`);
}

/** What a fault does to the bytes of an answer. */
export function shapeBody(request: FastifyRequest, reply: FastifyReply, payload: unknown): unknown {
  const { effect } = request;
  if (typeof payload !== 'string' || effect === null) return payload;
  if (effect.contentType !== undefined) reply.header('content-type', effect.contentType);
  if (effect.truncate) {
    reply.hijack();
    const half = payload.slice(0, Math.floor(payload.length / 2));
    const headers = { ...reply.getHeaders(), 'content-length': Buffer.byteLength(payload) };
    reply.raw.writeHead(reply.statusCode, headers as OutgoingHttpHeaders);
    reply.raw.write(half, () => request.raw.socket.destroy());
    noteEnd(request, reply.statusCode);
    return payload;
  }
  const body = effect.invalidJson ? `${payload.slice(0, -1)},,` : payload;
  return effect.drip === undefined ? body : drip(body, effect.drip);
}

async function carryOut(operation: Operation, request: FastifyRequest, world: World): Promise<unknown> {
  const [path, rawQuery] = splitUrl(request.url);
  const query = readQuery(rawQuery, operation.query, operation.required);
  const body = operation.body === null ? null : readBody(operation, request);
  const inhabitant = request.client === null ? undefined : world.client(request.client);
  const paging = query as Record<string, number | undefined>;
  const origin = `${request.protocol}://${request.host}`;
  const { switches } = world;
  const page = { cursor: paging['page[cursor]'], size: paging['page[size]'], rawQuery, path, origin, switches };
  const asked = {
    query: query as never,
    body: body as never,
    path: request.params as Record<string, string>,
    page: { ...page, included: switches.included },
    lagMs: request.effect?.lagMs ?? 0,
  };
  try {
    return await operation.run(new Call<never, never>(world, inhabitant, asked));
  } finally {
    if (operation.method !== 'GET') world.changes++;
  }
}

/** @throws Refusal, ZodError where the body is not what the operation takes */
function readBody(operation: Operation, request: FastifyRequest): unknown {
  const isForm = request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
  if (isForm ? operation.form === 'never' : operation.form === 'only')
    throw new Refusal(415, isForm ? 'The body must be JSON' : 'The body must be application/x-www-form-urlencoded');
  return operation.body?.parse(request.body ?? null);
}

/** Answers with a status, not at all, or with a broken connection. */
function cut(request: FastifyRequest, reply: FastifyReply, effect: FaultEffect): FastifyReply {
  if (effect.status === undefined) {
    reply.hijack();
    if (effect.reset) request.raw.socket.resetAndDestroy();
    noteEnd(request, null);
    return reply;
  }
  reply.code(effect.status);
  if (effect.retryAfter !== undefined) reply.header('retry-after', effect.retryAfter);
  if (effect.location !== undefined) reply.header('location', effect.location);
  if (effect.html) return reply.type('text/html').send('<html><body>Bad gateway</body></html>');
  return reply.send({ errors: [{ status: String(effect.status), title: 'A fault of the sandbox' }] });
}

function noteEnd(request: FastifyRequest, status: number | null): void {
  if (request.logged === null) return;
  request.logged.status = status;
  request.logged.durationMs = Math.round(performance.now() - request.startedAtMs);
}

/** A refusal that no answer can carry any more; anything else is a defect of the sandbox and is not hidden. */
function ignoreRefusal(error: unknown): void {
  if (error instanceof Refusal || error instanceof z.ZodError) return;
  throw error;
}

/** Path and query; further question marks belong to the query. */
function splitUrl(url: string): [string, string] {
  const mark = url.indexOf('?');
  return mark < 0 ? [url, ''] : [url.slice(0, mark), url.slice(mark + 1)];
}

function bearerOf(request: FastifyRequest): string {
  return /^bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
}
