import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { appendChanges } from '../../../src/pull/sql/feed.ts';
import { useDatabase } from '../../helpers/database.ts';
import { numberFeed } from '../../helpers/feed.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const sessions: pg.Client[] = [];
afterEach(async () => {
  await Promise.all(sessions.splice(0).map((session) => session.end()));
});

/** Opens a session of a program of the ERP, as the role that may write. */
async function connect(): Promise<pg.Client> {
  const session = new pg.Client({
    connectionString: database.url,
    application_name: 'test consumer',
  });
  sessions.push(session);
  await session.connect();
  await session.query('set role fulfilment_writer');
  return session;
}
const append = async (...ids: number[]) => {
  for (const id of ids)
    await database.db
      .transaction()
      .execute((trx) =>
        appendChanges(trx, 'default', [
          { entity: 'shipments', id, operation: 'updated', changedColumns: ['status'] },
        ]),
      );
  await numberFeed(database.db);
};
const consume = async (session: pg.Client, max = 1_000) =>
  (
    await session.query<{ id: string }>(
      "select * from fulfilment.consume_changes('orders', $1) order by seq",
      [max],
    )
  ).rows.map(({ id }) => Number(id));
const start = async (session: pg.Client, after: number | null, move = false) =>
  (
    await session.query<{ seq: string }>(
      "select fulfilment.start_consumer('orders', $1, $2) as seq",
      [after, move],
    )
  ).rows[0]?.seq;

test('every update of days of work names columns of its table', async () => {
  await database.query("insert into fulfilment.stock_watch (sku) values ('MUG-RED'), ('MUG-BLUE')");
  for (const _day of [1, 2]) {
    await sandbox.advance(86_400);
    await database.query('truncate sync.turns');
    for (const job of dailyJobs) done(await pull(job));
  }
  const updates = await database.query<{ entity: string; unknown: string[] | null }>(`
    select c.entity, array_agg(distinct u.name) filter (where k.column_name is null) as unknown
    from fulfilment.changes c
    left join unnest(c.changed_columns) u (name) on true
    left join information_schema.columns k
      on k.table_schema = 'fulfilment' and k.table_name = c.entity and k.column_name = u.name
    where c.operation = 'updated'
    group by c.entity`);
  expect(updates.map(({ entity }) => entity)).toEqual(
    expect.arrayContaining(['shipments', 'stock_levels', 'track_traces', 'parcels']),
  );
  expect(updates.filter(({ unknown }) => unknown !== null)).toEqual([]);
});

describe('consume_changes', () => {
  test('returns each change once, and moves the checkpoint by what it returned', async () => {
    const session = await connect();
    await start(session, 0);
    await append(1, 2, 3);
    expect(await consume(session, 2)).toEqual([1, 2]);
    expect(await consume(session, 2)).toEqual([3]);
    expect(await consume(session, 2)).toEqual([]);
    expect((await session.query('select name, seq from fulfilment.consumers')).rows).toEqual([
      { name: 'orders', seq: '3' },
    ]);
  });

  test('returns the same changes again after the transaction was rolled back, or its session was lost', async () => {
    const session = await connect();
    await start(session, 0);
    await append(1, 2);
    await session.query('begin');
    expect(await consume(session)).toEqual([1, 2]);
    await session.query('rollback');
    const lost = await connect();
    lost.on('error', () => undefined);
    await lost.query('begin');
    expect(await consume(lost)).toEqual([1, 2]);
    const { rows } = await lost.query<{ pid: number }>('select pg_backend_pid() as pid');
    await database.query('select pg_terminate_backend($1)', [rows[0]?.pid]);
    expect(await consume(session)).toEqual([1, 2]);
  });

  test('lets a second reader wait for the first, and gives it what follows', async () => {
    const [first, second] = [await connect(), await connect()];
    await start(first, 0);
    await append(1, 2, 3);
    await first.query('begin');
    expect(await consume(first, 2)).toEqual([1, 2]);
    const others = consume(second);
    await database.waitForBlocked('the second reader to wait');
    await first.query('commit');
    expect(await others).toEqual([3]);
  });

  test('locks and writes nothing if there is nothing new', async () => {
    const session = await connect();
    await append(1);
    await start(session, null);
    await session.query('begin');
    expect(await consume(session)).toEqual([]);
    const { rows } = await session.query('select pg_current_xact_id_if_assigned() as id');
    expect(rows).toEqual([{ id: null }]);
    await session.query('rollback');
  });

  test('refuses a consumer that was not started, a wrong maximum, and a checkpoint that is not kept any more', async () => {
    const session = await connect();
    await expect(consume(session)).rejects.toThrow('there is no consumer orders; start it with');
    await start(session, 0);
    await append(1, 2, 3);
    await expect(consume(session, 0)).rejects.toThrow('max must lie between');
    await database.query('update sync.feed_mark set pruned_until = 2');
    await expect(consume(session)).rejects.toThrow('read the tables again, then continue from 3');
    await start(session, null, true);
    expect(await consume(session)).toEqual([]);
    await expect(start(session, 1, true)).rejects.toThrow('no longer all kept');
    await expect(start(session, 99, true)).rejects.toThrow('was never used here');
    await session.query("select fulfilment.drop_consumer('orders')");
    await expect(consume(session)).rejects.toThrow('there is no consumer orders');
  });

  test('is not moved by a program that starts again', async () => {
    const session = await connect();
    await append(1, 2);
    expect(await start(session, null)).toBe('2');
    await append(3);
    expect(await start(session, 0)).toBe('2');
    expect(await consume(session)).toEqual([3]);
    expect(await start(session, 1, true)).toBe('1');
    expect(await consume(session)).toEqual([2, 3]);
  });
});
