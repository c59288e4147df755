import type { FastifyRequest } from 'fastify';

/**
 * Returns true if a page of another site sent the request. Reads only headers, so that a foreign request is refused
 * before its body is read. A request without these headers comes from a program such as curl, not from a page.
 */
export function isCrossSite({ headers, host }: Pick<FastifyRequest, 'headers' | 'host'>): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  const { origin } = headers;
  if (origin === undefined) return false;
  return !URL.canParse(origin) || new URL(origin).host !== host;
}
