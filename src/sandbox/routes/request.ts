import type { FastifyReply, FastifyRequest } from 'fastify';
import type { PageRequest } from '../paging.ts';
import { readQuery } from '../query.ts';
import type { ClientStore } from '../store.ts';
import type { World } from '../world.ts';

/** The part of the world that the bearer of this request may see. */
export function storeOf(request: FastifyRequest, world: World): ClientStore {
  const inhabitant = request.client === null ? undefined : world.client(request.client);
  if (inhabitant === undefined) throw new Error('a route that needs a client was reached without one');
  return inhabitant.store;
}

/** What a list needs to know of its request. */
export function pageRequest(request: FastifyRequest, world: World): PageRequest {
  const [path = '', rawQuery = ''] = request.url.split('?', 2);
  const origin = `${request.protocol}://${request.host}`;
  return { query: readQuery(rawQuery), rawQuery, path, origin, switches: world.switches };
}

/** 404 with JSON:API errors; the shape of v3 errors is not shown and decided here (docs/sandbox.md). */
export function notFound(reply: FastifyReply, what: string): FastifyReply {
  return reply.code(404).send({ errors: [{ status: '404', title: `There is no such ${what}` }] });
}
