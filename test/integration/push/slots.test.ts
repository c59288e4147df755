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

test('a slot sends further rows before the first is settled, up to 256', async () => {
  await database.query(
    `insert into fulfilment.outbox (kind, reference, payload)
     select 'order.create', 'SO-' || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('SO-' || n))
     from generate_series(1, 300) n`,
    [JSON.stringify(orderPayload('?'))],
  );
  const other = new pg.Client(database.url);
  await other.connect();
  await other.query(`insert into sync.locks (name) values ('rows default orders')`);
  await other.query('begin');
  // Readers and settlements of orders wait for this lock.
  await other.query(`select from sync.locks where name = 'rows default orders' for update`);
  const pushed = outbox.push({ PUSH_CONCURRENCY: '1' });
  try {
    await waitFor('the slot to be used again', async () => (await countPosts()) >= 256);
    expect(await countPosts()).toBe(256);
    expect(await outbox.rows("status = 'done'")).toEqual([]);
  } finally {
    await other.end();
    await pushed;
  }
  expect(await outbox.rows("status = 'done' and attempts = 1")).toHaveLength(300);
  expect(await countPosts()).toBe(300);
});
