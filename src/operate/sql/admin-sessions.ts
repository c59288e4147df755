/**
 * Sessions at the admin pages (`sync.admin_sessions`). A logout deletes its session, so that every
 * worker knows.
 */

import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** Maximum time without a request of the session. */
const maxIdle = sql`interval '1 hour'`;

/** Begins a session, and deletes those that are over. */
export async function beginSession(db: Kysely<DB>, id: string, lifeMs: number): Promise<void> {
  await sql`
    with gone as (
      delete from sync.admin_sessions s
      where s.ends_at <= now() or s.used_at <= now() - ${maxIdle}
    )
    insert into sync.admin_sessions (id, ends_at)
    values (${id}, now() + make_interval(secs => ${lifeMs / 1_000}))`.execute(db);
}

/** Returns true if a session has begun, was not ended, and was used within the last hour. */
export async function isSessionOpen(db: Kysely<DB>, id: string): Promise<boolean> {
  const { rows } = await sql`
    select s.id
    from sync.admin_sessions s
    where s.id = ${id} and s.ends_at > now() and s.used_at > now() - ${maxIdle}`.execute(db);
  return rows.length > 0;
}

/** Records that a session is used. Writes at most once a minute. */
export async function markSessionUsed(db: Kysely<DB>, id: string): Promise<void> {
  await sql`
    update sync.admin_sessions s
    set used_at = now()
    where s.id = ${id} and s.used_at < now() - interval '1 minute'`.execute(db);
}

/** Ends a session, with all copies of its cookie. */
export async function endSession(db: Kysely<DB>, id: string): Promise<void> {
  await sql`
    delete from sync.admin_sessions
    where id = ${id}`.execute(db);
}
