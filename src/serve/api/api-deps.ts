import type { FastifyRequest } from 'fastify';
import type { Config } from '../../../config/env.ts';
import type { ApiRight, ApiToken } from '../../../config/files.ts';
import { CodedError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Database } from '../../db/pool.ts';

/** The parts that the API uses. */
export interface ApiDeps {
  readonly config: Config;
  readonly db: Database;
  readonly log: Logger;
  /** False until the worker has found a database whose schema fits. */
  readonly isReady: () => boolean;
}

/** A request that is refused. Its message, members and headers are the answer. */
export class ApiError extends CodedError {
  readonly status: number;
  readonly members: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  constructor(status: number, message: string, members = {}, headers = {}) {
    super('api_refused', message);
    this.status = status;
    this.members = members;
    this.headers = headers;
  }
}

/** Creates the error of a request that may be sent again after some seconds. */
export const refuseForNow = (words: string, seconds = 1): ApiError =>
  new ApiError(503, words, {}, { 'retry-after': String(seconds) });

export const noSuchRow = (): ApiError =>
  new ApiError(404, 'The client of the token has no such row');

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
