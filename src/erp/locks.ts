import { sql, type Transaction } from 'kysely';
import type { DB } from './rows.ts';

/**
 * Names that transactions lock to come one after the other. Each is a row of ours: an advisory key could be taken, and kept,
 * by any role that may connect.
 */

/** SQL: a CTE `locked`, with a row once the name is locked to the end of the transaction; empty where it has none yet. */
export const lockedBy = (name: string) => sql`
  locked as materialized (select from sync.locks where name = ${name} for update)`;

/** Makes a name that can be locked. */
export async function makeLock(trx: Transaction<DB>, name: string): Promise<void> {
  await sql`insert into sync.locks (name) values (${name}) on conflict do nothing`.execute(trx);
}

/** Locks a name to the end of the transaction, and waits for whoever has it. */
export async function lockName(trx: Transaction<DB>, name: string): Promise<void> {
  const { rows } = await sql`with ${lockedBy(name)} select from locked`.execute(trx);
  if (rows.length > 0) return;
  await makeLock(trx, name);
  await sql`with ${lockedBy(name)} select from locked`.execute(trx);
}

/** Locks a name to the end of the transaction, unless somebody has it. */
export async function tryLockName(trx: Transaction<DB>, name: string): Promise<boolean> {
  await makeLock(trx, name);
  const { rows } = await sql`select from sync.locks where name = ${name} for update skip locked`.execute(trx);
  return rows.length > 0;
}
