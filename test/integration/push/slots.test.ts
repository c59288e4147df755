import { expect, test } from 'vitest';
import { insertOrders } from '../../helpers/order-payload.ts';
import { usePushes } from '../../helpers/pusher.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();
const countPosts = () => sandbox.count('v3.orders.create');

/** Has each settlement fail, and be tried again, until `allow` is called. */
async function refuseSettlements() {
  // A sequence also counts what is rolled back.
  await database.query(`
    create sequence public.refusals;
    create function public.refuse() returns trigger language plpgsql as $$ begin
      perform nextval('public.refusals');
      raise disk_full; end $$;
    create trigger refuse before update on fulfilment.outbox for each row
      when (new.status in ('done', 'dead')) execute function public.refuse()`);
  const count = async () =>
    (
      await database.query<{ count: number }>(
        'select last_value::int as count from public.refusals',
      )
    )[0]?.count ?? 0;

  return {
    waitForTwoMore: async () => {
      const before = await count();
      await waitFor('two more settlements to fail', async () => (await count()) >= before + 2);
    },
    allow: () => database.query('drop trigger refuse on fulfilment.outbox'),
  };
}

test('a slot sends further rows before the first is settled, up to 256', async () => {
  await insertOrders(database, 1, 300);
  const settlements = await refuseSettlements();
  const pushed = outbox.push({ PUSH_CONCURRENCY: '1' });
  try {
    await waitFor('the slot to be used again', async () => (await countPosts()) >= 256);
    await settlements.waitForTwoMore();
    expect(await countPosts()).toBe(256);
    expect(await outbox.rows("status = 'done'")).toEqual([]);
  } finally {
    await settlements.allow();
    await pushed;
  }

  expect(await outbox.rows("status = 'done' and attempts = 1")).toHaveLength(300);
  expect(await countPosts()).toBe(300);
});

test('a slot waits for the settlement of a row that only a person could decide', async () => {
  const countLabels = () => sandbox.count('v2.returnLabel.get');
  for (const reference of ['A', 'B'])
    await outbox.insert('return_label.create', reference, { shipmentId: 1 });
  const settlements = await refuseSettlements();
  const pushed = outbox.push({ PUSH_CONCURRENCY: '1' });
  try {
    await waitFor('the first request', async () => (await countLabels()) === 1);
    await settlements.waitForTwoMore();
    expect(await countLabels()).toBe(1);
  } finally {
    await settlements.allow();
    await pushed;
  }

  expect(await countLabels()).toBe(2);
});

test('while a row over 4 MB is sent, no other such row is claimed', async () => {
  await sandbox.faults({ operation: 'oldest.product.search', effect: { delayMs: 60_000 } });
  for (const sku of ['A', 'B'])
    await outbox.insert('product.save', sku, { name: 'a', description: 'x'.repeat(4_500_000) });
  const worker = await outbox.start({ HTTP_TIMEOUT_MS: '120000' });
  const readProducts = (status: string) =>
    outbox.rows("kind = 'product.save' and status = $1", [status]);
  try {
    await waitFor('a product to be sent', async () => (await readProducts('sending')).length > 0);
    for (const round of [1, 2]) {
      await insertOrders(database, round, round);
      worker.pusher.wake();
      await waitFor(
        'an order',
        async () => (await outbox.rows("status = 'done'")).length === round,
      );
    }
    expect(await readProducts('sending')).toHaveLength(1);
    expect(await readProducts('pending')).toHaveLength(1);
  } finally {
    await worker.stop(0);
  }
});
