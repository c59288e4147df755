import type { FastifyRequest } from 'fastify';
import type { Config } from '../../../config/env.ts';
import { toVisible } from '../../core/quote.ts';

/** What a token lets its owner do: a viewer reads pages and metrics, and changes nothing. */
export type Role = 'operator' | 'viewer';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the sender of the request may do. */
    role: Role;
  }
}

/** Maximum length of the name of a user in the audit. */
const maxUserLength = 100;

/** Returns a function that names, for the audit, who sent a request: the user that a trusted proxy names, and the address. */
export function nameSenders({
  ADMIN_USER_HEADER: header,
  ADMIN_TRUSTED_PROXIES: isTrusted,
}: Pick<Config, 'ADMIN_USER_HEADER' | 'ADMIN_TRUSTED_PROXIES'>): (request: FastifyRequest) => string {
  return ({ ip, headers, socket }) => {
    const given = header === undefined ? undefined : headers[header];
    // Only a proxy may say it: anybody else can send that header, too.
    if (typeof given !== 'string' || given === '' || isTrusted?.(socket.remoteAddress) !== true) return `page ${ip}`;
    return `${toVisible(given).slice(0, maxUserLength)} (page ${ip})`;
  };
}
