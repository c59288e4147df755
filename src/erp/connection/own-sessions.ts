import { sql } from 'kysely';
import { CodedError } from '../../core/errors.ts';
import type { Database } from './pool.ts';

/**
 * Checks that two connections have sessions of their own. A pooler in transaction mode lets them share one: settings of
 * a session, prepared statements and LISTEN then do not work.
 * @param other a database whose pool has not the connections of `db`
 * @throws CodedError `sessions_shared`
 */
export async function assertOwnSessions(db: Database, other: Database): Promise<void> {
  const readProcess = async (asking: Database) =>
    (await asking.selectNoFrom(sql<number>`pg_backend_pid()`.as('pid')).executeTakeFirstOrThrow()).pid;
  // Both connections stay open, so with a direct connection, or a pooler in session mode, each has its own process.
  const [one, two] = [await readProcess(db), await readProcess(other)];
  if (one !== two) return;
  throw new CodedError(
    'sessions_shared',
    'a connection pooler shares sessions between connections; ' +
      'let DATABASE_URL lead to Postgres itself, or to a pool in session mode',
  );
}
