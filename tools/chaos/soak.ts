/**
 * Runs one worker under load for half an hour (docs/reliability.md): `npm run soak -- --minutes
 * 30`. Two clients, weeks of virtual time, a steady flow of orders, and the built worker (`npm run
 * build`). Measures every 10 seconds what may grow, and writes soak.json and soak.svg into a folder
 * of the temporary files, which it names.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { jobNames, polledStreams, toScheduleVariable } from '../../config/jobs.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { connectDatabase } from '../../src/db/connect.ts';
import { compareWithSandbox } from '../../test/helpers/oracle.ts';
import { orderPayload } from '../../test/helpers/order-payload.ts';
import { CliProcess } from '../../test/helpers/processes/cli-process.ts';
import { SandboxControl } from '../../test/helpers/sandbox-control.ts';
import { waitFor } from '../../test/helpers/wait.ts';
import { drawSoak, type Sample, type Soak } from './plot.ts';
import { queryAt, Servers } from './servers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(tmpdir(), 'fulfilment-sync-soak');
const speed = 1_200;
const ordersPerSecond = 10;
const sampleEveryMs = 10_000;
/** Maximum number of connections that one worker opens (docs/operations.md). */
const mostConnections = 30;

const sizes = `
  select (select coalesce(sum(n_dead_tup), 0)::int from pg_stat_user_tables) as "deadRows",
    (select coalesce(sum(n_live_tup), 0)::int from pg_stat_user_tables) as "liveRows",
    (select count(*)::int from pg_stat_activity where datname = current_database() and application_name like 'fulfilment-sync%') as connections,
    (select count(*)::int from fulfilment.outbox where status = 'done') as orders,
    (select (coalesce(sum(uneventful_runs), 0) + (select count(*) from sync.runs))::int from sync.jobs) as runs,
    round(pg_database_size(current_database()) / 1048576.0)::int as "databaseMb"`;

/** Reads the memory and the number of open files of a process (Linux only). */
function readProcessUsage(pid: number): { memoryMb: number; descriptors: number } {
  const [, kb = '0'] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return {
    memoryMb: Math.round(Number(kb) / 1_024),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

async function insertOrders(url: string, from: number, count: number): Promise<void> {
  await queryAt(
    url,
    `insert into fulfilment.outbox (client, kind, reference, payload)
     select case n % 2 when 0 then 'shop-a' else 'shop-b' end, 'order.create', 'ERP-' || n,
       jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('ERP-' || n)) from generate_series($2::int, $3) n`,
    [JSON.stringify(orderPayload('?')), from, from + count - 1],
  );
}

/** Produces load until the time is up, and takes a sample every 10 seconds. */
async function runSoak(
  url: string,
  sandbox: SandboxControl,
  worker: CliProcess,
  minutes: number,
): Promise<Sample[]> {
  const startedMs = performance.now();
  const samples: Sample[] = [];
  let orders = 0;
  let advancedMs = 0;
  while (performance.now() - startedMs < minutes * 60_000) {
    const elapsedMs = performance.now() - startedMs;
    await sandbox.advance(((elapsedMs - advancedMs) / 1_000) * speed);
    advancedMs = elapsedMs;
    const due = Math.round((elapsedMs / 1_000) * ordersPerSecond) - orders;
    if (due > 0) await insertOrders(url, orders + 1, due);
    orders += Math.max(0, due);
    if (elapsedMs >= samples.length * sampleEveryMs) {
      const [row] = await queryAt<Omit<Sample, 'seconds' | 'memoryMb' | 'descriptors'>>(url, sizes);
      if (row === undefined) throw new Error('the database returned no sizes');
      const sample = {
        seconds: Math.round(elapsedMs / 1_000),
        ...readProcessUsage(worker.child.pid ?? 0),
        ...row,
      };
      samples.push(sample);
      if (samples.length % 6 === 1) process.stdout.write(`${JSON.stringify(sample)}\n`);
    }
    await wait(500);
  }
  return samples;
}

/**
 * Finds growth from the second to the last third of the time: more than 10 % of memory, or 50 %
 * more as the share of dead rows. Also reports too many connections, and files and sockets that
 * stay open: a slower service has more requests open at a time, but none once the orders ended.
 * @param descriptorsAtRest open files and sockets after the load
 */
function findGrowth(samples: readonly Sample[], descriptorsAtRest: number): string[] {
  const third = Math.floor(samples.length / 3);
  const mean = (member: keyof Sample, from: number) =>
    samples.slice(from, from + third).reduce((sum, sample) => sum + sample[member], 0) / third;
  const grown: string[] = [];
  const [memoryBefore, memoryAfter] = [mean('memoryMb', third), mean('memoryMb', 2 * third)];
  if (memoryAfter > memoryBefore * 1.1)
    grown.push(`memory grew from ${memoryBefore.toFixed(0)} to ${memoryAfter.toFixed(0)} MB`);
  const descriptorsBefore = mean('descriptors', third);
  if (descriptorsAtRest > descriptorsBefore)
    grown.push(
      `${descriptorsAtRest} descriptors stayed open, ${descriptorsBefore.toFixed(0)} under load`,
    );
  const share = (from: number) => mean('deadRows', from) / mean('liveRows', from);
  if (share(2 * third) > share(third) * 1.5)
    grown.push(`dead rows grew to ${(share(2 * third) * 100).toFixed(1)} % of all`);
  const most = Math.max(...samples.map(({ connections }) => connections));
  if (most > mostConnections) grown.push(`${most} connections were open`);
  return grown;
}

async function main(minutes: number): Promise<void> {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' });
  const servers = await Servers.start();
  const options = ['--speed', '0', '--seed', '1', '--clients', 'shop-a,shop-b', '--late-changes'];
  const sandboxProcess = new CliProcess(['sandbox', '--strict', '--port', '0', ...options], {});
  const processes = [sandboxProcess];
  try {
    const line = await sandboxProcess.line('Sandbox at ');
    const sandbox = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? ''));
    const { url } = await servers.createDatabase();
    const clients = ['shop-a', 'shop-b'].map((key) => ({
      key,
      baseUrl: sandbox.url.href,
      username: key,
      password: key,
    }));
    mkdirSync(folder, { recursive: true });
    const clientsFile = join(root, 'node_modules/.cache/soak-clients.json');
    writeFileSync(clientsFile, JSON.stringify(clients));
    const env = {
      ...Object.fromEntries(jobNames.map((job) => [toScheduleVariable(job), 'off'])),
      ...Object.fromEntries(
        Object.keys(polledStreams).map((job) => [toScheduleVariable(job), '2s']),
      ),
      SCHEDULE_RECONCILE: '1m',
      SCHEDULE_PRUNE: '1m',
      DATABASE_URL: url,
      REDIS_URL: servers.redis.url,
      WAREHOUSE_CLIENTS_FILE: clientsFile,
      ADMIN_PORT: '0',
      LOG_LEVEL: 'warn',
    };
    const worker = new CliProcess(['worker'], env, join(root, 'dist/main.js'));
    processes.push(worker);
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      version: string;
    };
    const samples = await runSoak(url, sandbox, worker, minutes);
    const result: Soak = { version, minutes, speed, ordersPerSecond, samples };
    writeFileSync(join(folder, 'soak.json'), `${JSON.stringify(result)}\n`);
    writeFileSync(join(folder, 'soak.svg'), drawSoak(result));
    process.stdout.write(`Samples and chart: ${folder}\n`);
    const { db, close } = connectDatabase(url, silentLogger, { name: 'soak', max: 12 });
    try {
      await waitFor(
        'the tables to equal the sandbox',
        async () => {
          // A comparison reads more than 100,000 rows, so it is not repeated too often.
          await wait(5_000);
          return (await compareWithSandbox(db, sandbox.url)).length === 0;
        },
        600_000,
      );
    } finally {
      await close();
    }
    const { descriptors } = readProcessUsage(worker.child.pid ?? 0);
    const grown = findGrowth(samples, descriptors);
    process.stdout.write(grown.length === 0 ? 'Nothing grew.\n' : `${grown.join('\n')}\n`);
    if (grown.length > 0) process.exitCode = 1;
  } finally {
    for (const { child, ended } of processes) {
      child.kill('SIGKILL');
      await ended;
    }
    await servers.stop();
  }
}

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '30' } } });
await main(Number(values.minutes));
