import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** Draws the number of a reading; to be drawn before its request is sent. */
export async function drawReadNo(db: Kysely<DB>): Promise<number> {
  const { rows } = await sql<{ readNo: number }>`select nextval('sync.read_no') as "readNo"`.execute(db);
  return rows[0]?.readNo as number;
}
