import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase } from '../../../src/db/connect.ts';
import { makePoolConfig, openDatabase } from '../../../src/db/pool.ts';
import { ServerPool } from '../../../src/db/server-client.ts';
import {
  acceptDatabase,
  askForPlace,
  readPushDatabase,
} from '../../../src/push/sql/push-database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../helpers/processes/embedded-postgres.ts';
import { memoryFolder } from '../../helpers/processes/memory-folder.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { postgresBin, postgresImage, postgresUrl } from '../../helpers/processes/test-servers.ts';
import { usePusher, usePushes } from '../../helpers/pusher.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();

/** The same database at another address. */
let otherUrl = '';
const elsewhere = usePusher(
  {
    get url() {
      return otherUrl;
    },
    get db() {
      return database.db;
    },
    query: (text, values) => database.query(text, values),
  },
  sandbox,
);
const useLocalhost = () => {
  const url = new URL(database.url);
  url.hostname = 'localhost';
  otherUrl = url.href;
};
const readStatus = async (id: number) => (await outbox.row(id)).status;

const countPlaces = () => database.count('sync.push_places where accepted_at is not null');

/** Sends a first order, so that the place of the database is known. */
async function sendFirst(): Promise<void> {
  const { id } = await outbox.sendOrder('SO-1');
  expect(await readStatus(id)).toBe('done');
}

test('a worker at another address of the server sends once a worker at a known one answers', async () => {
  await sendFirst();
  useLocalhost();
  const worker = await outbox.start();
  try {
    const id = await outbox.insertOrder('SO-2');
    await elsewhere.push();
    await waitFor('the row', async () => (await readStatus(id)) === 'done');
    expect(await countPlaces()).toBe(2);
  } finally {
    await worker.stop(0);
  }

  const later = await outbox.insertOrder('SO-3');
  await elsewhere.push();
  expect(await readStatus(later)).toBe('done');
});

test('a new host name is held if no worker at a known address lives, until it is accepted', async () => {
  await sendFirst();
  useLocalhost();
  const id = await outbox.insertOrder('SO-2');
  await elsewhere.push();
  expect(await readStatus(id)).toBe('pending');

  await database.query("update sync.push_places set asked_since = now() - interval '1 minute'");
  expect(await readPushDatabase(database.db)).toMatchObject({
    change: 'none',
    isPlaceAccepted: true,
    askedSince: expect.any(Date),
  });
  const [open] = await database.query('select because from fulfilment.outbox_open');
  const where = /another address.* status names the answers of database accept/;
  expect(open).toEqual({ because: expect.stringMatching(where) });

  const env = workerEnv(otherUrl, sandbox);
  const { output } = await runCommand(['database', 'accept', '--as', 'moved'], env);
  expect(output).toMatch(/its identity is the same, but host, port or name .* are new/);
  await elsewhere.push();
  expect(await readStatus(id)).toBe('done');
});

test('a worker that sends no rows asks for its place only if another one is accepted', async () => {
  await askForPlace(database.db, 'reader');
  expect(await countPlaces()).toBe(0);

  await sendFirst();
  const worker = await outbox.start();
  useLocalhost();
  const { db, close } = connectDatabase(otherUrl, silentLogger);
  try {
    await askForPlace(db, 'reader');
    await waitFor('the answer', async () => (await countPlaces()) === 2);
  } finally {
    await Promise.all([close(), worker.stop(0)]);
  }
});

test('any place is accepted while the outbox is empty', async () => {
  await outbox.push();
  useLocalhost();
  await elsewhere.push();
  const id = await elsewhere.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await elsewhere.push();
  expect(await readStatus(id)).toBe('done');
});

describe('a fenced failover', () => {
  const fenced = { DATABASE_FAILOVER: 'fenced' };

  /** Makes it look as if a standby was promoted while a worker was lost. */
  async function failOver(): Promise<void> {
    await sendFirst();
    await database.query("insert into sync.push_workers (worker) values ('lost')");
    await database.query(
      "update sync.push_database set mark = regexp_replace(mark, '[^/]*$', '00000000')",
    );
  }
  const passTime = async () => {
    await waitFor('the change', () =>
      database.count('sync.push_database where changed_at is not null'),
    );
    await database.query(
      "update sync.push_database set changed_at = changed_at - interval '31 seconds'",
    );
  };

  test('is accepted by a worker at a known address', async () => {
    await failOver();
    const worker = await outbox.start(fenced);
    try {
      await passTime();
      const id = await outbox.insertOrder('SO-2');
      await waitFor('the failover to be accepted', () =>
        database.count("sync.push_database where accepted_as = 'restored'"),
      );
      worker.pusher.onNotification('');
      await waitFor('the row', async () => (await readStatus(id)) === 'done');
    } finally {
      await worker.stop(0);
    }
  });

  test('is not accepted at another address: it may be a promoted copy', async () => {
    await failOver();
    useLocalhost();
    const worker = await elsewhere.start(fenced);
    try {
      await passTime();
      const [now] = await database.query<{ at: Date }>('select now() as at');
      // At least one whole check after the span.
      await waitFor('two more questions', async () => {
        const asked = await database.query(
          "select from sync.push_places where asked_at > $1::timestamptz + interval '3.5 seconds'",
          [now?.at],
        );
        return asked.length > 0;
      });
      expect(await readPushDatabase(database.db)).toMatchObject({ change: 'timeline' });
    } finally {
      await worker.stop(0);
    }
  });
});

describe.skipIf(postgresUrl !== null || postgresImage !== null)('a copied data folder', () => {
  let postgres: EmbeddedPostgres;
  beforeAll(async () => {
    postgres = await startEmbeddedPostgres({}, memoryFolder(), postgresBin);
    await migrateDatabase(postgres.url, silentLogger);
  }, 60_000);
  afterAll(() => postgres.stop());

  const closers: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });
  const openPusher = (url: string) => {
    const pool = new ServerPool(makePoolConfig(url, { name: 'test', max: 2 }));
    pool.on('error', () => undefined);
    closers.push(() => pool.end());
    const db = openDatabase(pool);
    const pusher = usePusher(
      { url, db, query: async (text, values) => (await pool.query(text, values)).rows },
      sandbox,
    );
    closers.unshift(pusher.close);
    return { db, ...pusher };
  };

  test('sends nothing that the original sends, while that one goes on', async () => {
    const original = openPusher(postgres.url);
    await original.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await original.push();
    const id = await original.insert('order.create', 'SO-2', orderPayload('SO-2'));
    await original.close();
    await postgres.backUp();
    const copy = openPusher(await postgres.runCopy());

    await copy.push();
    await original.push();
    await copy.push();

    expect((await original.row(id)).status).toBe('done');
    expect((await copy.row(id)).status).toBe('pending');
    expect(await sandbox.count('v3.orders.create')).toBe(2);
    expect(await readPushDatabase(copy.db)).toMatchObject({
      change: 'none',
      isPlaceAccepted: false,
    });

    await acceptDatabase(copy.db, 'restored', 'operator');
    await copy.pushRounds(4);
    expect((await copy.row(id)).status).toBe('done');
    expect(await sandbox.count('v3.orders.create')).toBe(2);
  });
});
