import { expect, test } from 'vitest';
import { maxSearchedOrders } from '../../../../src/operate/sql/order-list.ts';
import { searchOrders } from '../../../../src/operate/sql/order-search.ts';
import { registerClients } from '../../../../src/service/sql/clients.ts';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { watchPlans } from '../../../helpers/schema/plans.ts';

const database = useDatabase();
const admin = useAdmin(database);
const search = { limit: 50, byEmail: false };

/** Stores orders X-1 to X-n, the newest last, each with a line, a shipment and a package. */
async function storeOrders(count: number): Promise<void> {
  await registerClients(database.db, [
    { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
  ]);
  await database.query(
    `with numbers as (select generate_series(1, $1::int) n), ordered as (
      insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
      select 'default', n, 'X-' || n, date '2020-01-01' + n, '{}', 1 from numbers
    ), lines as (
      insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
      select 'default', n, n, case n when 1 then 'OLD' else 'SKU-' || n end, 1, '{}' from numbers
    ), shipped as (
      insert into fulfilment.shipments (client, id, order_id, raw, read_no)
      select 'default', 100000 + n, n, '{}', 1 from numbers
    )
    insert into fulfilment.parcels (client, shipment_id, package_number, raw, read_no)
    select 'default', 100000 + n, 'P-' || n, '{}', 1 from numbers`,
    [count],
  );
}

test('an order is found by the number of its package, and by an article in any case', async () => {
  await storeOrders(3);
  expect(await searchOrders(database.db, 'P-2', search)).toEqual([
    { client: 'default', number: 'X-2', foundBy: ['package number'] },
  ]);
  expect(await searchOrders(database.db, 'sku-3', search)).toEqual([
    { client: 'default', number: 'X-3', foundBy: ['article'] },
  ]);
  const answer = await (await admin()).visitor.get('/orders?q=P-2');
  expect(answer.headers.get('location')).toBe('/order?client=default&number=X-2');
});

test('a search for a NUL character is refused in words', async () => {
  const answer = await (await admin()).visitor.post('/orders', { q: 'A\0' }, '/orders');
  expect([answer.status, await answer.text()]).toEqual([
    400,
    expect.stringContaining('holds a NUL character'),
  ]);
});

test('an article is searched in the newest orders only, so that a search is bounded', async () => {
  await storeOrders(maxSearchedOrders + 500);
  await database.query('analyze');
  const { executed, end } = await watchPlans(database);
  try {
    const db = database.open(1);
    expect(await searchOrders(db, 'OLD', search)).toEqual([]);
    expect(await searchOrders(db, `SKU-${maxSearchedOrders}`, search)).toHaveLength(1);
  } finally {
    end();
  }
  const asked = executed.filter(({ statement }) => statement.includes('fulfilment.order_items'));
  expect(asked).toHaveLength(2);
  // Each order is met in the list, in its row and in its line.
  expect(asked.filter(({ touched }) => touched > 8 * maxSearchedOrders)).toEqual([]);
});
