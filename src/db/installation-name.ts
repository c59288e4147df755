import { type Kysely, sql } from 'kysely';
import type { DB } from './generated/tables.ts';

/**
 * Reads the name of this database for what it shares with other installations, such as one Redis.
 * It stays the same after a restart, a failover and a recovery. A database that was restored under
 * another oid, such as a copy, has another name.
 */
export async function readInstallationName(db: Kysely<DB>): Promise<string> {
  const { rows } = await sql<{ name: string }>`
    select left(replace(i.id::text, '-', ''), 12) || '-' || d.oid as name
    from sync.installation i
    cross join pg_database d
    where d.datname = current_database()`.execute(db);
  return rows[0]?.name ?? '';
}
