import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** Draws the number of a reading. Call it before the request is sent. */
export async function drawReadNo(db: Kysely<DB>): Promise<number> {
  const { readNo } = await db.selectNoFrom(sql<number>`nextval('sync.read_no')`.as('readNo')).executeTakeFirstOrThrow();
  return readNo;
}
