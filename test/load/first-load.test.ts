import { expect, test } from 'vitest';
import { useDatabase } from '../helpers/database.ts';
import { usePuller } from '../helpers/puller.ts';
import { quiet, useSandbox } from '../helpers/sandbox.ts';
import { waitFor } from '../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const shipments = 2_000;

/**
 * Reads Postgres' statistics of four tables: how many index scans ran, and how many rows and
 * entries they read.
 */
const readTableStatistics = () =>
  database.query<{ table: string; scans: number; entries: number }>(
    `select t.relname as table, t.idx_scan::int as scans,
       (t.seq_tup_read + (select sum(i.idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid))::int as entries
     from pg_stat_user_tables t
     where t.schemaname = 'fulfilment' and t.relname in ('orders', 'order_items', 'shipments', 'shipment_items')
     order by 1`,
  );

// Postgres plans the check of a foreign key while the tables are empty, and keeps the plan. A plan
// that reads all rows of the client would make a first load slower with every page: some 1,000
// entries for each of these rows.
test('a first load reads a number of table entries that is linear in its rows', async () => {
  await sandbox.seed(shipments);
  await database.query('analyze fulfilment.orders, fulfilment.shipments');
  await pull('pull-orders');
  await pull('pull-shipments');
  // A session reports its statistics when it ends.
  await waitFor('the statistics', async () =>
    (await readTableStatistics()).every(({ scans }) => scans > 0),
  );
  const statistics = await readTableStatistics();
  expect(statistics).toHaveLength(4);
  for (const { table, entries } of statistics)
    expect({ table, entries }).toSatisfy(() => entries < shipments * 100);
});
