import { sql } from 'kysely';
import { afterEach, describe, expect, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import {
  connectDatabase,
  type DatabaseAddress,
  type OpenDatabase,
} from '../../../src/db/connect.ts';
import { Listener } from '../../../src/db/listener.ts';
import { checkDatabase } from '../../../src/operate/doctor/checks.ts';
import { openQueuePool } from '../../../src/schedule/open-queue.ts';
import { useDatabase } from '../../helpers/database.ts';
import { hostileSettings, setHostile } from '../../helpers/hostile-settings.ts';
import { hasPgbouncer, startPgbouncer } from '../../helpers/processes/pgbouncer.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const wanted = Object.fromEntries(
  Object.entries({ ...hostileSettings, transaction_isolation: ['', 'read committed'] }).map(
    ([name, [, ours]]) => [name, ours],
  ),
);
const readSettings = `
  select json_object_agg(name, current_setting(name, true)) as settings
  from unnest('{${Object.keys(wanted)}}'::text[]) n (name) where current_setting(name, true) is not null`;

/** Changes a setting of the database, for sessions to come. */
const alter = (change: string) =>
  database.query(
    `do $$ begin execute format('alter database %I ${change}', current_database()); end $$`,
  );

/** Reads the settings of a session, of those that this version of Postgres knows. */
async function read(address: DatabaseAddress, { prepares = false } = {}) {
  const { db, close } = connectDatabase(address, silentLogger, { name: 'test', max: 1, prepares });
  closers.push(close);
  const ask = async (on: typeof db) =>
    (await sql.raw<{ settings: unknown }>(readSettings).execute(on)).rows[0]?.settings;
  return [await ask(db), await db.transaction().execute(ask)];
}

test('every session, the queue too, has the same settings whatever the database or its role say', async () => {
  await setHostile(database);
  const queue = openQueuePool(database.url, silentLogger);
  closers.push(() => queue.end());
  const { rows } = await queue.query<{ settings: unknown }>(readSettings);
  const sessions = [
    ...(await read(database.url)),
    ...(await read(database.url, { prepares: true })),
    ...(await read({ pooled: database.url, direct: database.url })),
    rows[0]?.settings,
  ];
  for (const settings of sessions) expect(wanted).toMatchObject(settings as object);
});

test.skipIf(!hasPgbouncer)(
  'so has every transaction behind a pooler that shares sessions',
  async () => {
    await setHostile(database);
    const pooler = await startPgbouncer(database.url, 'transaction');
    closers.push(pooler.stop);
    for (const settings of await read({ pooled: pooler.url, direct: database.url }))
      expect(wanted).toMatchObject(settings as object);
  },
);

test.skipIf(!hasPgbouncer)(
  'a statement is not prepared in a session that a pooler gives to others',
  async () => {
    const pooler = await startPgbouncer(database.url, 'transaction');
    closers.push(pooler.stop);
    const [one, other] = ['one', 'other'].map((name) =>
      connectDatabase({ pooled: pooler.url, direct: database.url }, silentLogger, {
        name,
        max: 1,
        prepares: true,
      }),
    ) as [OpenDatabase, OpenDatabase];
    closers.push(one.close, other.close);
    const ask = (db: OpenDatabase['db']) =>
      sql<{ pid: number }>`select pg_backend_pid() as pid where ${1}::int = 1`.execute(db);
    const first = await ask(one.db);

    // Now the other connection has the session that the first statement was sent to.
    await other.db.transaction().execute(async (trx) => {
      expect((await ask(trx)).rows).toEqual(first.rows);
      expect((await ask(one.db)).rows).not.toEqual(first.rows);
    });
  },
);

test.each([
  ['local', 'on'],
  ['remote_apply', 'remote_apply'],
])('commits of a database with synchronous_commit = %s are those of %s', async (set, ours) => {
  await alter(`set synchronous_commit = ${set}`);
  for (const address of [database.url, { pooled: database.url, direct: database.url }])
    for (const settings of await read(address))
      expect(settings).toMatchObject({ synchronous_commit: ours });
});

test('a listener outlives the idle timeout of the database', async () => {
  await setHostile(database);
  const lost: Error[] = [];
  const listener = new Listener({
    databaseUrl: database.url,
    channel: 'test',
    onNotify: () => undefined,
    onError: (error) => lost.push(error),
  });
  closers.push(() => listener.close());
  await waitFor('a listener that idles for longer', async () => {
    const [old] = await database.query(`
      select from pg_stat_activity
      where datname = current_database() and application_name = 'fulfilment-sync listen'
        and state = 'idle' and clock_timestamp() - state_change > interval '4 seconds'`);
    return lost.length > 0 || old !== undefined;
  });
  expect(lost).toEqual([]);
});

describe('what a session cannot change', () => {
  test('is named by doctor', async () => {
    await alter('set zero_damaged_pages = on');
    const { db, close } = connectDatabase(database.url, silentLogger, { name: 'test', max: 1 });
    closers.push(close);
    expect(await checkDatabase(db)).toContainEqual(
      expect.objectContaining({
        check: 'durability',
        state: 'warn',
        found: expect.stringContaining('zero_damaged_pages = on'),
      }),
    );
  });

  test('is named if its disk is full, also by what Postgres 14 says to a new session', async () => {
    const errors = [
      ['53100', 'could not extend file'],
      ['XX000', 'could not write init file'],
    ] as const;
    for (const [code, message] of errors) {
      const { db, close } = connectDatabase(database.url, silentLogger, { name: 'test', max: 1 });
      closers.push(close);
      const full = db.withPlugin({
        transformQuery: ({ node }) => {
          if (JSON.stringify(node).includes('generate_series'))
            throw Object.assign(new Error(message), { code });
          return node;
        },
        transformResult: async ({ result }) => result,
      });
      expect(await checkDatabase(full)).toContainEqual(
        expect.objectContaining({
          check: 'disk',
          state: 'fail',
          remedy: expect.stringContaining('free space'),
        }),
      );
    }
  });

  test('is refused if triggers and foreign keys would not work, with what to do', async () => {
    await database.query(`do $$ begin
      if not exists (select from pg_roles where rolname = 'no_superuser') then
        create role no_superuser login password 'test';
      end if; end $$`);
    await alter('set session_replication_role = replica');
    const url = new URL(database.url);
    Object.assign(url, { username: 'no_superuser', password: 'test' });
    for (const address of [url.href, { pooled: url.href, direct: url.href }]) {
      const { db, close } = connectDatabase(address, silentLogger, { name: 'test', max: 1 });
      closers.push(close);
      await expect(sql`select 1`.execute(db)).rejects.toMatchObject({
        code: 'database_setting',
        remedy: expect.stringContaining('reset session_replication_role'),
      });
      expect(await checkDatabase(db)).toEqual([
        expect.objectContaining({ check: 'database', state: 'fail' }),
      ]);
    }
  });
});
