import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Fleet, isLong, pickDuration, report } from '../../helpers/campaigns/fleet.ts';
import { useDatabase } from '../../helpers/database.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { type QueueKind, truncateQueue } from '../../helpers/queue.ts';
import { useRedis } from '../../helpers/redis.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const redis = useRedis();

const makeClients = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ key: `shop-${index + 1}` }));
const queueEnv = (kind: QueueKind): Record<string, string> =>
  kind === 'redis' ? { REDIS_URL: redis.url } : {};
const flush = (kind: QueueKind) => (kind === 'redis' ? redis.flush() : truncateQueue(database));

describe.each(['postgres', 'redis'] as const)('with the queue in %s', (kind) => {
  const skipped = kind === 'redis' && !redis.available;

  test.skipIf(skipped)(
    'a queue that is emptied under load loses no run: its schedules come back by themselves',
    async () => {
      const fleet = await Fleet.start(processes, {
        databaseUrl: database.url,
        clients: makeClients(3),
        env: {
          SCHEDULE_PULL_SHIPMENTS: '2s',
          SCHEDULE_PULL_ORDERS: '3s',
          SCHEDULE_PULL_INBOUNDS: '4s',
          SCHEDULE_RECONCILE: '6s',
          ...queueEnv(kind),
        },
        ordersPerDay: 300,
      });
      try {
        fleet.startWorker();
        fleet.startWorker();
        const stalest = async () =>
          (
            await database.query<{ jobs: number; seconds: number }>(`
              select count(*)::int as jobs, extract(epoch from now() - min(last_started_at))::float8 as seconds
              from sync.jobs where last_success_at is not null and job in ('pull-shipments', 'pull-orders', 'pull-inbounds', 'reconcile')`)
          )[0];
        await waitFor('every job of every client', async () => (await stalest())?.jobs === 12);
        const aligned = () => fleet.output.match(/schedulers_aligned/g)?.length ?? 0;
        const figures: { schedulesBackMs: number; staleAtWorstSeconds: number }[] = [];
        for (let round = 0; round < pickDuration(1, 6); round++) {
          await fleet.sandbox.advance(3_600);
          const before = aligned();
          await flush(kind);
          const flushedMs = performance.now();
          let worst = 0;
          await waitFor('the tick to be scheduled again', async () => {
            worst = Math.max(worst, (await stalest())?.seconds ?? 0);
            return aligned() >= before + 1;
          });
          figures.push({
            schedulesBackMs: Math.round(performance.now() - flushedMs),
            staleAtWorstSeconds: worst,
          });
        }
        // A run that succeeds after every job has begun again began after the last advance of time.
        for (const column of ['last_started_at', 'last_success_at'] as const) {
          const [{ at } = { at: null }] = await database.query<{ at: Date }>('select now() as at');
          await waitFor(`everything to run again: ${column}`, async () => {
            const late = `select 1 from sync.jobs where ${column} < $1 and isfinite(next_at)`;
            return (await database.query(late, [at])).length === 0;
          });
        }
        await fleet.stop();
        expect(
          await compareWithSandbox(database.db, fleet.sandbox.url, [
            'orders',
            'shipments',
            'inbounds',
          ]),
        ).toEqual([]);
        const [{ missed, set } = { missed: 0, set: 0 }] = await database.query<{
          missed: number;
          set: number;
        }>(`
          select (select sum(skips)::int from sync.jobs) as missed,
            (select count(*)::int from sync.audit where action = 'schedulers_set') as set`);
        const [{ rows } = { rows: 0 }] = await database.query<{ rows: number }>(
          'select count(*)::int as rows from fulfilment.shipments',
        );
        report(`flushed ${kind}`, { figures, rows, missedTurns: missed, alignmentsInAudit: set });
        expect(rows).toBeGreaterThan(10);
        expect(set).toBeGreaterThanOrEqual(1 + figures.length);
        for (const { schedulesBackMs } of figures) expect(schedulesBackMs).toBeLessThan(60_000);
      } finally {
        await fleet.stop();
        fleet.close();
      }
    },
    400_000,
  );

  // worker.test.ts proves that another worker continues. This test measures how long that takes.
  test.skipIf(skipped || !isLong)(
    'after kill -9 the next page of the same stream is read within 15 seconds',
    async () => {
      const fleet = await Fleet.start(processes, {
        databaseUrl: database.url,
        clients: makeClients(1),
        env: {
          SCHEDULE_PULL_SHIPMENTS: '1h',
          ...queueEnv(kind),
        },
      });
      try {
        await fleet.sandbox.seed(9_000, { client: 'shop-1' });
        await fleet.sandbox.faults({ operation: 'v3.shipments.list', effect: { delayMs: 250 } });
        const tookMs: number[] = [];
        let working = fleet.startWorker();
        for (let round = 0; round < 3; round++) {
          const pages = () => fleet.sandbox.requestsTo('/v3/shipments');
          const before = (await pages()).length;
          await waitFor('some pages', async () => (await pages()).length > before + 5);
          const next = fleet.startWorker();
          await next.line('worker_started');
          fleet.end(working, 'SIGKILL');
          const killedMs = performance.now();
          await working.ended;
          const then = (await pages()).length;
          await waitFor('the next page', async () => (await pages()).length > then);
          tookMs.push(Math.round(performance.now() - killedMs));
          working = next;
        }
        report(`kill -9 to the next page, ${kind}`, tookMs);
        expect(Math.max(...tookMs)).toBeLessThan(15_000);
      } finally {
        await fleet.stop();
        fleet.close();
      }
    },
  );
});

test('18 clients stay fresh while one is slow, one is refused, one is down and one is parked', async () => {
  const special: Record<string, object> = {
    'shop-20': { password: 'wrong' },
    'shop-21': { baseUrl: 'http://127.0.0.1:9' },
  };
  const clients = makeClients(22).map((client) => ({ ...client, ...special[client.key] }));
  await database.query(`
    insert into sync.clients (client, identity, base_url) values ('shop-22', 'another', 'https://elsewhere.test/')`);
  const fleet = await Fleet.start(processes, {
    databaseUrl: database.url,
    clients,
    env: {
      SCHEDULE_PULL_SHIPMENTS: '5s',
      SCHEDULE_PULL_ORDERS: '5s',
      SCHEDULE_PULL_INBOUNDS: '5s',
      SCHEDULE_PULL_RETURN_ITEMS: '5s',
      SCHEDULE_PULL_INBOUND_PACKING_SLIPS: '5s',
      HTTP_TIMEOUT_MS: '60000',
    },
  });
  try {
    await fleet.sandbox.faults({ operation: '*', client: 'shop-19', effect: { delayMs: 30_000 } });
    fleet.startWorker();
    const others = `client not in ('shop-19', 'shop-20', 'shop-21', 'shop-22') and stream is not null and isfinite(next_at)`;
    const succeeded = `sync.jobs where ${others} and last_success_at is not null`;
    await waitFor('the first round', async () => (await database.count(succeeded)) === 90);
    // While the slow client waits for its answers, each job of the others runs twice more.
    for (const time of ['once', 'twice']) {
      const [{ at } = { at: null }] = await database.query<{ at: Date }>('select now() as at');
      await waitFor(`all others to run ${time} more`, async () => {
        const late = `select 1 from sync.jobs where ${others} and not coalesce(last_success_at > $1, false)`;
        return (await database.query(late, [at])).length === 0;
      });
    }
    const lags: number[] = [];
    for (const endMs = performance.now() + pickDuration(0, 180_000); performance.now() < endMs; ) {
      const rows = await database.query<{ lag: number }>(
        `select extract(epoch from now() - last_success_at)::float8 as lag from sync.jobs where ${others}`,
      );
      lags.push(...rows.map(({ lag }) => lag));
      await wait(500);
    }
    lags.sort((a, b) => a - b);
    const at = (share: number) => Number((lags[Math.floor(lags.length * share)] ?? 0).toFixed(1));
    const holds = await database.query(
      "select distinct client, code from sync.service_health where scope = 'client' order by client",
    );
    await fleet.stop();
    const slow = await fleet.sandbox.requests();
    report('22 clients', {
      scheduleSeconds: 5,
      lagOfTheOther18: { p50: at(0.5), p99: at(0.99), most: at(0.999999) },
      requestsOfTheSlowOne: slow.filter(({ client }) => client === 'shop-19').length,
      holds,
    });
    expect(holds).toEqual([
      { client: 'shop-20', code: 'credentials_refused' },
      { client: 'shop-21', code: 'no_answer' },
    ]);
    expect(slow.filter(({ client }) => client === 'shop-22')).toEqual([]);
    // Each job is due every 5 s. A busy machine may make it two runs late; next to other tests,
    // even later.
    if (isLong) expect(at(0.99)).toBeLessThan(15);
  } finally {
    await fleet.stop();
    fleet.close();
  }
}, 400_000);
