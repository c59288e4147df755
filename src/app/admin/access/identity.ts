import type { FastifyRequest } from 'fastify';
import type { Config } from '../../../../config/env.ts';
import { toVisible } from '../../../core/quote.ts';

/** The role that a token gives. A viewer reads pages and metrics, and changes nothing. */
export type Role = 'operator' | 'viewer';

declare module 'fastify' {
  interface FastifyRequest {
    /** Role of the sender. */
    role: Role;
  }
}

/** Maximum length of a name or an address in the audit. A proxy may forward a long text. */
const maxLength = 100;

/** Returns a function that names the sender of a request for the audit: address, and the user of a trusted proxy. */
export function nameSenders({
  ADMIN_USER_HEADER: header,
  ADMIN_TRUSTED_PROXIES: isTrusted,
}: Pick<Config, 'ADMIN_USER_HEADER' | 'ADMIN_TRUSTED_PROXIES'>): (request: FastifyRequest) => string {
  const shorten = (text: string) => toVisible(text).slice(0, maxLength);
  return ({ ip, headers, socket }) => {
    const page = `page ${shorten(ip)}`;
    const given = header === undefined ? undefined : headers[header];
    // The header counts only if it comes from a trusted proxy, because everybody can send it.
    if (typeof given !== 'string' || given === '' || isTrusted?.(socket.remoteAddress) !== true) return page;
    return `${shorten(given)} (${page})`;
  };
}
