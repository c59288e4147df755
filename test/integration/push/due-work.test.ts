import { beforeEach, expect, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectForWriting } from '../../../src/db/connect.ts';
import { readDueWork } from '../../../src/push/sql/due-work.ts';
import { noteDatabase, notePlace } from '../../../src/push/sql/push-database.ts';
import { pauseJob } from '../../../src/schedule/sql/pauses.ts';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { watchPlans } from '../../helpers/schema/plans.ts';
import { insertHealth } from '../../helpers/service-health.ts';

const database = useDatabase();
const accounts = ['a', 'c', 'e'].map((client) => ({
  client,
  identity: 'x',
  baseUrl: 'https://x/',
}));

beforeEach(async () => {
  await registerClients(database.db, accounts);
  await notePlace(database.db, 'test', await noteDatabase(database.db, 'test', []));
});

/** Inserts rows: client, kind, and seconds until they are due. */
const insert = (...rows: readonly (readonly [string, string, number])[]) =>
  database.query(
    `insert into fulfilment.outbox (client, kind, reference, next_attempt_at)
     select r ->> 0, r ->> 1, 'R', now() + make_interval(secs => (r ->> 2)::float8)
     from jsonb_array_elements($1) as r`,
    [JSON.stringify(rows)],
  );

/** Looks for work; returns the milliseconds until rows are due, by client. */
const look = async (clients = accounts, db = database.db) => {
  const names = ['order.cancel', 'order.create', 'return.create'];
  const identities = new Map(clients.map(({ client, identity }) => [client, identity]));
  const work = await readDueWork(db, identities, {
    ...{ worker: 'w', names, lookedUp: ['order.create'] },
  });
  return Object.fromEntries(
    work.map(({ client, pendingInMs, unknownInMs }) => [
      client,
      [pendingInMs, unknownInMs].map((ms) => (ms === null ? null : Math.ceil(ms / 10_000) * 10)),
    ]),
  );
};

test('a look finds the first due row of any kind, a minute ahead and no further', async () => {
  await insert(['a', 'order.cancel', 3_600], ['a', 'return.create', 20], ['a', 'order.create', 40]);
  await insert(['c', 'order.create', 61]);
  expect(await look()).toEqual({ a: [20, null] });
});

test('clients and kinds that an ERP has invented hide no row behind them', async () => {
  await insert(['', 'order.create', 0], ['b', 'order.create', 0], ['b', 'x', 0], ['d', 'x', 0]);
  await insert(['c', 'a', 0], ['c', 'order.d', 0], ['c', 'return.create', 0], ['c', 'z', 0]);
  await insert(['e', 'order.d', 0], ['f', 'order.create', 0]);
  expect(await look()).toEqual({ c: [0, null] });
});

test('a held kind is not due, but its client is read with its health', async () => {
  await insert(['a', 'order.cancel', 0], ['a', 'return.create', 20], ['c', 'order.cancel', 0]);
  await insertHealth(database, {
    ...{ client: 'a', scope: 'order.cancel', code: 'wrong_path', untilInMs: 60_000 },
  });
  await insertHealth(database, { client: 'e', code: 'too_fast', untilInMs: 60_000 });
  expect(await look()).toEqual({ a: [20, null], c: [0, null], e: [null, null] });
});

test('a look finds look-ups that are due, of kinds that are looked up', async () => {
  await insert(['a', 'order.create', 20], ['a', 'order.cancel', 0], ['c', 'order.create', 3_600]);
  await insert(['e', 'return.create', 0]);
  await database.query("update fulfilment.outbox set status = 'unknown', written_at = now()");
  expect(await look()).toEqual({ a: [null, 20] });
});

test('a look leaves out clients of other accounts, and those that are paused', async () => {
  await insert(['a', 'order.create', 0], ['c', 'order.create', 0], ['e', 'order.create', 0]);
  await pauseJob(database.db, 'push-outbox', 'c', 'test');
  const others = accounts.map((account) =>
    account.client === 'e' ? { ...account, identity: 'y' } : account,
  );
  expect(await look(others)).toEqual({ a: [0, null] });
});

/** Registers 5,000 clients, each with a row to send and one to look up in an hour. */
async function insertLaterRows(): Promise<void> {
  await database.query(`
    insert into sync.clients (client, identity, base_url)
    select 'k' || n, 'x', 'https://x/' from generate_series(1, 5000) n;
    insert into fulfilment.outbox (client, kind, reference, next_attempt_at)
    select 'k' || n, 'order.create', 'R' || k, now() + interval '1 hour'
    from generate_series(1, 5000) n, generate_series(1, 2) k;
    update fulfilment.outbox set status = 'unknown', written_at = now() where reference = 'R2'`);
}

test('a look reads no rows that are due later, however many clients have some', async () => {
  await insertLaterRows();
  await insert(['c', 'order.cancel', 0], ['a', 'return.create', 20]);
  await database.query('vacuum analyze fulfilment.outbox');

  const { executed, end } = await watchPlans(database);
  const { db, close } = connectForWriting(database.url, silentLogger, {
    name: 'look',
    max: 1,
    prepares: true,
  });
  try {
    expect(await look(accounts, db)).toEqual({ a: [20, null], c: [0, null] });
  } finally {
    end();
    await close();
  }
  const looks = executed.filter(({ statement }) => statement.includes('recursive'));
  expect(looks).toMatchObject([{ touched: expect.toSatisfy((rows: number) => rows < 200) }]);
});

test('a backlog of one client hides no other one', async () => {
  await insert(['c', 'order.cancel', -1], ['e', 'return.create', -1], ['a', 'order.create', -1]);
  await database.query(`
    insert into fulfilment.outbox (client, kind, reference, next_attempt_at)
    select 'c', 'order.create', 'R', now() - interval '1 hour' from generate_series(1, 400);
    insert into fulfilment.outbox (client, kind, reference, status, written_at)
    select 'a', 'order.create', 'U', 'unknown', now()`);
  expect(await look()).toEqual({ a: [0, 0], c: [0, null], e: [0, null] });
});
