import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { type Change, toChange } from './feed.ts';
import { rowSet } from './mirror-tables.ts';

/**
 * Finds the watched articles of a client: first those never asked for, then those asked for longest
 * ago.
 */
export async function findWatchedArticles(db: Kysely<DB>, client: string): Promise<string[]> {
  const rows = await db
    .selectFrom('sync.watched_articles as w')
    .leftJoin('fulfilment.stock_levels as l', (join) =>
      join.on('l.client', '=', anyClient(client)).onRef('l.sku', '=', 'w.sku'),
    )
    .select('w.sku')
    .where('w.client', '=', client)
    .orderBy('l.asked_at', (order) => order.asc().nullsFirst())
    .orderBy('w.sku')
    .execute();
  return rows.map(({ sku }) => sku);
}

/** A table in which the ERP names articles. */
export type ArticleTable = 'fulfilment.stock_watch' | 'fulfilment.service_products';

/** Names articles of a client, as the ERP does when it inserts into one of these tables. */
export async function nameArticles(
  db: Kysely<DB>,
  table: ArticleTable,
  client: string,
  skus: readonly string[],
): Promise<void> {
  await db
    .insertInto(table)
    .values(skus.map((sku) => ({ client, sku })))
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Forgets an article of a client, as the ERP does when it deletes from one of these tables. */
export async function forgetArticle(
  db: Kysely<DB>,
  table: ArticleTable,
  client: string,
  sku: string,
): Promise<void> {
  await db.deleteFrom(table).where('client', '=', client).where('sku', '=', sku).execute();
}

/** The service's answer about one article. */
export interface StockAnswer {
  readonly sku: string;
  /** Null if the answer has no stock. The stored stock is then kept. */
  readonly stock: number | null;
}

/**
 * Stores the answers. Returns feed changes only for articles that are new or whose stock changed.
 */
export async function storeStock(
  trx: Transaction<DB>,
  client: string,
  answers: readonly StockAnswer[],
): Promise<Change[]> {
  const { rows } = await sql<{ key: string; created: boolean; changed: boolean }>`
    with asked as (
      select i.sku, i.stock, l.stock as before, l.sku is not null as known
      from ${rowSet({ sku: 'text', stock: 'integer' }, answers)}
      left join fulfilment.stock_levels l on l.client = ${anyClient(client)} and l.sku = i.sku
    ), written as (
      insert into fulfilment.stock_levels as t (client, sku, stock, asked_at)
      select ${client}, sku, stock, clock_timestamp()
      from asked
      order by sku
      on conflict (client, sku) do update set asked_at = excluded.asked_at,
        stock = coalesce(excluded.stock, t.stock),
        changed_at = case when t.stock is distinct from coalesce(excluded.stock, t.stock)
          then now() else t.changed_at end
    )
    select sku as key, not known as created, stock is not null and stock is distinct
      from before as changed
    from asked
    order by sku`.execute(trx);
  return rows
    .filter(({ created, changed }) => created || changed)
    .map(({ key, created }) =>
      toChange('stock_levels', { key, changedColumns: created ? null : ['stock'] }),
    );
}

/**
 * Deletes the stock levels of articles that are no longer watched, because they would not be
 * updated any more.
 */
export async function removeUnwatchedLevels(
  trx: Transaction<DB>,
  client: string,
): Promise<Change[]> {
  const { rows } = await sql<{ key: string }>`
    delete from fulfilment.stock_levels l
    where l.client = ${client} and not exists (
      select from sync.watched_articles w
      where w.client = ${anyClient(client)} and w.sku = l.sku)
    returning l.sku as key`.execute(trx);
  return rows.map(({ key }) => ({ entity: 'stock_levels', id: null, key, operation: 'removed' }));
}
