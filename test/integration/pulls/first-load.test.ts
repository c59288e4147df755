import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const shipments = 2_000;

/** Entries of indexes, and rows, that were read, by table; and how often it was looked for any. */
const entriesRead = () =>
  database.query<{ table: string; looked: number; read: number }>(
    `select t.relname as table, t.idx_scan::int as looked,
       (t.seq_tup_read + (select sum(i.idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid))::int as read
     from pg_stat_user_tables t
     where t.schemaname = 'fulfilment' and t.relname in ('orders', 'order_items', 'shipments', 'shipment_items')
     order by 1`,
  );

// The plan of a foreign key's check is made when the tables are empty, and kept: one that goes through all rows of the
// client makes a first load slower with every page.
test('what is read of the tables in a first load grows with its rows, not with their square', async () => {
  await sandbox.seed(shipments);
  await pull('pull-orders');
  await pull('pull-shipments');
  // Sessions tell what they read when they end.
  await waitFor('the figures', async () => (await entriesRead()).every(({ looked }) => looked > 0));
  const read = await entriesRead();
  expect(read).toHaveLength(4);
  for (const { table, read: entries } of read) expect({ table, entries }).toSatisfy(() => entries < shipments * 30);
});

test('nor where statistics know other clients only', async () => {
  for (let other = 1; other <= 20; other++)
    await database.query(
      `insert into fulfilment.shipments (client, id, status, order_id, external_order_number, raw, read_no)
       select $1, n, 'SHIPPED', n, n::text, '{}', 0 from generate_series(1, 1000) n`,
      [`other-${other}`],
    );
  await database.query('analyze fulfilment.shipments');
  for (let turn = 0; turn < 3; turn++) {
    await sandbox.seed(shipments);
    await pull('pull-shipments');
  }
  const work = async () => {
    const [row] = await database.query<{ work: number }>(
      `select sum(idx_scan + idx_tup_read)::int as work from pg_stat_user_indexes
       where schemaname = 'fulfilment' and relname in ('orders', 'shipments')`,
    );
    return row?.work ?? 0;
  };
  await waitFor('the figures', async () => (await work()) > shipments * 3);
  expect(await work()).toBeLessThan(shipments * 3 * 30);
});
