import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { readRecipes } from '../../helpers/recipes.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);

const recipes = readRecipes();
const writes = /start_consumer|consume_changes|^insert into/;

/** Runs a recipe as the role that the page names. What it writes stays. */
const run = (statement: string) =>
  database.db.transaction().execute(async (trx) => {
    await sql`set local role ${sql.id(writes.test(statement) ? 'fulfilment_writer' : 'fulfilment_reader')}`.execute(
      trx,
    );
    return (await sql.raw<Record<string, unknown>>(statement).execute(trx)).rows;
  });

/** Fills the tables so that every recipe finds something. */
async function fill(): Promise<void> {
  await database.query("insert into fulfilment.stock_watch (sku) values ('MUG-RED'), ('MUG-BLUE')");
  await outbox.insertOrder('SO-1001', { items: [{ sku: 'MUG-BLUE', quantity: 3 }] });
  await outbox.insertOrder('SO-OLD', { onHold: true });
  await outbox.insertOrder('SO-1002', { orderType: 'NO-SUCH' });
  await outbox.insert('order.cancel', 'SO-1002', {});
  await outbox.push();
  await sandbox.advance(12 * 86_400);
  for (const job of dailyJobs) done(await pull(job));
  const [line] = await database.query<{ id: number; shipment: number; ofOrder: number }>(`
    select i.id, i.shipment_id as shipment,
      (select id from fulfilment.shipment_overview where external_order_number = 'SO-1001') as "ofOrder"
    from fulfilment.shipment_items i order by i.id limit 1`);
  const item = { shipmentItemId: line?.id, quantity: 1 };
  for (const reason of [{ reason: 'DAMAGED' }, { reasonId: 1 }]) {
    const items = [{ ...item, ...reason }];
    await outbox.insert('return.create', 'RET-1', { shipmentId: line?.shipment, items });
    await outbox.push();
  }
  await outbox.insert('return_label.create', 'SO-1001', { shipmentId: line?.ofOrder });
  await outbox.push();
  await database.query(
    `insert into fulfilment.track_traces (client, shipment_id, package_number, current_track_trace_exception_level, raw)
     values ('default', 9000001, 'P', 1, '{}')`,
  );
  // By the clock of this machine, the days of the sandbox may be in the future or in the past.
  await database.query(
    "update fulfilment.orders set ordered_on = current_date - 5 where external_order_number = 'SO-OLD'",
  );
  await database.query(
    'update fulfilment.inbound_packing_slips set expected_on = current_date - 1',
  );
  // The warehouse may not have completed a slip yet.
  await database.query(
    "update fulfilment.inbound_packing_slips set status = 'COMPLETED', completed_on = now() where id = (select min(id) from fulfilment.inbound_packing_slips)",
  );
  await database.query(
    `update fulfilment.inbound_packing_slip_items set received = quantity - 1
     where inbound_packing_slip_id = (select min(id) from fulfilment.inbound_packing_slips)`,
  );
  // A line that the service no longer has differs, too, but is not expected any more.
  await database.query(
    `insert into fulfilment.inbound_packing_slip_items
       (client, id, inbound_packing_slip_id, sku, quantity, received, raw, unlisted_since)
     select 'default', 9000000, max(id), 'UNLISTED', 5, 0, '{}', now() from fulfilment.inbound_packing_slips`,
  );
  await database.query(
    "update fulfilment.shipments set shipped_on = now() where status = 'SHIPPED'",
  );
  // An order of which five pieces are on no shipment.
  await database.query(`
    update fulfilment.order_items set quantity = quantity + 5 where id = (
      select min(i.order_item_id)
      from fulfilment.shipment_items i
      join fulfilment.shipment_overview s on s.id = i.shipment_id
      where s.status = 'SHIPPED' and s.external_order_number like 'SO-default%')`);
  await database.query(
    `insert into fulfilment.shipments (client, id, status, order_id, shipped_on, raw, read_no)
     select 'default', 9000000 + n, case n when 3 then 'ERROR' else 'SHIPPED' end, (select max(id) from fulfilment.orders), now(), '{}', 1
     from generate_series(1, 3) n`,
  );
  await database.query(
    `insert into fulfilment.parcels (client, shipment_id, package_number, track_and_trace_code, raw, read_no)
     select 'default', min(id), 'P', 'https://track.example/P', '{}', 1 from fulfilment.shipments where status = 'SHIPPED'`,
  );
  await database.query(
    `insert into fulfilment.return_merchandise_authorizations (client, id, external_reference, raw, read_no)
     values ('default', 9000000, 'RET-2', '{}', 1)`,
  );
  await database.query(
    `insert into fulfilment.return_merchandise_authorization_items (client, id, return_merchandise_authorization_id, sku, quantity, raw)
     values ('default', 9000000, 9000000, 'MUG-BLUE', 1, '{}')`,
  );
}

const startOfProgram = recipes.find(({ statement }) => statement.includes('start_consumer'));

test('a program starts to follow the feed also where the first entries are not kept', async () => {
  await database.query("select setval(pg_get_serial_sequence('fulfilment.changes', 'seq'), 2)");
  await database.query('update sync.feed_mark set pruned_until = 2');
  expect(await run(startOfProgram?.statement ?? '')).toHaveLength(1);
});

test('every recipe finds what it says, for a role of the ERP', async () => {
  // A program starts before the changes that it follows.
  await run(startOfProgram?.statement ?? '');
  await fill();
  const found = new Map<string, Record<string, unknown>[]>();
  for (const { heading, statement } of recipes) {
    const rows = await run(statement);
    if (statement.startsWith('insert')) continue;
    expect([heading, rows.length > 0]).toEqual([heading, true]);
    found.set(heading, rows);
  }
  const numbers = (heading: string) =>
    (found.get(heading) ?? []).map((row) => row.external_order_number ?? row.reference);
  expect(numbers('Open orders')).toContain('SO-OLD');
  expect(numbers('Open orders')).not.toContain('SO-1001');
  expect(found.get('Late orders')).toContainEqual(
    expect.objectContaining({ external_order_number: 'SO-OLD', state: 'on_hold', days: 5 }),
  );
  expect(numbers('Shipped today, with tracking links')).toContain('SO-1001');
  const goods = found.get('Expected and received goods') ?? [];
  expect(goods).toContainEqual(expect.objectContaining({ status: 'COMPLETED', difference: -1 }));
  expect(goods.map(({ sku }) => sku)).not.toContain('UNLISTED');
  const history = (found.get('History of one order') ?? []).map(
    ({ source, what }) => `${source} ${what}`,
  );
  expect(history).toEqual(
    expect.arrayContaining([
      ...['outbox inserted', 'outbox sent', 'order stored'],
      ...['shipment status', 'document stored'],
    ]),
  );
  expect(numbers('Rejected orders and other requests')).toContain('SO-1002');
  const changed = (found.get('What changed since a seq') ?? []).map(
    ({ entity, id, key }) => `${entity} ${id} ${key}`,
  );
  expect(new Set(changed).size).toBe(changed.length);
  expect(found.get('The state of one order')).toMatchObject([{ state: 'shipped', shipped: 3 }]);
  expect(found.get('Announced returns that have not arrived')).toContainEqual(
    expect.objectContaining({ external_reference: 'RET-2' }),
  );
});
