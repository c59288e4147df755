import type { FastifyRequest } from 'fastify';
import type { Config } from '../../../config/env.ts';
import type { ApiRight, ApiToken } from '../../../config/files.ts';
import type { Logger } from '../../core/logger.ts';
import type { Database } from '../../db/pool.ts';
import { RequestError } from '../request-error.ts';

/** The parts that the API uses. */
export interface ApiDeps {
  readonly config: Config;
  readonly db: Database;
  readonly log: Logger;
  /** False until the worker has found a database whose schema fits. */
  readonly isReady: () => boolean;
}

/** Creates the error of a request that may be sent again after some seconds. */
export const refuseForNow = (words: string, seconds = 1): RequestError =>
  new RequestError(503, words, {}, { 'retry-after': String(seconds) });

export const noSuchRow = (): RequestError =>
  new RequestError(404, 'The client of the token has no such row');

declare module 'fastify' {
  interface FastifyRequest {
    /** Token of a request to the API. */
    caller: ApiToken | null;
  }
  interface FastifyContextConfig {
    /** Right that a route of the API needs. */
    right?: ApiRight;
  }
}

/** Returns the token of a request, which `guard` has checked. */
export function toCaller({ caller }: FastifyRequest): ApiToken {
  if (caller === null) throw new TypeError('the route is not guarded');
  return caller;
}
