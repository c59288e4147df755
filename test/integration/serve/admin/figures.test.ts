import { describe, expect, test } from 'vitest';
import type { Database } from '../../../../src/db/pool.ts';
import { readFigures } from '../../../../src/operate/sql/read-figures.ts';
import { rollUpFigures } from '../../../../src/operate/sql/roll-up.ts';
import { ensureJobs } from '../../../../src/schedule/sql/due-jobs.ts';
import { registerClients } from '../../../../src/service/sql/clients.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { watchPlans } from '../../../helpers/schema/plans.ts';

const database = useDatabase();
const clients = ['a', 'b'];

/**
 * Registers two clients with the job pull-orders, and says that the last roll-up was made this long
 * ago.
 */
async function setUp(lastRollUp = '1 day'): Promise<void> {
  await registerClients(
    database.db,
    clients.map((client) => ({ client, identity: 'x', baseUrl: 'http://127.0.0.1:9' })),
  );
  await ensureJobs(
    database.db,
    clients.map((client) => ({ client, job: 'pull-orders', stream: 'orders', due: null })),
  );
  await database.query(
    `
    update sync.figure_marks
    set at = date_bin('5 minutes', now() - $1::interval, 'epoch'), attempt_id = 0`,
    [lastRollUp],
  );
}

/** Records a run of pull-orders that ended this long ago and wrote this many rows. */
const recordRun = (client: string, ago: string, rows: number) =>
  database.query(
    `insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at, created)
     values ($1, 'pull-orders', 'schedule', 'w', (select count(*) from sync.runs), 'done', now() - $2::interval, now() - $2::interval, $3)`,
    [client, ago, rows],
  );

/**
 * Records a row that was inserted and then done this long ago, one second later, with the outcomes
 * of its attempts.
 */
async function recordPush(client: string, ago: string, outcomes: readonly string[]): Promise<void> {
  await database.query(
    `with pushed as (
       insert into fulfilment.outbox (client, kind, reference, status, next_attempt_at, result, created_at, finished_at)
       values ($1, 'order.create', 'SO-1', 'done', null, '{}', now() - $2::interval - interval '1 second', now() - $2::interval)
       returning id)
     insert into sync.outbox_attempts (outbox_id, step, by, became, at)
     select pushed.id, 'sent', 'w', became, now() - $2::interval from pushed, unnest($3::text[]) became`,
    [client, ago, outcomes],
  );
}

/** Makes all figures that are missing. */
async function rollUp(db: Database = database.db): Promise<void> {
  while ((await rollUpFigures(db, 0))?.isBehind);
}

/** Reads the sums of the last day by measure and part. */
async function readSums(client: string): Promise<Record<string, number>> {
  const from = new Date(Date.now() - 2 * 86_400_000);
  const sums: Record<string, number> = {};
  for (const { measure, part, value } of await readFigures(database.db, client, {
    stepMinutes: 60,
    from,
  }))
    sums[`${measure} ${part}`.trim()] = (sums[`${measure} ${part}`.trim()] ?? 0) + value;
  return sums;
}

describe('a roll-up', () => {
  test('counts rows, outcomes and waiting times, by client and for all together', async () => {
    await setUp();
    await recordRun('a', '20 hours', 7);
    await recordRun('b', '20 hours', 5);
    await recordPush('a', '3 hours', ['unknown', 'done']);
    await recordPush('b', '2 minutes', ['done']);
    await rollUp();
    // A second is 1000 ms: 2^(39/4) is 861 ms, 2^(40/4) is 1024 ms.
    const a = { 'rows orders': 7, 'pushes done': 1, 'pushes unknown': 1, 'waits 39': 1 };
    expect(await readSums('a')).toEqual(a);
    expect(await readSums('b')).toEqual({ 'rows orders': 5, 'pushes done': 1, 'waits 39': 1 });
    expect(await readSums('')).toEqual({
      ...a,
      'rows orders': 12,
      'pushes done': 2,
      'waits 39': 2,
    });
  });

  test('counts what committed late, and nothing twice, also by several workers at once', async () => {
    await setUp();
    await rollUp();
    await recordRun('a', '2 minutes', 7);
    await recordPush('a', '150 seconds', ['done']);
    await rollUp();
    const counted = await readSums('a');
    expect(counted).toMatchObject({ 'rows orders': 7, 'pushes done': 1, 'waits 39': 1 });
    await Promise.all([database.open(1), database.open(1), database.open(1)].map(rollUp));
    expect(await readSums('a')).toEqual(counted);
  });

  test('makes up for an outage, and forgets what no chart shows', async () => {
    await setUp('40 days');
    await recordRun('a', '3 days', 1);
    await recordRun('a', '30 hours', 7);
    await rollUp();
    expect(await readSums('a')).toEqual({ 'rows orders': 7 });
    expect(await database.query('select 1 from sync.figures where value = 1')).toEqual([]);
  });

  test('keeps the largest age of the oldest pending row of a span', async () => {
    await setUp();
    await database.query(`
      insert into fulfilment.outbox (client, kind, reference, created_at)
      values ('a', 'order.create', 'SO-1', now() - interval '90 seconds'), ('b', 'order.create', 'SO-1', now())`);
    await rollUp();
    expect((await readSums('a')).oldest_pending).toBeCloseTo(90, -1);
    expect((await readSums('')).oldest_pending).toBeCloseTo(90, -1);
    await database.query(`delete from fulfilment.outbox where client = 'a'`);
    await rollUp();
    expect((await readSums('a')).oldest_pending).toBeGreaterThanOrEqual(90);
  });

  test('reads only the latest rows, by an index', async () => {
    await setUp();
    await database.query(`
      set session_replication_role = replica;
      insert into fulfilment.outbox (client, kind, reference, status, next_attempt_at, result, created_at, finished_at)
        select 'a', 'order.create', 'SO-' || n, 'done', null, '{}', now() - interval '2 days', now() - interval '2 days'
        from generate_series(1, 20000) n;
      insert into sync.outbox_attempts (outbox_id, step, by, became, at)
        select id, 'sent', 'w', 'done', now() - interval '2 days' from fulfilment.outbox;
      insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at, created)
        select 'a', 'pull-orders', 'schedule', 'w', -n, 'done', now() - interval '2 days', now() - interval '2 days', 1
        from generate_series(1, 20000) n;
      set session_replication_role = origin;
      analyze`);
    await rollUp();
    // Marks say which attempts are new. Those of an outage keep the id of the mark before it.
    await database.query(
      'update sync.figure_marks set attempt_id = (select max(id) from sync.outbox_attempts)',
    );
    const { executed, end } = await watchPlans(database);
    try {
      await recordPush('a', '1 minute', ['done']);
      await recordRun('a', '1 minute', 1);
      await rollUp(database.open(1));
    } finally {
      end();
    }
    const counting = executed.filter(({ statement }) => statement.includes('sync.figures'));
    expect(counting.length).toBeGreaterThan(0);
    expect(counting.filter(({ touched }) => touched > 1_000)).toEqual([]);
  });
});
