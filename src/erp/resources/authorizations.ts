import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';

/** Age after which an announced return without a return item is not read again. */
const openFor = sql`interval '180 days'`;

/** Announced returns with a line that has no return item yet, oldest first. */
export async function findOpenAuthorizations(db: Kysely<DB>, client: string): Promise<number[]> {
  const rows = await db
    .selectFrom('fulfilment.return_merchandise_authorizations as a')
    .select('a.id')
    .where('a.client', '=', anyClient(client))
    .where('a.unlisted_since', 'is', null)
    .where('a.first_seen_at', '>', sql<Date>`now() - ${openFor}`)
    .where((eb) =>
      eb.exists(
        eb
          .selectFrom('fulfilment.return_merchandise_authorization_items as i')
          .select('i.id')
          .whereRef('i.client', '=', 'a.client')
          .whereRef('i.return_merchandise_authorization_id', '=', 'a.id')
          .where('i.return_item_id', 'is', null),
      ),
    )
    .orderBy('a.id')
    .execute();
  return rows.map(({ id }) => id);
}

/** Whether an announced return was ever stored here, deleted or not. */
export async function knowsAuthorization(db: Kysely<DB>, client: string, id: number): Promise<boolean> {
  const found = await db
    .selectFrom('fulfilment.return_merchandise_authorizations')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('id', '=', id)
    .executeTakeFirst();
  return found !== undefined;
}
