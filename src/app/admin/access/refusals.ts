import type { FastifyReply, FastifyRequest } from 'fastify';
import { isLoopback } from '../../../../config/admin.ts';

/** An answer to a request that is not allowed. */
export interface Refusal {
  readonly status: 400 | 401 | 403 | 429;
  readonly words: string;
  readonly retryAfterS?: number;
}

/** Sends a refusal. */
export function refuse(reply: FastifyReply, { status, words, retryAfterS }: Refusal): FastifyReply {
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="fulfilment-sync"');
  if (retryAfterS !== undefined) reply.header('retry-after', String(retryAfterS));
  return reply.code(status).send({ error: words });
}

/**
 * Refuses a request for a host name that is not of this machine. Another site can make its name point to this machine.
 * Without a token, only local names are therefore answered.
 */
export function refuseForeignHost(request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
  const { hostname } = request;
  if (isLoopback(hostname.replace(/^\[|\]$/g, ''))) return undefined;
  const error = 'Without ADMIN_TOKEN the server answers only at localhost; set ADMIN_TOKEN to use another name';
  return reply.code(421).send({ error });
}
