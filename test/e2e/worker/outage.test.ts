import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { describe, expect, inject, test } from 'vitest';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase } from '../../../src/db/connect.ts';
import { Fleet, pickDuration, report } from '../../helpers/campaigns/fleet.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { startPostgres } from '../../helpers/processes/postgres-server.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { startRedis } from '../../helpers/processes/redis-server.ts';
import { waitFor } from '../../helpers/wait.ts';

const processes = useProcesses();
const downMs = pickDuration(6_000, 60_000);
/** Longer than the time after which a worker asks the queue for its schedulers again. */
const noticeMs = 20_000;

/** Runs a statement. Returns null if the database cannot be reached. */
async function query(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<Record<string, unknown>[] | null> {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  try {
    await client.connect();
    return (await client.query(text, values)).rows;
  } catch {
    // The database is not up yet, or is going down. The caller asks again until its deadline.
    return null;
  } finally {
    // A connection that was never made, or is lost, need not be ended.
    await client.end().catch(() => undefined);
  }
}

describe.each([
  { away: 'postgres', queueIn: 'postgres' },
  { away: 'redis', queueIn: 'redis' },
] as const)('$away is down for a while, with the queue in $queueIn', ({ away, queueIn }) => {
  test.skipIf(queueIn === 'redis' && !inject('redisAvailable'))(
    'the worker keeps running, and catches up by itself once it is back',
    async () => {
      const redis = queueIn === 'redis' ? await startRedis() : null;
      const postgres = await startPostgres();
      await migrateDatabase(postgres.url, silentLogger);
      const queue: Record<string, string> = redis === null ? {} : { REDIS_URL: redis.url };
      const fleet = await Fleet.start(processes, {
        databaseUrl: postgres.url,
        clients: [{ key: 'shop-1' }],
        env: {
          SCHEDULE_PULL_SHIPMENTS: '2s',
          SCHEDULE_PULL_ORDERS: '2s',
          SCHEDULE_PUSH_OUTBOX: '15s',
          ...queue,
        },
        ordersPerDay: 200,
      });
      const { db, close } = connectDatabase(postgres.url, silentLogger, { name: 'test', max: 1 });
      const areTablesEqual = async () =>
        (
          await compareWithSandbox(db, fleet.sandbox.url, ['orders', 'shipments']).catch(() => [
            'away',
          ])
        ).length === 0;
      try {
        const worker = fleet.startWorker();
        await worker.line('worker_started');
        await fleet.sandbox.advance(7_200);
        await waitFor('the first hours', areTablesEqual);
        const pid = worker.child.pid;
        const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
        const probe = async (name: string) =>
          (await fetch(`http://127.0.0.1:${port}/${name}`)).status;
        const outage = away === 'postgres' ? postgres.restart(downMs) : redis?.restart(downMs);
        await wait(downMs - 1_000);
        // A restart of the worker would not help.
        expect(await probe('livez')).toBe(200);
        await outage;
        const backMs = performance.now();
        await fleet.sandbox.advance(7_200);
        await waitFor('the database to take an order', () =>
          query(
            postgres.url,
            `insert into fulfilment.outbox (client, kind, reference, payload) values ('shop-1', 'order.create', 'SO-1', $1) returning id`,
            [JSON.stringify(orderPayload('SO-1'))],
          ),
        );
        await waitFor('what happened meanwhile', areTablesEqual);
        const caughtUpMs = Math.round(performance.now() - backMs);
        expect(worker.child.exitCode).toBeNull();
        expect(worker.child.pid).toBe(pid);
        await waitFor(
          'the probes',
          async () => (await probe('livez')) === 200 && (await probe('readyz')) === 200,
        );
        await waitFor('the order to be pushed', async () => {
          const [row] = (await query(postgres.url, 'select status from fulfilment.outbox')) ?? [];
          return row?.status === 'done';
        });
        if (away === 'redis') {
          const readError = async () =>
            (await query(postgres.url, 'select queue_error from sync.clients'))?.[0];
          const longOutage = redis?.restart(noticeMs);
          await waitFor(
            'the outage to be noted',
            async () => typeof (await readError())?.queue_error === 'string',
          );
          await longOutage;
          await waitFor(
            'its end to be noted',
            async () => (await readError())?.queue_error === null,
          );
        }
        await fleet.stop();
        expect((await worker.ended).code).toBe(0);
        const lines = worker.lines.filter((line) => /"level":"(warn|error)"/.test(line));
        // An outage of a minute causes few lines, not thousands.
        expect(lines.length).toBeLessThan(60);
        report(`${away} away for ${downMs} ms, queue in ${queueIn}`, {
          caughtUpMs,
          warnings: lines.length,
          excerpt: lines.slice(0, 8),
        });
      } finally {
        await close();
        await fleet.stop();
        fleet.close();
        await postgres.stop();
        await redis?.stop();
      }
    },
    300_000,
  );
});
