import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { orderPayload } from '../../helpers/order-payload.ts';
import { done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';

const { database, sandbox, outbox, pull } = usePushes();

const runAs = (role: string, statement: string) =>
  database.db.transaction().execute(async (trx) => {
    await sql`set local role ${sql.id(role)}`.execute(trx);
    return (await sql.raw<Record<string, unknown>>(statement).execute(trx)).rows;
  });
const read = (statement: string) => runAs('fulfilment_reader', statement);
const readState = async (number: string) =>
  (await read(`select * from fulfilment.order_state('${number}')`))[0];
const nameService = (sku: string, isPattern = false) =>
  runAs(
    'fulfilment_writer',
    `insert into fulfilment.service_products (sku, is_pattern) values ('${sku}', ${isPattern})`,
  );
const readCandidates = () =>
  read('select sku, reason, external_order_number from fulfilment.service_product_candidates');

const withShipping = (number: string) =>
  orderPayload(number, {
    items: [
      { sku: 'MUG-BLUE', quantity: 2 },
      { sku: 'SHIPPING', quantity: 1, price: '4.95' },
    ],
  });

/** Inserts orders with shipping costs, and waits until the warehouse has shipped all of them. */
async function ship(...numbers: string[]): Promise<void> {
  for (const number of numbers) await outbox.insert('order.create', number, withShipping(number));
  await outbox.push();
  await sandbox.advance(6 * 86_400);
  done(await pull('pull-shipments'));
}

test('an order whose only open line is a service product is shipped', async () => {
  await ship('SO-1');
  expect(await readState('SO-1')).toMatchObject({
    state: 'partly_shipped',
    ordered: 3,
    shipped: 2,
  });
  await nameService('SHIPPING');
  expect(await readState('SO-1')).toMatchObject({ state: 'shipped', ordered: 2, shipped: 2 });
  const line = 'select sku, is_service, quantity, shipped, to_come from fulfilment.order_lines';
  expect(await read(`${line} order by sku`)).toEqual([
    { sku: 'MUG-BLUE', is_service: false, quantity: 2, shipped: 2, to_come: 0 },
    { sku: 'SHIPPING', is_service: true, quantity: 1, shipped: 0, to_come: 0 },
  ]);
  await runAs('fulfilment_writer', 'delete from fulfilment.service_products');
  await nameService('SHIP%', true);
  expect(await readState('SO-1')).toMatchObject({ state: 'shipped' });
  await runAs('fulfilment_writer', 'delete from fulfilment.service_products');
  await nameService('SHIP%');
  expect(await readState('SO-1')).toMatchObject({ state: 'partly_shipped' });
});

test('orders without goods, or whose goods were cancelled, have a state', async () => {
  await nameService('SHIPPING');
  await outbox.insertOrder('COSTS', { items: [{ sku: 'SHIPPING', quantity: 1 }] });
  await outbox.insert('order.create', 'NONE', withShipping('NONE'));
  await outbox.insert('order_item.cancel', 'NONE', { sku: 'MUG-BLUE' });
  await outbox.push();
  expect(await readState('COSTS')).toMatchObject({ state: 'nothing_to_ship', ordered: 0 });
  expect(await readState('NONE')).toMatchObject({ state: 'cancelled', ordered: 2, cancelled: 2 });
});

test('a line that cannot be cancelled although nothing else is open is proposed', async () => {
  await ship('SO-1');
  expect(await readCandidates()).toEqual([]);
  const id = await outbox.insert('order_item.cancel', 'SO-1', { sku: 'SHIPPING' });
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'done', result: { modified: false } });
  expect(await readCandidates()).toMatchObject([
    {
      sku: 'SHIPPING',
      external_order_number: 'SO-1',
      reason: expect.stringContaining(`row ${id}`),
    },
  ]);
  await nameService('SHIPPING');
  expect(await readCandidates()).toEqual([]);
});

test('an article of five orders that were otherwise shipped, never on a shipment, is proposed', async () => {
  await ship('SO-1', 'SO-2', 'SO-3', 'SO-4');
  // Its other line is not shipped yet, so it shows nothing.
  await outbox.insert('order.create', 'SO-5', withShipping('SO-5'));
  await outbox.push();
  expect(await readCandidates()).toEqual([]);
  await sandbox.advance(6 * 86_400);
  done(await pull('pull-shipments'));
  expect(await readCandidates()).toMatchObject([
    { sku: 'SHIPPING', reason: expect.stringContaining('the other lines of 5 orders') },
  ]);
  await database.query(
    "update fulfilment.shipment_items set sku = 'SHIPPING' where id = (select min(id) from fulfilment.shipment_items)",
  );
  expect(await readCandidates()).toEqual([]);
});

test('a pattern that would fail in every query is refused', async () => {
  await expect(nameService('A\\', true)).rejects.toThrow('service_products_pattern');
  await expect(nameService('', false)).rejects.toThrow('service_products_sku_check');
  await nameService('A\\\\', true);
  await nameService('B\\', false);
  expect(
    await read("select from fulfilment.service_products p where 'A\\' like p.sku and p.is_pattern"),
  ).toHaveLength(1);
});
