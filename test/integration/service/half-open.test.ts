import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { sql } from 'kysely';
import pg from 'pg';
import { afterEach, describe, expect, inject, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase, connectForWriting } from '../../../src/db/connect.ts';
import { Listener } from '../../../src/db/listener.ts';
import { makePoolConfig } from '../../../src/db/pool.ts';
import { openQueueBackend } from '../../../src/schedule/open-queue.ts';
import { TcpProxy } from '../../../tools/chaos/proxy.ts';
import { useDatabase } from '../../helpers/database.ts';
import { useRedis } from '../../helpers/redis.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const redis = useRedis();
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function startProxy(url: string): Promise<TcpProxy> {
  const proxy = await TcpProxy.start(new URL(url));
  closers.unshift(() => proxy.close());
  return proxy;
}

/** Makes the present connections of the proxy swallow everything. New connections work. */
function cutSilently(proxy: TcpProxy): void {
  proxy.set({ kind: 'half-open' });
  proxy.set({ kind: 'fair' });
  proxy.forgetLost();
}

test('the server ends a statement that takes too long', async () => {
  const { db, close } = connectDatabase(database.url, silentLogger, {
    name: 'slow',
    max: 1,
    queryTimeoutMs: 1_000,
  });
  closers.unshift(close);
  await expect(sql`select pg_sleep(600)`.execute(db)).rejects.toMatchObject({ code: '57014' });
  const findAsleep = () =>
    database.query(
      "select from pg_stat_activity where datname = current_database() and query like '%pg_sleep(600)%' and state = 'active' and pid <> pg_backend_pid()",
    );
  await waitFor(
    'the end of the statement at the server',
    async () => (await findAsleep()).length === 0,
  );
  expect((await sql<{ one: number }>`select 1 as one`.execute(db)).rows).toEqual([{ one: 1 }]);
});

describe('half-open connections', () => {
  test('to Postgres: a query ends in time, and the next one has a new connection', async () => {
    const proxy = await startProxy(database.url);
    // One connection, as for heartbeats and claims, so that no other connection can answer.
    const { db, close } = connectDatabase(proxy.url.href, silentLogger, {
      name: 'test',
      max: 1,
      queryTimeoutMs: 500,
    });
    closers.unshift(close);
    const ask = () => sql<{ one: number }>`select 1 as one`.execute(db);
    await ask();
    cutSilently(proxy);
    await expect(ask()).rejects.toMatchObject({
      code: 'database_lost',
      cause: { message: 'Query read timeout' },
    });
    expect((await ask()).rows).toEqual([{ one: 1 }]);
    cutSilently(proxy);
    await expect(db.transaction().execute((trx) => sql`select 1`.execute(trx))).rejects.toThrow();
    expect((await ask()).rows).toEqual([{ one: 1 }]);
  });

  test('a database without SSL is not reported as a lost connection, because waiting cannot help', async () => {
    const url = new URL(database.url);
    url.searchParams.set('sslmode', 'require');
    const { db, close } = connectDatabase(url.href, silentLogger, {
      name: 'test',
      max: 1,
      queryTimeoutMs: 500,
    });
    closers.unshift(close);
    const query = sql`select 1`.execute(db);
    await expect(query).rejects.toMatchObject({
      code: 'tls_failed',
      message: expect.stringMatching(/^TLS: /),
      remedy: expect.stringContaining('sslmode=disable'),
    });
    await expect(query).rejects.not.toHaveProperty('code', 'database_lost');
  });

  test('for notifications: the listener reconnects by itself and reports a possible loss', async () => {
    const proxy = await startProxy(database.url);
    let notifications = 0;
    const listener = new Listener({
      databaseUrl: proxy.url.href,
      channel: 'fulfilment_outbox',
      onNotify: () => notifications++,
      onError: () => undefined,
      pingIntervalMs: 100,
    });
    closers.unshift(() => listener.close());
    await waitFor('the first connection', () => notifications === 1);
    cutSilently(proxy);
    await waitFor('the second connection', () => notifications === 2);
    await database.query('notify fulfilment_outbox');
    await waitFor('a notification', () => notifications === 3);
  });

  test.skipIf(!inject('redisAvailable'))(
    'to Redis: a command ends in time, and later ones are answered',
    async () => {
      const proxy = await startProxy(redis.url);
      const { backend, close } = await openQueueBackend(
        { REDIS_URL: proxy.url.href },
        database.url,
        silentLogger,
      );
      closers.unshift(close);
      const queue = backend.queue();
      queue.on('error', () => undefined);
      closers.unshift(() => queue.close());
      await queue.waitUntilReady();
      await queue.getJobCounts();
      cutSilently(proxy);
      await expect(queue.getJobCounts()).rejects.toThrow();
      await waitFor('an answer', () =>
        queue.getJobCounts().then(
          () => true,
          () => false,
        ),
      );
    },
  );
});

test('a connection for writing is refused if the database accepts no writes', async () => {
  const [row] = await database.query<{ name: string }>('select current_database() as name');
  const { db, close } = connectForWriting(database.url, silentLogger, { name: 'test', max: 1 });
  closers.unshift(close);
  const ask = () => sql`select 1`.execute(db);
  await database.query(`alter database ${row?.name} set default_transaction_read_only = on`);
  await expect(ask()).rejects.toThrow(/takes no writes/);
  await database.query(`alter database ${row?.name} reset default_transaction_read_only`);
  await ask();
});

test('options of the database URL are kept next to ours, and cannot replace them', async () => {
  const url = new URL(database.url);
  url.searchParams.set('options', '-c work_mem=8MB -c lock_timeout=0 -c search_path=public');
  const pool = new pg.Pool(makePoolConfig(url.href, { name: 'options', max: 1 }));
  try {
    const settings = ['work_mem', 'lock_timeout', 'search_path', 'statement_timeout'];
    const { rows } = await pool.query<{ setting: string }>(
      'select name, setting from pg_settings where name = any($1) order by 1',
      [settings],
    );
    expect(rows.map(({ setting }) => setting)).toEqual(['5000', 'pg_catalog', '55000', '8192']);
  } finally {
    await pool.end();
  }
});

test('a load balancer without a primary: the listener reports a lost database', async () => {
  const balancer = createServer((socket) => socket.destroy());
  await once(balancer.listen(0, '127.0.0.1'), 'listening');
  closers.unshift(async () => balancer.close());
  const { port } = balancer.address() as AddressInfo;

  const errors: Error[] = [];
  const listener = new Listener({
    databaseUrl: `postgres://nobody@127.0.0.1:${port}/shop`,
    channel: 'any',
    onNotify: () => undefined,
    onError: (error) => errors.push(error),
  });
  closers.unshift(() => listener.close());

  await waitFor('a loss', async () => errors.length > 0);
  expect(errors[0]).toMatchObject({ code: 'database_lost' });
});
