import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

/**
 * What is stored of an order beside its number, its day and one line of two mugs, which is line 10
 * of order 1.
 */
interface StoredParts {
  /** SQL of further columns of the order, such as `on_hold = true`. */
  readonly order?: string;
  /** Status of a shipment of the first mug. */
  readonly shipment?: string;
  readonly quantity?: number;
}

/** Stores order 1, SO-1, placed three days ago. */
async function storeOrder({ order, shipment, quantity = 2 }: StoredParts = {}): Promise<void> {
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
    values ('default', 1, 'SO-1', current_date - 3, '{}', 1)`);
  await database.query(
    `insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
     values ('default', 10, 1, 'MUG', $1, '{}')`,
    [quantity],
  );
  if (order !== undefined) await database.query(`update fulfilment.orders set ${order}`);
  if (shipment === undefined) return;
  await database.query(
    `insert into fulfilment.shipments (client, id, order_id, status, raw, read_no) values ('default', 7, 1, $1, '{}', 1)`,
    [shipment],
  );
  await database.query(
    `insert into fulfilment.shipment_items (client, id, shipment_id, order_item_id, sku, quantity, raw)
     values ('default', 71, 7, 10, 'MUG', 1, '{}')`,
  );
}

const readProblem = async () =>
  (
    await database.query(
      'select problem_code, problem from fulfilment.order_overview where order_id = 1',
    )
  )[0];

test.each<[string, StoredParts, code: string | null, problem: string | null]>([
  ['without a shipment', {}, 'back_order', 'on no shipment: MUG (2)'],
  ['of which a part was shipped', { shipment: 'SHIPPED' }, 'back_order', 'on no shipment: MUG (1)'],
  [
    'that nobody has picked',
    { shipment: 'READY_TO_PICK', quantity: 1 },
    'not_picked',
    'shipments that have not left: 7 (READY_TO_PICK)',
  ],
  [
    'that waits for the carrier',
    { shipment: 'READY_TO_SHIP', quantity: 1 },
    'not_shipped',
    'shipments that have not left: 7 (READY_TO_SHIP)',
  ],
  [
    'with an error and a back order',
    { shipment: 'ERROR' },
    'warehouse_error',
    'shipments with the status ERROR: 7; on no shipment: MUG (1)',
  ],
  ['on hold', { order: 'on_hold = true' }, 'on_hold', 'it is on hold'],
  [
    'for a later day',
    { order: `preferred_shipping_date = '9999-12-31'` },
    'not_due',
    'it is not to be shipped before 9999-12-31',
  ],
  [
    'without a day, stored long ago',
    { order: `ordered_on = null, first_seen_at = now() - interval '4 days'` },
    'back_order',
    'on no shipment: MUG (2)',
  ],
  ['of yesterday', { order: 'ordered_on = current_date - 1' }, null, null],
  ['that was shipped', { shipment: 'SHIPPED', quantity: 1 }, null, null],
  ['that was cancelled', { quantity: 0 }, null, null],
])('an order %s has its problem in one word and in words', async (_what, parts, code, problem) => {
  await storeOrder(parts);
  expect(await readProblem()).toEqual({ problem_code: code, problem });
});

test('a late order names the row of the outbox that waits, the stock of what it misses, and at most ten articles', async () => {
  await storeOrder();
  await database.query(`
    insert into fulfilment.outbox (kind, reference, payload) values ('order.release', 'SO-1', '{}');
    insert into fulfilment.stock_levels (client, sku, stock, asked_at) values ('default', 'MUG', 0, now());
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
    select 'default', 10 + n, 1, 'CUP-' || n, n, '{}' from generate_series(1, 11) n`);
  const cups = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => `CUP-${n} (${n})`);
  expect(await readProblem()).toMatchObject({
    problem_code: 'row_waiting',
    problem: `outbox row 1 (order.release) is pending; on no shipment: MUG (2, stock 0), ${cups.join(', ')} and 2 more`,
  });
  await database.query('delete from fulfilment.order_items');
  expect(await readProblem()).toMatchObject({
    problem: expect.stringMatching(/; none of its lines is stored here$/),
  });
});
