import { sql } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase, openListener } from '../../../src/db/connect.ts';
import { TcpProxy } from '../../../tools/chaos/proxy.ts';
import { usePusher, usePushes } from '../../helpers/pusher.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

let proxyUrl = '';
const behindProxy = usePusher(
  {
    get url() {
      return proxyUrl;
    },
    get db() {
      return database.db;
    },
    query: (text, values) => database.query(text, values),
  },
  sandbox,
);

async function startProxy(): Promise<TcpProxy> {
  const proxy = await TcpProxy.start(new URL(database.url));
  proxyUrl = proxy.url.href;
  closers.push(() => proxy.close());
  return proxy;
}

/** Makes the present connections of the proxy swallow everything. New connections work. */
function cutSilently(proxy: TcpProxy): void {
  proxy.set({ kind: 'half-open' });
  proxy.set({ kind: 'fair' });
  proxy.forgetLost();
}

const connect = () => {
  const { db, close } = connectDatabase(proxyUrl, silentLogger, {
    name: 'test',
    max: 3,
    findsSilence: true,
  });
  closers.unshift(close);
  return db;
};

test('pushes go on soon after all connections went silent', async () => {
  const proxy = await startProxy();
  const { pusher, stop } = await behindProxy.start();
  closers.unshift(() => stop(0));
  const onNotification = (client: string) => pusher.onNotification(client);
  const listener = openListener(proxyUrl, 'fulfilment_outbox', onNotification, silentLogger);
  closers.unshift(() => listener.close());

  const send = async (reference: string) => {
    const id = await outbox.insertOrder(reference);
    await waitFor('the row', async () => (await outbox.row(id)).status === 'done');
  };
  const countConnections = () =>
    database.count(`pg_stat_activity
      where datname = current_database() and application_name = 'fulfilment-sync push'`);
  for (let round = 0; (await countConnections()) < 3; round++)
    await Promise.all([1, 2, 3, 4, 5, 6].map((place) => send(`SO-${round}-${place}`)));
  cutSilently(proxy);

  const startedMs = performance.now();
  await send('SO-LATER');
  // 11 s on an idle machine. Without the search for silence it takes a minute.
  expect(performance.now() - startedMs).toBeLessThan(30_000);
});

test('a statement on which the server works is not ended, however long it takes', async () => {
  await startProxy();
  const db = connect();
  const { rows } = await sql`select 1 as one, pg_sleep(9) is null as slept`.execute(db);
  expect(rows).toEqual([{ one: 1, slept: false }]);
});
