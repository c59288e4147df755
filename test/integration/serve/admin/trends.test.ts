import { expect, test } from 'vitest';
import { readTrends, type Trends } from '../../../../src/operate/sql/read-trends.ts';
import { ensureJobs } from '../../../../src/schedule/sql/due-jobs.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();

/** Returns the values of each series, without the steps in which nothing ended. */
const readValues = ({ rows, pushes, waits }: Trends) =>
  Object.fromEntries(
    [...rows, ...pushes, ...waits].flatMap(({ name, values }) => {
      const some = values.filter((value) => value);
      return some.length === 0 ? [] : [[name, some]];
    }),
  );

test('charts count what ended in 24 hours, by client and for all together', async () => {
  await ensureJobs(
    database.db,
    ['a', 'b'].map((client) => ({ client, job: 'pull-orders', stream: 'orders', due: null })),
  );
  await database.query(`
    insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at, created)
    select client, 'pull-orders', 'schedule', 'w', n, 'done', at, at, rows
    from (values ('a', 1, now(), 7), ('b', 2, now(), 5), ('a', 3, now() - interval '25 hours', 9)) r (client, n, at, rows);
    insert into fulfilment.outbox (client, kind, reference, status, next_attempt_at, result, created_at, finished_at)
    values ('a', 'order.create', 'SO-1', 'done', null, '{}', now() - interval '1 second', now()),
      ('a', 'order.create', 'SO-2', 'done', null, '{}', now() - interval '3 seconds', now())`);

  const now = new Date();
  const ofA = { orders: [7], done: [2], p50: [2], p99: [expect.closeTo(2.98)] };
  const all = await readTrends(database.db, '', now);

  expect(readValues(await readTrends(database.db, 'a', now))).toEqual(ofA);
  expect(readValues(await readTrends(database.db, 'b', now))).toEqual({ orders: [5] });
  expect(readValues(all)).toEqual({ ...ofA, orders: [12] });
  expect(all.rows.find(({ name }) => name === 'orders')?.values.at(-1)).toBe(12);
});
