import { test } from 'vitest';
import { maskErasedFamilies } from '../../../src/erp/mirror/erasures.ts';
import { shipments } from '../../../src/sync/streams/shipments.ts';
import { orders } from '../../../src/sync/streams/orders.ts';
import { authorizations } from '../../../src/sync/streams/authorizations.ts';
import { findAgedOrders } from '../../../src/erp/privacy/aged-data.ts';
import { eraseOrders } from '../../../src/erp/privacy/erase-orders.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();
test('measure', { timeout: 300_000 }, async () => {
  const out: string[] = [];
  const families = Array.from({ length: 100 }, (_v, n) => ({ parent: { id: n * 7 + 1, raw: {}, order_id: n * 7 + 1, shipment_id: n * 7 + 1 }, children: [] }));
  const measure = async (name: string, tables: typeof orders.tables) => {
    await database.db.transaction().execute(async (trx) => {
      for (let n = 0; n < 20; n++) await maskErasedFamilies(trx, 'default', tables, families);
      const t0 = performance.now();
      for (let n = 0; n < 500; n++) await maskErasedFamilies(trx, 'default', tables, families);
      out.push(`${name}: ${((performance.now() - t0) / 500).toFixed(3)} ms a page`);
      const t1 = performance.now();
      for (let n = 0; n < 500; n++) await trx.selectNoFrom((eb) => eb.lit(1).as('x')).execute();
      out.push(`  select 1: ${((performance.now() - t1) / 500).toFixed(3)} ms`);
    });
  };
  await measure('orders, none', orders.tables);
  await measure('shipments, none', shipments.tables);
  await database.query(`insert into fulfilment.orders (client, id, external_order_number, raw, read_no, ordered_on, email)
    select 'default', n, 'SO-' || n, '{"id":1,"attributes":{"email":"x"}}', 1, '2020-01-01', 'x' from generate_series(1, 200000) n`);
  await database.query(`insert into fulfilment.order_addresses (client, order_id, role, id, raw, last_name)
    select 'default', n, 'delivery', n, '{"id":1,"attributes":{"lastName":"x"}}', 'x' from generate_series(1, 200000) n`);
  await database.query(`insert into fulfilment.shipments (client, id, order_id, status, shipped_on, raw, read_no)
    select 'default', n, n, 'SHIPPED', '2020-01-01', '{"id":1,"attributes":{"x":"x"}}', 1 from generate_series(1, 200000) n`);
  await database.query(`insert into sync.erasures (client, entity, id, external_order_number, erased_by)
    select 'default', 'orders', n + 1000000, 'SO-' || n + 1000000, 'x' from generate_series(1, 300000) n`);
  await measure('orders, 300,000 of others, no analyze', orders.tables);
  await measure('shipments, 300,000 of others, no analyze', shipments.tables);
  await measure('authorizations, 300,000', authorizations.tables);
  await database.query('analyze');
  await measure('orders, 300,000 of others', orders.tables);
  await measure('shipments, 300,000 of others', shipments.tables);
  await measure('authorizations, 300,000', authorizations.tables);
  const t0 = performance.now();
  await database.db.transaction().execute(async (trx) => {
    let erased = 0;
    for (let afterId = 0, part = 0; part < 2; part++) {
      const t = performance.now();
      const found = await findAgedOrders(trx, { client: 'default', by: 'x', days: 30, limit: 2000 }, afterId);
      out.push(`find among 2,000: ${(performance.now() - t).toFixed(0)} ms, ${found.orders.length}`);
      afterId = found.lastId ?? 0;
      const t2 = performance.now();
      for (let s = 0; s < 1000; s += 100) {
        await eraseOrders(trx, 'default', 'x', found.orders.slice(s, s + 100), { cancelDead: false });
        erased += 100;
      }
      out.push(`erase 1,000 orders: ${(performance.now() - t2).toFixed(0)} ms`);
    }
  });
  console.log(out.join('\n'), performance.now() - t0);
});
