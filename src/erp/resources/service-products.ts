import type { Kysely } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** Names articles that are never shipped, as the ERP does when it inserts into fulfilment.service_products. */
export async function nameServiceProducts(db: Kysely<DB>, client: string, skus: readonly string[]): Promise<void> {
  await db
    .insertInto('fulfilment.service_products')
    .values(skus.map((sku) => ({ client, sku })))
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}
