import type { FastifyRequest } from 'fastify';
import type { World } from '../world.ts';

/**
 * Keeps the bodies of a logged request.
 * @param answer the answer before faults change its bytes; absent if there is none yet
 */
export function keepBodies(request: FastifyRequest, { log }: World, answer?: string): void {
  if (request.logged === null) return;
  log.bodies.keep(request.logged.place, {
    contentType: request.headers['content-type'] ?? null,
    hasToken: request.headers.authorization !== undefined,
    request: request.bodyText ?? undefined,
    answer,
  });
}
