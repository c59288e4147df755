import { expect, test } from 'vitest';
import { openWarehouses } from '../../../src/app/deps/warehouses.ts';
import { silentLogger } from '../../../src/app/logging/logger.ts';
import { openPusher } from '../../../src/app/worker/open-pusher.ts';
import { toClientIdentity } from '../../../src/app/worker/runner.ts';
import { registerClients } from '../../../src/erp/runs/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { makeConfig } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const countPosts = async () =>
  (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.create').length;
const insertOrders = (first: number, count: number) =>
  database.query(
    `insert into fulfilment.outbox (kind, reference, payload)
     select 'order.create', 'SO-' || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('SO-' || n))
     from generate_series($2::int, $2::int + $3::int - 1) n`,
    [JSON.stringify(orderPayload('?')), first, count],
  );
const untouched = { status: 'pending', attempts: 0, written_at: null };

test('a worker that stops gives back the rows that it claimed ahead, without an attempt', async () => {
  const config = makeConfig(database, sandbox, { PUSH_CONCURRENCY: '16', HTTP_TIMEOUT_MS: '30000' });
  await registerClients(database.db, config.clients.map(toClientIdentity));
  const { warehouses, close } = openWarehouses(config);
  const pushing = openPusher({ config, databaseUrl: database.url, warehouses, worker: 'test', log: silentLogger });
  await insertOrders(1, 16);
  pushing.pusher.start();
  // From these rows the worker learns that a request takes almost no time.
  await waitFor('the first rows to be done', async () => (await outbox.rows("status = 'done'")).length === 16);
  await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 3_000 } });
  await insertOrders(17, 40);
  pushing.pusher.wake();
  await waitFor('rows to be claimed ahead', async () => (await outbox.rows("status = 'sending'")).length > 16);
  await pushing.pusher.stop(20_000);
  await Promise.all([pushing.close(), close()]);
  const remaining = (await outbox.rows()).filter(({ status }) => status !== 'done');
  expect([await countPosts(), remaining.length]).toEqual([32, 24]);
  for (const row of remaining) expect(row).toMatchObject(untouched);
});

test('after a Retry-After, no row that was claimed ahead is sent', async () => {
  await sandbox.faults(
    { operation: 'v3.orders.create', count: 6, effect: { delayMs: 20 } },
    { operation: 'v3.orders.create', effect: { status: 429, retryAfter: '600' } },
  );
  await insertOrders(1, 20);
  await outbox.push({ PUSH_CONCURRENCY: '1' });
  expect(await countPosts()).toBe(7);
  const rows = await outbox.rows();
  expect(rows.filter(({ status }) => status === 'done')).toHaveLength(6);
  const remaining = rows.filter(({ status }) => status !== 'done');
  for (const row of remaining.slice(1)) expect(row).toMatchObject(untouched);
});

test('rows that were claimed ahead are given back if another worker puts their kind on hold', async () => {
  const config = makeConfig(database, sandbox, { PUSH_CONCURRENCY: '16', HTTP_TIMEOUT_MS: '60000' });
  await registerClients(database.db, config.clients.map(toClientIdentity));
  const { warehouses, close } = openWarehouses(config);
  const pushing = openPusher({ config, databaseUrl: database.url, warehouses, worker: 'test', log: silentLogger });
  await insertOrders(1, 16);
  pushing.pusher.start();
  await waitFor('the first rows to be done', async () => (await outbox.rows("status = 'done'")).length === 16);
  await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 20_000 } });
  await insertOrders(17, 40);
  pushing.pusher.wake();
  await waitFor('rows to be claimed ahead', async () => (await outbox.rows("status = 'sending'")).length > 16);
  await database.query(`
    insert into sync.push_holds (client, kind, code, reason, until)
    values ('default', 'order.create', 'kind_failing', 'x', now() + interval '1 hour')`);
  pushing.pusher.wake();
  // The hold began after the first requests. Their success may end it later.
  await waitFor('the rows to be given back', async () => (await outbox.rows("status = 'pending'")).length === 24);
  for (const row of await outbox.rows("status = 'pending'")) expect(row).toMatchObject(untouched);
  await pushing.pusher.stop(0);
  await Promise.all([pushing.close(), close()]);
});
