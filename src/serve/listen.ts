/** How the admin server and the API listen, how long they wait, and how they read headers. */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { CodedError } from '../core/errors.ts';
import { readSqlState } from '../db/transaction.ts';

/** A running server. */
export interface ListeningServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Begins to listen, and returns the port.
 * @param variable names the setting of the port, for the error
 * @throws CodedError, such as `admin_port_taken`, if the port is in use
 */
export async function listen(
  app: FastifyInstance,
  host: string,
  port: number,
  variable: 'ADMIN_PORT' | 'API_PORT',
): Promise<number> {
  try {
    return Number(new URL(await app.listen({ host, port })).port);
  } catch (cause) {
    await app.close();
    if (readSqlState(cause) !== 'EADDRINUSE') throw cause;

    const remedy = 'set another port (0 takes a free one)';
    const message = `${variable} ${port} is in use on ${host}; ${remedy}`;
    const code = variable === 'ADMIN_PORT' ? 'admin_port_taken' : 'api_port_taken';
    throw new CodedError(code, message, { cause });
  }
}

/** Milliseconds between two checks of Node for requests that take too long. */
const timeoutCheckMs = 1_000;

/**
 * Returns the options of a server for the time until a request has arrived, with its body, and that
 * a connection waits for the next one.
 */
export const limitTimes = (requestTimeout: number) => ({
  requestTimeout,
  keepAliveTimeout: requestTimeout,
  // Node enforces requestTimeout only if headersTimeout is not longer.
  http: {
    requestTimeout,
    headersTimeout: requestTimeout,
    connectionsCheckingInterval: timeoutCheckMs,
  },
});

/** Returns the bearer token of a request, as programs send it; null if there is none. */
export function readBearerToken({ headers }: FastifyRequest): string | null {
  const [scheme, given = ''] = (headers.authorization ?? '').split(' ', 2);
  return scheme?.toLowerCase() === 'bearer' && given !== '' ? given : null;
}

/** Returns true if an Accept header names JSON before HTML. Browsers do not name it. */
export const wantsJson = (accept = ''): boolean =>
  /application\/json|text\/html/.exec(accept)?.[0] === 'application/json';

/** Returns true if a request is that of a browser. */
export const wantsPage = ({ headers: { accept = '' } }: FastifyRequest): boolean =>
  accept.includes('text/html') && !wantsJson(accept);
