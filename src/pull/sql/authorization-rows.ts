import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';

/**
 * Finds return authorizations to read again: those with an item that has no return item yet, in the
 * order of their ids. After 180 days each is found once a week, on a day that its id decides,
 * because a customer may send goods back late or never.
 */
export async function findOpenAuthorizations(db: Kysely<DB>, client: string): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select a.id
    from fulfilment.return_merchandise_authorizations a
    where a.client = ${anyClient(client)} and a.unlisted_since is null
      and (a.first_seen_at > now() - interval '180 days' or a.id % 7 = extract(dow from now()))
      and exists (
        select from fulfilment.return_merchandise_authorization_items i
        where i.client = a.client and i.return_merchandise_authorization_id = a.id
          and i.return_item_id is null)
    order by a.id`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * Finds the return authorizations that announced these return items, if a line of them does not
 * have the return item yet. Only a read by id tells.
 */
export async function findUnlinkedAuthorizations(
  trx: Transaction<DB>,
  client: string,
  returnItemIds: readonly number[],
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select distinct i.return_merchandise_authorization_id as id
    from fulfilment.return_items r
    join fulfilment.return_merchandise_authorization_items i
      on i.client = ${anyClient(client)} and i.id = r.return_merchandise_authorization_item_id
    where r.client = ${anyClient(client)} and r.id = ${anyId(returnItemIds)}
      and r.unlisted_since is null
      and i.unlisted_since is null and i.return_item_id is null
        and i.return_merchandise_authorization_id is not null
    order by id`.execute(trx);
  return rows.map(({ id }) => id);
}

/** Returns whether a return authorization was ever stored here. It may be unlisted since. */
export async function hasAuthorization(
  db: Kysely<DB>,
  client: string,
  id: number,
): Promise<boolean> {
  const found = await db
    .selectFrom('fulfilment.return_merchandise_authorizations')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('id', '=', id)
    .executeTakeFirst();
  return found !== undefined;
}
