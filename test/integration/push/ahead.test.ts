import { expect, test } from 'vitest';
import { insertOrders } from '../../helpers/order-payload.ts';
import { usePushes } from '../../helpers/pusher.ts';
import { insertHealth } from '../../helpers/service-health.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();
const untouched = { status: 'pending', attempts: 0, written_at: null };

/** Starts a worker that has claimed rows ahead: SO-17 to SO-56, of which it sends 16 slowly. */
async function claimAhead(delayMs: number, env: Record<string, string>) {
  await insertOrders(database, 1, 16);
  const worker = await outbox.start({ PUSH_CONCURRENCY: '16', ...env });
  // From these rows the worker learns that a request takes almost no time.
  await waitFor(
    'the first rows to be done',
    async () => (await outbox.rows("status = 'done'")).length === 16,
  );
  await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs } });
  await insertOrders(database, 17, 56);
  worker.pusher.wake();
  await waitFor(
    'rows to be claimed ahead',
    async () => (await outbox.rows("status = 'sending'")).length > 16,
  );
  return worker;
}

test('a worker that stops gives back the rows that it claimed ahead, without an attempt', async () => {
  const worker = await claimAhead(3_000, { HTTP_TIMEOUT_MS: '30000' });
  await worker.stop(20_000);
  const remaining = (await outbox.rows()).filter(({ status }) => status !== 'done');
  expect([await sandbox.count('v3.orders.create'), remaining.length]).toEqual([32, 24]);
  for (const row of remaining) expect(row).toMatchObject(untouched);
});

test('after a Retry-After, no row that was claimed ahead is sent', async () => {
  await sandbox.faults(
    { operation: 'v3.orders.create', count: 6, effect: { delayMs: 20 } },
    { operation: 'v3.orders.create', effect: { status: 429, retryAfter: '600' } },
  );
  await insertOrders(database, 1, 20);
  await outbox.push({ PUSH_CONCURRENCY: '1' });
  expect(await sandbox.count('v3.orders.create')).toBe(7);
  const rows = await outbox.rows();
  expect(rows.filter(({ status }) => status === 'done')).toHaveLength(6);
  const remaining = rows.filter(({ status }) => status !== 'done');
  for (const row of remaining.slice(1)) expect(row).toMatchObject(untouched);
});

test('rows that were claimed ahead are given back if another worker puts their kind on hold', async () => {
  const worker = await claimAhead(20_000, { HTTP_TIMEOUT_MS: '60000' });
  await insertHealth(database, {
    ...{ scope: 'order.create', code: 'kind_failing', sendWindow: null, untilInMs: 3_600_000 },
  });
  worker.pusher.wake();
  // The hold began after the first requests. Their success may end it later.
  await waitFor(
    'the rows to be given back',
    async () => (await outbox.rows("status = 'pending'")).length === 24,
  );
  for (const row of await outbox.rows("status = 'pending'")) expect(row).toMatchObject(untouched);
  await worker.stop(0);
});
