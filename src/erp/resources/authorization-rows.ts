import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient, anyId } from '../connection/values.ts';
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

/**
 * Finds the return authorizations that announced these return items, if a line of them does not have the return item
 * yet. Only a read by id tells.
 */
export async function findUnlinkedAuthorizations(
  trx: Transaction<DB>,
  client: string,
  returnItemIds: readonly number[],
): Promise<number[]> {
  const rows = await trx
    .selectFrom('fulfilment.return_items as r')
    .innerJoin('fulfilment.return_merchandise_authorization_items as i', (join) =>
      join
        .on('i.client', '=', anyClient(client))
        .onRef('i.id', '=', 'r.return_merchandise_authorization_item_id')
        .on('i.unlisted_since', 'is', null),
    )
    .select('i.return_merchandise_authorization_id as id')
    .distinct()
    .where('r.client', '=', anyClient(client))
    .where('r.id', '=', anyId(returnItemIds))
    .where('r.unlisted_since', 'is', null)
    .where('i.return_item_id', 'is', null)
    .where('i.return_merchandise_authorization_id', 'is not', null)
    .orderBy('i.return_merchandise_authorization_id')
    .execute();
  return rows.map(({ id }) => id as number);
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
