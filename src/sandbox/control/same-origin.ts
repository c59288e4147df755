import type { FastifyRequest } from 'fastify';
import { Refusal } from '../refusal.ts';

/** Names of this machine: addresses, `localhost`, and names without a dot, as containers have. */
const localName = /^(\[[\da-f:.]+\]|[\d.]+|[^.]+|[^.]+\.localhost)$/i;

/**
 * Refuses a control call that a page of another site makes in the developer's browser. Browsers name the origin of such
 * calls; programs such as curl do not.
 * @throws Refusal if the call comes from another site
 */
export function refuseOtherSites(request: FastifyRequest): void {
  if (request.routeOptions.config.operation !== null || request.method === 'GET' || request.method === 'HEAD') return;
  const { origin, host = '', 'sec-fetch-site': site } = request.headers;
  const isOtherSite = site !== undefined && site !== 'same-origin' && site !== 'none';
  const isOtherOrigin = origin !== undefined && (!isFromHost(origin, host) || isForeignName(request, host));
  if (isOtherSite || isOtherOrigin)
    throw new Refusal(403, 'Pages of other sites must not control the sandbox: open its own page, or use curl');
}

/**
 * Returns whether a URL has the host to which a request was sent. A proxy may have ended TLS, so the schemes may differ.
 * An origin of `null`, which any site can send, has no host.
 */
export const isFromHost = (url: string, host: string): boolean => URL.canParse(url) && new URL(url).host === host;

/** Returns whether a site outside has given its own name to this machine, to be of the same origin as the sandbox. */
function isForeignName({ socket }: FastifyRequest, host: string): boolean {
  const isLoopback = /^(::1$|127\.|::ffff:127\.)/.test(socket.localAddress ?? '');
  return isLoopback && !localName.test(host.replace(/:\d+$/, ''));
}
