import { expect, test } from 'vitest';
import { openWarehouses } from '../../../src/app/deps/warehouses.ts';
import { silentLogger } from '../../../src/app/logging/logger.ts';
import { openPusher } from '../../../src/app/worker/pushing.ts';
import { identified } from '../../../src/app/worker/runner.ts';
import { registerClients } from '../../../src/erp/runs/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { configFor } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const posts = async () => (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.create').length;
const insertOrders = (first: number, count: number) =>
  database.query(
    `insert into fulfilment.outbox (kind, reference, payload)
     select 'order.create', 'SO-' || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('SO-' || n))
     from generate_series($2::int, $2::int + $3::int - 1) n`,
    [JSON.stringify(orderPayload('?')), first, count],
  );
const untouched = { status: 'pending', attempts: 0, written_at: null };

test('what was claimed ahead is given back when the worker stops, and counts no attempt', async () => {
  const config = configFor(database, sandbox, { PUSH_CONCURRENCY: '16', HTTP_TIMEOUT_MS: '30000' });
  await registerClients(database.db, config.clients.map(identified));
  const { warehouses, close } = openWarehouses(config);
  const pushing = openPusher({ config, databaseUrl: database.url, warehouses, worker: 'test', log: silentLogger });
  await insertOrders(1, 16);
  pushing.pusher.start();
  // By these it learns that a request takes no time.
  await waitFor('the first ones', async () => (await outbox.rows("status = 'done'")).length === 16);
  await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 3_000 } });
  await insertOrders(17, 40);
  pushing.pusher.wake();
  await waitFor('rows claimed ahead', async () => (await outbox.rows("status = 'sending'")).length > 16);
  await pushing.pusher.stop(20_000);
  await Promise.all([pushing.close(), close()]);
  const left = (await outbox.rows()).filter(({ status }) => status !== 'done');
  expect([await posts(), left.length]).toEqual([32, 24]);
  for (const row of left) expect(row).toMatchObject(untouched);
});

test('a service that asks to wait gets none of what was claimed ahead', async () => {
  await sandbox.faults(
    { operation: 'v3.orders.create', count: 6, effect: { delayMs: 20 } },
    { operation: 'v3.orders.create', effect: { status: 429, retryAfter: '600' } },
  );
  await insertOrders(1, 20);
  await outbox.push({ PUSH_CONCURRENCY: '1' });
  expect(await posts()).toBe(7);
  const rows = await outbox.rows();
  expect(rows.filter(({ status }) => status === 'done')).toHaveLength(6);
  const left = rows.filter(({ status }) => status !== 'done');
  for (const row of left.slice(1)) expect(row).toMatchObject(untouched);
});
