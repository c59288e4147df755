import { connect, createServer } from 'node:net';
import getPort from 'get-port';
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { expireLeases } from '../../helpers/leases.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import {
  readAdminPort,
  schedulesOff,
  useProcesses,
  workerEnv,
} from '../../helpers/processes/processes.ts';
import { useRedis } from '../../helpers/redis.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const redis = useRedis();

const often = { SCHEDULE_PULL_SHIPMENTS: '1s', SCHEDULE_PULL_ORDERS: '1s' };

const countShipments = () => database.count('fulfilment.shipments');

describe.each(['postgres', 'redis'] as const)('a worker whose %s is not there yet', (kind) => {
  test.skipIf(kind === 'redis' && !redis.available)(
    'waits, and starts as soon as it is there',
    async () => {
      const sandbox = await processes.sandbox();
      const port = await getPort({ host: '127.0.0.1' });
      const behind = (address: string) =>
        Object.assign(new URL(address), { hostname: '127.0.0.1', port: String(port) }).href;
      const settings = kind === 'postgres' ? {} : { REDIS_URL: behind(redis.url) };
      const databaseUrl = kind === 'postgres' ? behind(database.url) : database.url;
      const alerts = { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/' };
      const worker = processes.cli(
        ['worker'],
        workerEnv(databaseUrl, sandbox, { ...often, ...settings, ...alerts }),
      );
      await worker.line('boot_waits');
      const server = kind === 'postgres' ? 'Postgres (DATABASE_URL): ' : 'Redis (REDIS_URL): ';
      expect(worker.output).toContain(`"error":"${server}`);
      expect(worker.output).toContain('no alert is posted before this worker has started');
      const adminPort = await readAdminPort(worker);
      // The health check of the image asks this.
      const ready = await fetch(`http://127.0.0.1:${adminPort}/readyz`);
      const waitsFor = kind === 'postgres' ? 'Postgres' : 'Redis';
      expect([ready.status, await ready.json()]).toEqual([
        503,
        expect.objectContaining({ ready: false, waitsFor }),
      ]);
      const { port: target } = new URL(kind === 'postgres' ? database.url : redis.url);
      const proxy = createServer((near) => {
        const far = connect(Number(target), '127.0.0.1');
        // If one side breaks off, the other is closed too.
        near.on('error', () => far.destroy()).pipe(far);
        far.on('error', () => near.destroy()).pipe(near);
      });
      await new Promise<void>((resolve) => proxy.listen(port, '127.0.0.1', resolve));
      try {
        await worker.line('worker_started');
        await worker.line('run_done');
        worker.kill('SIGTERM');
        expect((await worker.ended).code).toBe(0);
      } finally {
        proxy.close();
      }
    },
  );
});

test.skipIf(!redis.available)(
  'a worker whose password Redis refuses ends, and says why',
  async () => {
    const sandbox = await processes.sandbox();
    const url = Object.assign(new URL(redis.url), { username: 'nobody', password: 'wrong-secret' });
    const settings = { ...schedulesOff, REDIS_URL: url.href };
    const worker = processes.cli(['worker'], workerEnv(database.url, sandbox, settings));

    expect((await worker.ended).code).toBe(1);
    expect(worker.output).toMatch(/"event":"worker_failed","code":"redis_login_refused"/);
    expect(worker.output).toMatch(/^Redis refuses the login; correct the password in REDIS_URL/m);
    expect(worker.output).not.toMatch(/wrong-secret|"stack"/);
  },
);

test('a worker stops by itself, also without runs, once a migration is beyond its code', async () => {
  const sandbox = await processes.sandbox();
  const worker = processes.cli(['worker'], workerEnv(database.url, sandbox, schedulesOff));
  await worker.line('worker_started');
  await database.query(`insert into sync.migrations (name, applied_by) values ('9999_later', 'x')`);
  expect((await worker.ended).code).toBe(1);
  expect(worker.output).toContain('9999_later, which this program does not know');
});

test('SIGSTOP beyond the lease: another worker finishes, and the first writes nothing more', async () => {
  const sandbox = await processes.sandbox();
  await sandbox.seed(3_000, { statuses: ['SHIPPED', 'SHIPPED', 'READY_TO_PICK'] });
  // Slow from the sixteenth page on, so that the pull can be interrupted.
  await sandbox.faults(
    { operation: 'v3.shipments.list', count: 15, effect: { delayMs: 50 } },
    { operation: 'v3.shipments.list', effect: { delayMs: 4_000 } },
  );
  const schedules = { ...schedulesOff, SCHEDULE_PULL_SHIPMENTS: '1h' };
  const env = workerEnv(database.url, sandbox, schedules);
  const first = processes.cli(['worker'], env);
  await waitFor('some pages', async () => (await countShipments()) >= 1_000);
  first.kill('SIGSTOP');
  await sandbox.clearFaults();
  await expireLeases(database);
  const second = processes.cli(['worker'], env);
  await second.line('run_abandoned');
  await waitFor(
    'the second to finish',
    async () => (await database.count(`sync.jobs where last_outcome = 'done'`)) === 1,
  );
  expect(await compareWithSandbox(database.db, sandbox.url, ['shipments'])).toEqual([]);

  const written = () =>
    database.query(`
      select (select max(seq)::int from fulfilment.changes) as feed,
        (select max(xmin::text::int) from fulfilment.shipments) as shipments,
        (select string_agg(r.id || r.status || r.pages, ',' order by r.id) from sync.runs r) as runs,
        (select string_agg(c.query || c.updated_at, ',') from sync.cursors c) as cursors`);
  const before = await written();
  first.kill('SIGCONT');
  const lost = JSON.parse(await first.line('"run_abandoned","leaseKey"')) as { code: string };
  expect(lost.code).toBe('lease_lost');
  expect(await written()).toEqual(before);
  const doubled = '(select from fulfilment.changes group by entity, id having count(*) > 1) twice';
  expect(await database.count(doubled)).toBe(0);
});
