import { expect, test } from 'vitest';
import { inTransaction } from '../../../src/db/transaction.ts';
import { makeEvents } from '../../../src/operate/sql/make-events.ts';
import { listOrders } from '../../../src/operate/sql/order-list.ts';
import { registerReceivers } from '../../../src/operate/sql/receivers.ts';
import { findAgedOrders } from '../../../src/privacy/sql/aged-orders.ts';
import { useDatabase } from '../../helpers/database.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);

/** Our own times. All other times of the tables come from the service. */
const ownTimes = ['first_seen_at', 'changed_at', 'unlisted_since', 'seen_at', 'read_at'];
/** Columns of plans, which never say that something has happened, and an indexed one. */
const plans = ['ordered_on', 'expected_on', 'expiration_date'];

/** Lists the columns of tables or views of the schema that hold dates or times. */
const listTimeColumns = (kind: 'r' | 'v') =>
  database.query<{ name: string; column: string }>(
    `select c.relname as name, a.attname as column
     from pg_class c
     join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = 'fulfilment'::regnamespace and c.relkind = $1
       and a.atttypid in ('date'::regtype, 'timestamptz'::regtype) and not a.attname = any($2)
     order by 1, a.attnum`,
    [kind, [...ownTimes, ...plans]],
  );

test('a date before 1970 stays in the tables, and is none in every view and history', async () => {
  await sandbox.advance(12 * 86_400);
  for (const job of dailyJobs) done(await pull(job));
  const mirror = (await listTimeColumns('r')).filter(({ name }) =>
    /^(orders|shipments|return_items|inbounds|inbound_packing_slips|parcels|track_traces|track_trace_events)$/.test(
      name,
    ),
  );
  for (const { name, column } of mirror)
    await database.query(`update fulfilment.${name} set ${column} = '0001-01-01'`);

  for (const { name, column } of await listTimeColumns('v'))
    expect(
      await database.count(`fulfilment.${name} where ${column} < '1970-01-01'`),
      `${name}.${column}`,
    ).toBe(0);
  const [history] = await database.query(
    `select min(h.at) >= '1970-01-01' as "isReal"
     from fulfilment.orders o
     cross join lateral fulfilment.order_history(o.external_order_number) h`,
  );
  expect(history).toEqual({ isReal: true });
  const returned = await database.count('fulfilment.return_items');
  expect(returned).toBeGreaterThan(0);
  expect(await database.count('fulfilment.returns_to_restock')).toBe(returned);
});

test('a poll stores such a date as it came, moves no watermark to it, and announces no return', async () => {
  await registerReceivers(database.db, [
    { name: 'shop', kind: 'event', types: null, clients: null },
  ]);
  await sandbox.advance(15 * 86_400);
  const restockOn = '0001-01-01T00:00:00';
  const attributes = { sku: 'MUG-RED', quantity: 1, processedOn: '0001-01-01', restockOn };
  await sandbox.faults({
    operation: 'v3.returnItems.list',
    effect: {
      set: [
        { path: ['data'], value: [{ type: 'returnItem', id: '7', attributes, relationships: {} }] },
      ],
    },
  });
  done(await pull('pull-return-items'));
  expect(
    await database.query(
      `select processed_on as "processedOn", restock_on < '0001-01-03' as "isOld", raw -> 'attributes' as attributes
       from fulfilment.return_items`,
    ),
  ).toEqual([
    { processedOn: '0001-01-01', isOld: true, attributes: expect.objectContaining({ restockOn }) },
  ]);
  expect(await database.query('select watermark from sync.cursors')).toEqual([{ watermark: null }]);
  expect(await database.query('select newest_source_at as newest from sync.freshness')).toEqual([
    { newest: null },
  ]);
  // The next poll asks for the days of a first one, and what it creates is news.
  await database.query(`update fulfilment.return_items set id = 6`);
  done(await pull('pull-return-items'));
  await makeEvents(database.db);
  expect(await database.count('sync.deliveries')).toBe(0);
  const [request] = (await sandbox.requests())
    .filter(({ operation }) => operation === 'v3.returnItems.list')
    .slice(-1);
  expect(JSON.stringify(request)).not.toContain('-0000');
});

test('an order whose dates mean none is late two days after it was stored', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
    values ('default', 1, 'SO-1', '0001-01-01', '{}', 1)`);
  await database.query(`
    insert into sync.clients (client, identity, base_url) values ('default', 'x', 'x')`);
  const countLate = async () => {
    const filter = { list: 'late', client: 'default' } as const;
    return (await listOrders(database.db, filter, { skip: 0, limit: 9 })).length;
  };
  expect(await countLate()).toBe(0);

  await database.query(`update fulfilment.orders set first_seen_at = now() - interval '3 days'`);
  expect(await countLate()).toBe(1);
});

test('an order whose dates mean none is not old', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, ordered_on, raw, read_no) values ('default', 1, '0001-01-01', '{}', 1);
    insert into fulfilment.shipments (client, id, status, shipped_on, order_id, raw, read_no)
    values ('default', 2, 'SHIPPED', '0001-01-01', 1, '{}', 1)`);
  const step = { client: 'default', by: 'test', days: 30, limit: 10 };
  const { orders } = await inTransaction(database.db, (trx) => findAgedOrders(trx, step, 0));
  expect(orders).toEqual([]);
});
