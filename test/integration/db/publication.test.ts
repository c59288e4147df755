import { afterEach, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], { ...quiet, ordersPerDay: 8 });
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);

afterEach(() => database.query('drop publication if exists everything'));

test('every table with columns, the queue too, has a key by which replicas find its rows', async () => {
  const tables = await database.query<{ table: string; isFindable: boolean }>(`
    select c.oid::regclass::text as table,
      case c.relreplident
        when 'd' then exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indimmediate)
        when 'i' then exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident)
        else c.relreplident = 'f' end as "isFindable"
    from pg_class c
    where c.relkind in ('r', 'p') and c.relnamespace::regnamespace::text in ('fulfilment', 'sync', 'bullmq')
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)`);
  expect(tables.length).toBeGreaterThan(50);
  expect(tables.filter(({ isFindable }) => !isFindable)).toEqual([]);
});

test('all jobs run, and rows are pushed, while a publication has all tables', async () => {
  await database.query('create publication everything for all tables');
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  await sandbox.advance(3 * 86_400);
  for (const job of dailyJobs) done(await pull(job));
  await outbox.insert('order.cancel', 'SO-1');
  await outbox.push();
  expect(await outbox.rows("status <> 'done'")).toEqual([]);
  expect(await database.count('fulfilment.shipments')).toBeGreaterThan(0);
});
