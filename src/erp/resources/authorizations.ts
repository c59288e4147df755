import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';

/** A return authorization that was stored in the last 180 days, or whose day of the week it is. */
const isDue = sql<boolean>`(
  a.first_seen_at > now() - interval '180 days'
  or a.id % 7 = extract(dow from now()))`;

/**
 * Finds return authorizations to read again: those with an item that has no return item yet, in the order of their ids. After 180
 * days each is found once a week, on a day that its id decides, because a customer may send goods back late or never.
 */
export async function findOpenAuthorizations(db: Kysely<DB>, client: string): Promise<number[]> {
  const rows = await db
    .selectFrom('fulfilment.return_merchandise_authorizations as a')
    .select('a.id')
    .where('a.client', '=', anyClient(client))
    .where('a.unlisted_since', 'is', null)
    .where(isDue)
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
