import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { inTransaction } from '../../src/db/transaction.ts';
import { lockOrderScope } from '../../src/privacy/sql/order-scope.ts';
import { useDatabase } from '../helpers/database.ts';

const database = useDatabase();

test('the announcements of returns of an order are found without a search of the outbox', async () => {
  await database.query(`
    insert into fulfilment.outbox (client, kind, reference, payload, status, result, finished_at, next_attempt_at)
    select 'default', 'return.create', 'R-' || n, jsonb_build_object('shipmentId', n), 'done', '{}', now(), null
    from generate_series(1, 40000) n`);
  await database.query(`
    insert into fulfilment.shipments (client, id, order_id, raw, read_no)
    values ('default', 7, 1, '{}', 1), ('default', 8, 1, '{}', 1)`);
  await database.query('analyze fulfilment.outbox');
  const { rows, touched } = await inTransaction(database.db, async (trx) => {
    const { rows } = await lockOrderScope(trx, 'default', [{ id: 1, number: 'SO-1' }]);
    const stats = await sql<{ touched: number }>`
      select (seq_tup_read + idx_tup_fetch)::int as touched
      from pg_stat_xact_user_tables
      where relid = 'fulfilment.outbox'::regclass`.execute(trx);
    return { rows, touched: stats.rows[0]?.touched };
  });
  expect(rows.map(({ reference }) => reference)).toEqual(['R-7', 'R-8']);
  expect(touched).toBeLessThan(20);
});
