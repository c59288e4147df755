import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';

/** Age after which a return authorization without a return item is not read again. */
const openFor = sql`interval '180 days'`;

/** Finds return authorizations with an item that has no return item yet, in the order of their ids. */
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

/** Returns whether a return authorization was ever stored here. It may be unlisted since. */
export async function hasAuthorization(db: Kysely<DB>, client: string, id: number): Promise<boolean> {
  const found = await db
    .selectFrom('fulfilment.return_merchandise_authorizations')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('id', '=', id)
    .executeTakeFirst();
  return found !== undefined;
}
