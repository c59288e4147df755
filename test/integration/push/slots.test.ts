import pg from 'pg';
import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const countPosts = async () =>
  (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.create').length;

test('a slot sends further rows before the first is settled, up to three', async () => {
  for (let number = 1; number <= 6; number++)
    await outbox.insert('order.create', `SO-${number}`, orderPayload(`SO-${number}`));
  const other = new pg.Client(database.url);
  await other.connect();
  await other.query(`insert into sync.locks (name) values ('rows default orders')`);
  await other.query('begin');
  // Readers and settlements of orders wait for this lock.
  await other.query(`select from sync.locks where name = 'rows default orders' for update`);
  const pushed = outbox.push({ PUSH_CONCURRENCY: '1' });
  try {
    await waitFor('the slot to be used again', async () => (await countPosts()) >= 3);
    expect(await countPosts()).toBe(3);
    expect(await outbox.rows("status = 'done'")).toEqual([]);
  } finally {
    await other.end();
    await pushed;
  }
  expect((await outbox.rows()).map(({ status, attempts }) => ({ status, attempts }))).toEqual(
    Array.from({ length: 6 }, () => ({ status: 'done', attempts: 1 })),
  );
  expect(await countPosts()).toBe(6);
});
