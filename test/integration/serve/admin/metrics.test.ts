import { type AddressInfo, createServer, type Socket } from 'node:net';
import { sql } from 'kysely';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { connectDatabase } from '../../../../src/db/connect.ts';
import type { Settlement } from '../../../../src/push/sql/settle-rows.ts';
import { newTotals } from '../../../../src/schedule/run.ts';
import { ensureJobs } from '../../../../src/schedule/sql/due-jobs.ts';
import { registerClients } from '../../../../src/service/sql/clients.ts';
import { makeDaemon, useAdmin } from '../../../helpers/admin.ts';
import { setReadOnly, useDatabase } from '../../../helpers/database.ts';
import { insertHealth } from '../../../helpers/service-health.ts';

const database = useDatabase();
const admin = useAdmin(database);
const client = 'default';

/** Reads /metrics, and returns the values by name and labels, as they are written. */
async function scrape(visitor: {
  get: (path: string) => Promise<Response>;
}): Promise<Map<string, number>> {
  const text = await (await visitor.get('/metrics')).text();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [
      line.slice(0, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' '))),
    ]),
  );
}

/** What the metrics read of a settlement. */
const settlement = { client, step: 'looked up', status: 'done', durationMs: 20 } as Settlement;

async function setUp(): Promise<void> {
  await registerClients(database.db, [{ client, identity: 'x', baseUrl: 'http://127.0.0.1:9' }]);
  await ensureJobs(database.db, [
    { client, job: 'pull-orders', stream: 'orders', due: null },
    { client, job: 'pull-shipments', stream: 'shipments', due: null },
  ]);
}

describe('/metrics', () => {
  test('counts what this worker did, with labels that no outsider can make up', async () => {
    const { visitor, work } = await admin();
    for (const status of ['200', '418', 'timeout'])
      work.onExchange(client, { operation: 'v3.orders.list', status, durationMs: 30 });
    const totals = { ...newTotals(), pages: 2, fetched: 150, created: 3, quarantined: 1 };
    work.onRun(client, 'pull-orders', { status: 'done', totals, leaseKey: 1 }, 1_200);
    const skipped = { status: 'skipped', reason: 'overlap', because: '', nextAt: null } as const;
    work.onRun(client, 'pull-orders', skipped, 1);
    work.onSettled(settlement, 'order.create');
    work.onSettled(settlement, 'made.up');
    const values = await scrape(visitor);
    const found = [...values].filter(
      ([name]) =>
        /^fulfilment_(requests_total|runs_total|pages|fetched|rows_total|push_attempts)/.test(
          name,
        ) && values.get(name) !== 0,
    );
    expect(Object.fromEntries(found)).toEqual({
      'fulfilment_requests_total{client="default",status="2xx"}': 1,
      'fulfilment_requests_total{client="default",status="4xx"}': 1,
      'fulfilment_requests_total{client="default",status="timeout"}': 1,
      'fulfilment_runs_total{client="default",job="pull-orders",outcome="done"}': 1,
      'fulfilment_runs_total{client="default",job="pull-orders",outcome="skipped_overlap"}': 1,
      'fulfilment_pages_total{client="default",job="pull-orders"}': 2,
      'fulfilment_fetched_total{client="default",job="pull-orders"}': 150,
      'fulfilment_rows_total{client="default",job="pull-orders",outcome="created"}': 3,
      'fulfilment_rows_total{client="default",job="pull-orders",outcome="quarantined"}': 1,
      'fulfilment_push_attempts_total{client="default",kind="order.create",step="looked_up",outcome="done"}': 1,
      'fulfilment_push_attempts_total{client="default",kind="unknown",step="looked_up",outcome="done"}': 1,
    });
  });

  test('reports jobs, outbox, problems and gates, and adds up the rows of unknown clients', async () => {
    await setUp();
    await database.query(`
      insert into fulfilment.outbox (kind, reference, created_at, status, next_attempt_at, finished_at, last_error)
      values ('order.cancel', 'y', now() - interval '3 days', 'dead', null, now(), 'x');
      update sync.jobs set last_success_at = now(), last_started_at = now();
      update sync.jobs set last_success_at = now() - interval '2 hours', consecutive_failures = 3 where job = 'pull-orders';
      insert into fulfilment.outbox (client, kind, reference)
      select 'made-up-' || n, 'order.cancel', 'x' from generate_series(1, 50) n;
      insert into fulfilment.outbox (client, kind, reference, created_at)
      values ('default', 'order.cancel', 'x', now() - interval '90 seconds');
      insert into sync.turns (name, scope, client, next_at, taken_at, taken, spent)
      values ('track-trace', 'x', 'default', now() + interval '30 minutes', now(), 7, 1);
      insert into sync.quarantine (client, stream, resource_key, member_path, reason, document, run_worker)
      values ('default', 'orders', '1', 'a', 'b', '{}', 'w')`);
    await insertHealth(database, { code: 'no_answer', sendWindow: 0 });
    const { visitor } = await admin();
    const values = await scrape(visitor);
    const orders = 'client="default",stream="orders"';
    expect(values.get(`fulfilment_stream_lag_seconds{${orders}}`)).toBeCloseTo(7_200, -1);
    expect(
      values.get('fulfilment_job_consecutive_failures{client="default",job="pull-orders"}'),
    ).toBe(3);
    expect(values.get(`fulfilment_quarantine_rows{${orders}}`)).toBe(1);
    expect(values.get('fulfilment_outbox_rows{client="default",status="pending"}')).toBe(1);
    // Other alerts cover dead and undecided rows.
    expect(values.get('fulfilment_outbox_oldest_seconds{client="default"}')).toBeCloseTo(90, -1);
    expect(values.get('fulfilment_outbox_rows{client="unknown",status="pending"}')).toBe(50);
    const problem = (code: string, severity: string) =>
      values.get(`fulfilment_problems{client="default",code="${code}",severity="${severity}"}`);
    expect(problem('service_away', 'warn')).toBe(1);
    expect(problem('outbox_dead', 'bad')).toBe(1);
    expect(problem('quarantine', 'warn')).toBe(1);
    expect(
      values.get('fulfilment_gate_opens_in_seconds{client="default",gate="track-trace"}'),
    ).toBeCloseTo(1_800, -1);
    expect(values.get('fulfilment_database_up')).toBe(1);
    expect([...values.keys()].join()).not.toContain('made-up');
  });
});

test('a worker whose sweeps fail is alive, but not ready', async () => {
  const failingMs = 600_000;
  let begunMs = 3_000;
  const { visitor } = await admin({}, undefined, {}, () =>
    makeDaemon({ sinceLastSweepMs: () => failingMs, sinceSweepBegunMs: () => begunMs }),
  );
  expect((await visitor.get('/livez')).status).toBe(200);
  expect((await visitor.get('/readyz')).status).toBe(503);
  begunMs = failingMs;
  expect((await visitor.get('/livez')).status).toBe(503);
});

describe('/readyz', () => {
  test('names the late jobs, since when and why', async () => {
    await setUp();
    await database.query(`
      update sync.jobs set last_success_at = now() - interval '3 days', consecutive_failures = 2;
      insert into sync.pauses (client, job, by) values ('', 'pull-shipments', 'me')`);
    const { visitor } = await admin();
    const answer = await (await visitor.get('/readyz')).json();
    const since = expect.stringMatching(/^\d{4}-.*Z$/);
    expect(answer).toEqual({
      // This worker has not swept yet.
      ready: false,
      lastSweepSecondsAgo: null,
      waitsFor: 'Postgres',
      stale: [
        { client, job: 'pull-shipments', since, lastSuccessAt: since, because: 'paused' },
        { client, job: 'pull-orders', since, lastSuccessAt: since, because: 'failing' },
      ],
    });
  });
});

describe('while the database is unreachable', () => {
  test('pages say so', async () => {
    const away = connectDatabase('postgres://postgres@127.0.0.1:9/none', pino({ level: 'silent' }));
    const { visitor } = await admin({}, away.db);
    const page = await visitor.get('/outbox');
    expect([page.status, await page.text()]).toEqual([
      503,
      expect.stringContaining('The database cannot be reached'),
    ]);
    await away.close();
  });

  test('a database that takes no writes is a problem, and an action says so', async () => {
    await setReadOnly(database, 'on');
    const { visitor } = await admin({}, database.open());
    const overview = await (await visitor.get('/', { accept: 'application/json' })).json();
    expect(overview).toMatchObject({
      problems: [{ code: 'database_read_only', remedy: expect.stringContaining('primary') }],
    });
    const fields = { client: '', job: 'pull-orders' };
    const problem = 'client="",code="database_read_only",severity="bad"';
    expect((await scrape(visitor)).get(`fulfilment_problems{${problem}}`)).toBe(1);
    expect(await (await visitor.get('/readyz')).json()).toMatchObject({
      database: 'takes no writes',
    });
    const answer = await visitor.post('/schedules/pause', fields, '/schedules');
    expect([answer.status, await answer.text()]).toEqual([
      503,
      expect.stringMatching(/takes no writes at present.*default_transaction_read_only/),
    ]);
  });

  test('probes and metrics do not wait for a database that never answers', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const away = connectDatabase(
      `postgres://postgres@127.0.0.1:${port}/none`,
      pino({ level: 'silent' }),
    );
    const { visitor } = await admin({}, away.db);
    let hasGivenUp = false;
    const query = sql`select 1`.execute(away.db).catch(() => {
      hasGivenUp = true;
    });
    expect((await scrape(visitor)).get('fulfilment_database_up')).toBe(0);
    expect(await (await visitor.get('/readyz')).json()).toMatchObject({
      database: 'cannot be read',
    });
    // A query that was sent before still waits.
    expect(hasGivenUp).toBe(false);
    silent.close();
    for (const socket of sockets) socket.destroy();
    await query;
    await away.close();
  });
});

test('an internal error is shown as an internal error, and is logged', async () => {
  const { visitor, logged } = await admin();
  await database.query('alter table fulfilment.outbox rename to away');
  const answer = await visitor.get('/outbox');
  expect([answer.status, await answer.text()]).toEqual([
    500,
    expect.stringContaining('in the log of the worker'),
  ]);
  expect(logged.some((line) => line.includes('admin_failed') && line.includes('42P01'))).toBe(true);
});
