import type { FastifyRequest } from 'fastify';
import type { Config } from '../../../../config/env.ts';
import { toVisible } from '../../../core/quote.ts';

/** What a token lets its owner do: a viewer reads pages and metrics, and changes nothing. */
export type Role = 'operator' | 'viewer';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the sender of the request may do. */
    role: Role;
  }
}

/** Maximum length of a name or an address in the audit: a proxy forwards what it was sent. */
const maxLength = 100;

/** Returns a function that names, for the audit, who sent a request: the user that a trusted proxy names, and the address. */
export function nameSenders({
  ADMIN_USER_HEADER: header,
  ADMIN_TRUSTED_PROXIES: isTrusted,
}: Pick<Config, 'ADMIN_USER_HEADER' | 'ADMIN_TRUSTED_PROXIES'>): (request: FastifyRequest) => string {
  const shorten = (text: string) => toVisible(text).slice(0, maxLength);
  return ({ ip, headers, socket }) => {
    const page = `page ${shorten(ip)}`;
    const given = header === undefined ? undefined : headers[header];
    // Believes the header only from a trusted proxy: everybody can send it.
    if (typeof given !== 'string' || given === '' || isTrusted?.(socket.remoteAddress) !== true) return page;
    return `${shorten(given)} (${page})`;
  };
}
