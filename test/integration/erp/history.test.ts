import { expect, test } from 'vitest';
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
