import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const countPosts = () => sandbox.count('v3.orders.create');

test('a slot sends further rows before the first is settled, up to 256', async () => {
  await insertOrders(database, 1, 300);
  // Every settlement fails, and is tried again, until the trigger is gone. A sequence also counts
  // what is rolled back.
  await database.query(`
    create sequence public.refusals;
    create function public.refuse() returns trigger language plpgsql as $$ begin
      perform nextval('public.refusals');
      raise disk_full; end $$;
    create trigger refuse before update on fulfilment.outbox for each row when (new.status = 'done')
      execute function public.refuse()`);
  const countRefusals = async () =>
    (
      await database.query<{ count: number }>(
        'select last_value::int as count from public.refusals',
      )
    )[0]?.count ?? 0;
  const pushed = outbox.push({ PUSH_CONCURRENCY: '1' });
  try {
    await waitFor('the slot to be used again', async () => (await countPosts()) >= 256);
    const before = await countRefusals();
    await waitFor(
      'two more settlements to fail',
      async () => (await countRefusals()) >= before + 2,
    );
    expect(await countPosts()).toBe(256);
    expect(await outbox.rows("status = 'done'")).toEqual([]);
  } finally {
    await database.query('drop trigger refuse on fulfilment.outbox');
    await pushed;
  }
  expect(await outbox.rows("status = 'done' and attempts = 1")).toHaveLength(300);
  expect(await countPosts()).toBe(300);
});
