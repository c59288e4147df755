import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { useAdmin } from '../../helpers/admin.ts';
import { useDatabase } from '../../helpers/database.ts';
import { readRecipes } from '../../helpers/recipes.ts';

const database = useDatabase();
const admin = useAdmin(database);

/** The lines of an order: sku and quantity, by the id of the line. */
type Lines = Readonly<Record<number, readonly [sku: string, quantity: number]>>;

/** Stores an order, placed some days ago. */
async function storeOrder(id: number, lines: Lines, { daysAgo = 0 } = {}): Promise<void> {
  await database.query(
    `insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
     values ('default', $1::bigint, 'SO-' || $1::bigint, current_date - $2::integer, '{}', 1)`,
    [id, daysAgo],
  );
  for (const [line, [sku, quantity]] of Object.entries(lines))
    await database.query(
      `insert into fulfilment.order_items (client, id, order_id, sku, quantity, price, raw)
       values ('default', $1, $2, $3, $4, 2, '{}')`,
      [Number(line), id, sku, quantity],
    );
}

/**
 * Pieces on a shipment or in a return: the line of the order, or null, with article and quantity.
 */
type Pieces = readonly (readonly [line: number | null, sku: string | null, quantity: number])[];

let nextId = 1_000;

/** Stores a shipment. */
async function ship(order: number, pieces: Pieces, status = 'SHIPPED'): Promise<void> {
  const id = nextId++;
  await database.query(
    `insert into fulfilment.shipments (client, id, order_id, status, shipped_on, raw, read_no)
     values ('default', $1, $2, $3::text, case $3::text when 'SHIPPED' then now() end, '{}', 1)`,
    [id, order, status],
  );
  for (const [line, sku, quantity] of pieces)
    await database.query(
      `insert into fulfilment.shipment_items (client, id, shipment_id, order_item_id, sku, quantity, raw)
       values ('default', $1, $2, $3, $4, $5, '{}')`,
      [nextId++, id, line, sku, quantity],
    );
}

/** Stores returned pieces. */
async function takeBack(order: number, pieces: Pieces): Promise<void> {
  for (const [line, sku, quantity] of pieces)
    await database.query(
      `insert into fulfilment.return_items
         (client, id, order_id, order_item_id, sku, quantity, processed_on, external_order_number, raw, read_no)
       values ('default', $1, $2::bigint, $3, $4, $5, current_date, 'SO-' || $2::bigint, '{}', 1)`,
      [nextId++, order, line, sku, quantity],
    );
}

const readLines = (order: number) =>
  database.query(
    `select order_item_id as line, shipped, over_shipped, in_warehouse, to_come, returned
     from fulfilment.order_lines where order_id = $1 order by order_item_id`,
    [order],
  );
const readOrder = async (order: number) =>
  (
    await database.query(
      `select state, ordered, cancelled, shipped, to_come, returned from fulfilment.order_overview where order_id = $1`,
      [order],
    )
  )[0];

/** Reads every view of the ERP, and what every recipe that only reads asks for. */
async function readEverything(): Promise<void> {
  const views = await database.query<{ name: string }>(
    `select table_name as name from information_schema.views where table_schema = 'fulfilment' order by 1`,
  );
  const recipes = readRecipes()
    .map(({ statement }) => statement.replaceAll('SO-1001', 'SO-1'))
    .filter((statement) => !/^insert|consume|start_consumer/.test(statement));
  expect(recipes.length).toBeGreaterThan(10);
  for (const statement of [...views.map(({ name }) => `table fulfilment.${name}`), ...recipes])
    await sql.raw(statement).execute(database.db);
}

test('the largest quantities that the service can send break no view and no recipe', async () => {
  await storeOrder(
    1,
    { 11: ['A', 1_593_279_507], 12: ['B', 2_000_000_000], 13: ['C', 2_147_483_647] },
    { daysAgo: 5 },
  );
  await storeOrder(2, {
    21: ['A', 2_147_483_647],
    22: ['B', 2_147_483_647],
    23: ['C', -2_147_483_648],
  });
  await database.query(`
    update fulfilment.order_items set quantity = 2147483647 where order_id = 2;
    update fulfilment.order_items set quantity = -2147483648 where order_id = 2`);
  await ship(1, [
    [11, 'A', 1_593_279_507],
    [12, 'B', 2_000_000_000],
    [11, 'A', 2_147_483_647],
  ]);
  await ship(
    1,
    [
      [13, 'C', 2_147_483_647],
      [null, 'C', 2_147_483_647],
    ],
    'READY_TO_PICK',
  );
  await takeBack(1, [
    [11, 'A', 2_147_483_647],
    [12, 'B', 2_147_483_647],
    [12, 'B', -2_147_483_648],
  ]);
  await database.query(`
    insert into fulfilment.stock_watch (sku) values ('A'), ('B');
    insert into fulfilment.stock_levels (client, sku, stock, asked_at)
    values ('default', 'A', 2147483647, now()), ('default', 'B', 2147483647, now());
    insert into fulfilment.inbound_packing_slips (client, id, status, raw, read_no) values ('default', 1, 'EXPECTED', '{}', 1);
    insert into fulfilment.inbound_packing_slip_items (client, id, inbound_packing_slip_id, sku, quantity, received, raw)
    values ('default', 1, 1, 'A', 2147483647, -2147483648, '{}'), ('default', 2, 1, 'B', 2147483647, 2147483647, '{}');
    insert into fulfilment.inbounds (client, id, inbound_packing_slip_id, raw, read_no) values ('default', 1, 1, '{}', 1);
    insert into fulfilment.inbound_items (client, id, inbound_id, inbound_packing_slip_item_id, sku, quantity, raw)
    values ('default', 1, 1, 1, 'A', 2147483647, '{}'), ('default', 2, 1, 1, 'A', 2147483647, '{}')`);
  await readEverything();
  expect(await readOrder(1)).toMatchObject({
    ordered: 5_740_763_154,
    shipped: 3_593_279_507,
    to_come: 2_147_483_647,
    returned: 1_593_279_507,
  });
  const { visitor } = await admin();
  expect((await visitor.get('/order?client=default&number=SO-1')).status).toBe(200);
});

test('pieces that were shipped twice do not hide a line that is missing', async () => {
  await storeOrder(1, { 11: ['A', 1], 12: ['B', 2] }, { daysAgo: 1 });
  await ship(1, [[11, 'A', 3]]);
  expect(await readLines(1)).toEqual([
    { line: 11, shipped: 1, over_shipped: 2, in_warehouse: 0, to_come: 0, returned: 0 },
    { line: 12, shipped: 0, over_shipped: 0, in_warehouse: 0, to_come: 2, returned: 0 },
  ]);
  const counted = { ordered: 3, cancelled: 0, shipped: 1 };
  expect(await readOrder(1)).toEqual({
    state: 'partly_shipped',
    ...counted,
    to_come: 2,
    returned: 0,
  });
  expect(await database.query(`select * from fulfilment.order_state('SO-1')`)).toMatchObject([
    { state: 'partly_shipped', ...counted },
  ]);
  expect(
    await database.query('select sku, shipped, in_warehouse, missing from fulfilment.backorders'),
  ).toEqual([{ sku: 'B', shipped: 0, in_warehouse: 0, missing: 2 }]);
  await ship(1, [[12, 'B', 2]]);
  expect(await readOrder(1)).toMatchObject({ state: 'shipped', shipped: 3, to_come: 0 });
});

test('too many pieces of one line, on their way or back, count for no other line', async () => {
  await storeOrder(1, { 11: ['A', 1], 12: ['B', 2] }, { daysAgo: 1 });
  await ship(1, [[11, 'A', 5]], 'READY_TO_PICK');
  expect(await readLines(1)).toMatchObject([
    { in_warehouse: 1, to_come: 1 },
    { in_warehouse: 0, to_come: 2 },
  ]);
  expect(await database.query('select sku, missing from fulfilment.backorders')).toEqual([
    { sku: 'B', missing: 2 },
  ]);
  await takeBack(1, [[11, 'A', 4]]);
  expect(await readLines(1)).toMatchObject([{ returned: 1 }, { returned: 0 }]);
  expect(await readOrder(1)).toMatchObject({ returned: 1 });
});

test('pieces without a line fill the lines of their article, the oldest line first', async () => {
  await storeOrder(1, { 11: ['A', 2], 12: ['A', 2], 13: ['B', 1] }, { daysAgo: 1 });
  await ship(1, [
    [11, 'A', 1],
    [null, 'A', 2],
    [99, 'A', 0],
    [null, 'X', 7],
  ]);
  await ship(1, [[null, 'A', 4]], 'READY_TO_PICK');
  expect(await readLines(1)).toMatchObject([
    { line: 11, shipped: 2, in_warehouse: 0, to_come: 0 },
    { line: 12, shipped: 1, in_warehouse: 1, to_come: 1 },
    { line: 13, shipped: 0, in_warehouse: 0, to_come: 1 },
  ]);
  await takeBack(1, [
    [null, 'A', 3],
    [null, null, 1],
  ]);
  expect(await readLines(1)).toMatchObject([{ returned: 2 }, { returned: 2 }, { returned: 0 }]);
  expect(await readOrder(1)).toMatchObject({
    state: 'partly_shipped',
    shipped: 3,
    to_come: 2,
    returned: 4,
  });
});

test('pieces that came back with their line, but without their order, count', async () => {
  await storeOrder(1, { 11: ['A', 2] });
  await storeOrder(2, { 21: ['A', 2] });
  await ship(1, [[11, 'A', 2]]);
  await takeBack(1, [[11, 'A', 1]]);
  await database.query(
    'update fulfilment.return_items set order_id = null, external_order_number = null',
  );

  expect(await readOrder(1)).toMatchObject({ returned: 1 });
  expect(await readOrder(2)).toMatchObject({ returned: 0 });
  expect(
    await database.query('select order_item_id, amount from fulfilment.return_overview'),
  ).toEqual([{ order_item_id: 11, amount: '2' }]);
});

test('a line of less than nothing takes nothing from the sums of its order', async () => {
  await storeOrder(1, { 11: ['A', 2], 12: ['DISCOUNT', -1] });
  await ship(1, [[11, 'A', 2]]);
  const sums = { ordered: 2, cancelled: 0, shipped: 2, to_come: 0 };
  expect(await readOrder(1)).toMatchObject({ state: 'shipped', ...sums });
  expect(
    await database.query(
      'select ordered, cancelled, quantity from fulfilment.order_lines order by quantity',
    ),
  ).toEqual([
    { ordered: 0, cancelled: 0, quantity: -1 },
    { ordered: 2, cancelled: 0, quantity: 2 },
  ]);
});

test.each([['null'], ["'0001-01-01'"]])(
  'an order whose day is %s has back orders from the day after it was stored',
  async (day) => {
    await storeOrder(1, { 11: ['A', 2] });
    await database.query(`update fulfilment.orders set ordered_on = ${day}`);
    const missing = () => database.query('select missing from fulfilment.backorders');
    expect(await missing()).toEqual([]);
    await database.query(`update fulfilment.orders set first_seen_at = now() - interval '2 days'`);
    expect(await missing()).toEqual([{ missing: 2 }]);
    await database.query('update fulfilment.orders set on_hold = true');
    expect(await missing()).toEqual([]);
  },
);
