import { expect, test } from 'vitest';
import { deleteOrders } from '../../../src/operate/sql/prune-mirror.ts';
import { upsertResources } from '../../../src/pull/sql/upsert.ts';
import { orders } from '../../../src/pull/streams/orders.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

test('a shipment has an event for its first status and for each change of status or warehouse, none for other changes', async () => {
  await database.query(`
    insert into fulfilment.shipments (client, id, status, warehouse_code, ready_to_pick_on, raw, read_no)
    values ('default', 1, 'READY_TO_PICK', 'AMS', '2026-05-04 08:00+00', '{}', 1), ('default', 2, null, 'AMS', null, '{}', 1);
    update fulfilment.shipments set read_no = 2, raw = '{"a": 1}';
    update fulfilment.shipments set status = 'ERROR' where id = 1;
    update fulfilment.shipments set warehouse_code = 'EIN' where id = 1;
    insert into fulfilment.shipments (client, id, status, warehouse_code, shipped_on, raw, read_no)
    values ('default', 1, 'SHIPPED', 'EIN', '2026-05-04 12:00+00', '{}', 3)
    on conflict (client, id) do update set status = excluded.status, shipped_on = excluded.shipped_on`);
  const events = await database.query(`
    select shipment_id, status, warehouse_code, to_char(source_time at time zone 'UTC', 'HH24:MI') as at
    from fulfilment.shipment_events order by id`);
  expect(events.map((event) => Object.values(event))).toEqual([
    [1, 'READY_TO_PICK', 'AMS', '08:00'],
    [2, null, 'AMS', null],
    [1, 'ERROR', 'AMS', null],
    [1, 'ERROR', 'EIN', null],
    [1, 'SHIPPED', 'EIN', '12:00'],
  ]);
});

test('an article has an event for its first stock and for each change', async () => {
  await database.query(`
    insert into fulfilment.stock_levels (client, sku, stock, asked_at) values ('default', 'MUG', null, now());
    update fulfilment.stock_levels set stock = 4, asked_at = now();
    update fulfilment.stock_levels set asked_at = now();
    update fulfilment.stock_levels set stock = 0`);
  const events = await database.query(`select sku, stock from fulfilment.stock_events order by id`);
  expect(events).toEqual([
    { sku: 'MUG', stock: 4 },
    { sku: 'MUG', stock: 0 },
  ]);
});

test('a line of an order, an inbound and a slip have an event for their first state and for each change that is seen', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, first_seen_at, raw, read_no)
    values ('default', 1, 'SO-1', now() - interval '1 day', '{}', 1);
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
    values ('default', 11, 1, 'MUG', 3, '{}');
    update fulfilment.order_line_events set seen_at = now() - interval '1 day';
    insert into fulfilment.inbounds (client, id, status, received_in, created_on, raw, read_no)
    values ('default', 2, 'PROCESSING', 'AMS', '2026-05-04 08:00+00', '{}', 1);
    insert into fulfilment.inbound_packing_slips (client, id, status, expected_in, expected_on, raw, read_no)
    values ('default', 3, 'EXPECTED', 'AMS', '2026-05-03', '{}', 1)`);
  await database.query(`
    update fulfilment.order_items set name = 'Mug', raw = '{"a": 1}';
    update fulfilment.order_items set quantity = 1;
    update fulfilment.order_items set unlisted_since = '2026-05-05 10:00+00';
    update fulfilment.inbounds set read_no = 2;
    update fulfilment.inbounds set status = 'CHECKING', checking_on = '2026-05-04 09:00+00';
    update fulfilment.inbounds set status = 'CHECKED';
    update fulfilment.inbound_packing_slips set comments = 'Fragile';
    update fulfilment.inbound_packing_slips set expected_on = '2026-05-06';
    update fulfilment.inbound_packing_slips set status = 'IN_PROGRESS', received_on = '2026-05-06 07:00+00'`);
  const read = async (columns: string, table: string) =>
    (await database.query(`select ${columns} from fulfilment.${table} order by id`)).map((row) =>
      Object.values(row),
    );
  const time = (column: string) => `to_char(${column} at time zone 'UTC', 'HH24:MI') as ${column}`;
  expect(
    await read(
      `order_id, order_item_id, sku, quantity, ${time('unlisted_since')}`,
      'order_line_events',
    ),
  ).toEqual([
    [1, 11, 'MUG', 3, null],
    [1, 11, 'MUG', 1, null],
    [1, 11, 'MUG', 1, '10:00'],
  ]);
  expect(
    await read(`inbound_id, status, received_in, ${time('source_time')}`, 'inbound_events'),
  ).toEqual([
    [2, 'PROCESSING', 'AMS', '08:00'],
    [2, 'CHECKING', 'AMS', '09:00'],
    [2, 'CHECKED', 'AMS', null],
  ]);
  const slipColumns = `inbound_packing_slip_id, status, expected_in, expected_on::text, ${time('source_time')}`;
  expect(await read(slipColumns, 'inbound_packing_slip_events')).toEqual([
    [3, 'EXPECTED', 'AMS', '2026-05-03', null],
    [3, 'EXPECTED', 'AMS', '2026-05-06', null],
    [3, 'IN_PROGRESS', 'AMS', '2026-05-06', '07:00'],
  ]);
  expect(
    await database.query(
      `select source, id, what, detail, name from fulfilment.order_history('SO-1') where source = 'line'`,
    ),
  ).toEqual([
    { source: 'line', id: 11, what: 'quantity', detail: '1', name: 'MUG' },
    { source: 'line', id: 11, what: 'unlisted', detail: '1', name: 'MUG' },
  ]);
});

test('a line that the service drops has an event, which the history of its order shows; a pruned one has none', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, raw, read_no)
    values ('default', 1, 'SO-1', '{}', 1), ('default', 2, 'SO-2', '{}', 1);
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
    values ('default', 11, 1, 'MUG', 3, '{}'), ('default', 12, 1, 'CUP', 1, '{}'),
      ('default', 21, 2, 'MUG', 2, '{}')`);
  const read = (readNo: number, itemIds: readonly number[]) =>
    database.db.transaction().execute(async (trx) => {
      const rows = itemIds.map((id) => ({ id, order_id: 1, sku: 'MUG', quantity: 3, raw: {} }));
      const children = [{ table: 'order_items', rows, complete: true }];
      const parent = { id: 1, external_order_number: 'SO-1', raw: { readNo } };
      const scope = { trx, client: 'default', stream: 'orders' };
      const age = { readNo, compare: 'raw' } as const;
      return upsertResources(scope, age, orders.tables, [{ parent, children }]);
    });
  await read(2, [11]);
  await database.db.transaction().execute((trx) => deleteOrders(trx, 'default', [2]));

  const dropped = await database.query(`
    select order_id, order_item_id, sku, quantity from fulfilment.order_line_events
    where unlisted_since is not null`);
  expect(dropped).toEqual([{ order_id: 1, order_item_id: 12, sku: 'CUP', quantity: 1 }]);
  expect(
    await database.query(
      `select id, what, detail, name from fulfilment.order_history('SO-1') where source = 'line'`,
    ),
  ).toEqual([{ id: 12, what: 'unlisted', detail: '1', name: 'CUP' }]);
});
