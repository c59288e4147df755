import { hasCode, isUncoded } from '../core/errors.ts';
import { readSqlState } from './transaction.ts';

/**
 * Codes of errors of a database or a queue that cannot be used now. Codes of five characters are
 * SQLSTATEs.
 */
const awayCodes: readonly RegExp[] = [
  // Connection refused, reset or timed out, name not resolved.
  /^(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND|08\d{3})$/,
  // Postgres starts up or shuts down; it has no connections, disk space or memory left; it is
  // read-only.
  /^(57P0[123]|53\d{3}|25006|database_read_only|database_lost|redis_unreachable)$/,
];

/** SQLSTATEs of conflicts with other sessions: serialization failure, deadlock, lock timeout. */
const conflictStates: ReadonlySet<string> = new Set(['40001', '40P01', '55P03']);

/**
 * First words of replies of Redis that end by themselves: it is full, loads its data, is a replica,
 * cannot write to its disk, or has no primary.
 */
const transientReplies = new Set(['OOM', 'LOADING', 'READONLY', 'MISCONF', 'MASTERDOWN']);

/**
 * Returns true if Postgres or Redis cannot be used now, but perhaps soon.
 * @param hasRedis true if the queue is in Redis, whose driver gives connection errors no code
 */
export function isUnreachable(error: unknown, hasRedis = false): boolean {
  if (error instanceof AggregateError)
    return error.errors.every((one) => isUnreachable(one, hasRedis));

  if (isAway(error) || conflictStates.has(readSqlState(error))) return true;
  if (!hasRedis || !(error instanceof Error)) return false;

  if (error.name === 'ReplyError')
    return transientReplies.has(error.message.split(' ', 1)[0] ?? '');
  return error.name === 'ConnectionClosedError' || isUncoded(error);
}

/** Returns true if the database cannot be used now, or did not answer in time. */
export const isDatabaseAway = (error: unknown): boolean =>
  isAway(error) || isLoginRefused(error) || hasCode(error, 'not_in_time');

/** Returns true if the database takes no writes. */
export const isWriteRefused = (error: unknown): boolean =>
  ['25006', 'database_read_only'].includes(readSqlState(error));

/** Returns true if Postgres refuses the password or the user, or has no such database. */
export const isLoginRefused = (error: unknown): boolean =>
  ['28P01', '28000', '3D000'].includes(readSqlState(error));

const isAway = (error: unknown): boolean =>
  awayCodes.some((code) => code.test(readSqlState(error)));
