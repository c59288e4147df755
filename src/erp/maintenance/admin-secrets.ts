import { randomBytes } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** Returns a random secret of 32 bytes that all workers of this database share. Creates it if there is none. */
export async function readAdminSecret(db: Kysely<DB>, purpose: string): Promise<Buffer> {
  const { rows } = await sql<{ secret: Buffer }>`
    with created as (
      insert into sync.admin_secrets (purpose, secret)
      values (${purpose}, ${randomBytes(32)})
      on conflict (purpose) do nothing
      returning secret
    )
    select secret
    from created
    union all
    select secret
    from sync.admin_secrets
    where purpose = ${purpose}
    limit 1`.execute(db);
  const [row] = rows;
  // Another worker created it between the two halves of the statement.
  return row?.secret ?? readAdminSecret(db, purpose);
}
