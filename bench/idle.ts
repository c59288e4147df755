/**
 * What a worker costs while nothing happens, with 1, 10 and 50 clients on default schedules, by the minute: connections,
 * statements, transactions and WAL of Postgres, commands of Redis, requests to the service, CPU of the worker.
 * `npm run --silent bench:idle [redis://…]`
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { migrateDatabase } from '../src/app/commands/migrate.ts';
import { startEmbeddedPostgres } from '../src/app/demo/embedded-postgres.ts';
import { createLogger } from '../src/app/log.ts';
import { SandboxControl } from '../test/helpers/sandbox-control.ts';
import { start } from './product.ts';

const measureMs = 120_000;
const settleMs = 15_000;

/** What has been used up to now. */
interface Meter {
  readonly statements: number;
  readonly transactions: number;
  readonly walBytes: number;
  readonly redisCommands: number;
  readonly requests: number;
  readonly cpuMs: number;
}

async function measure(clients: number, redisUrl: string | undefined): Promise<void> {
  const postgres = await startEmbeddedPostgres();
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-idle-'));
  const names = Array.from({ length: clients }, (_, index) => `shop-${index + 1}`);
  await admin(postgres.url, `alter system set shared_preload_libraries = 'pg_stat_statements'`);
  await postgres.restart();
  await migrateDatabase(postgres.url, createLogger({ level: 'silent', pretty: false }));
  const args = ['--port', '0', '--speed', '0', '--orders-per-day', '0', '--clients', names.join(',')];
  const sandbox = await start(['sandbox', ...args], {}, 'Sandbox at ');
  const control = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(sandbox.line)?.[1] ?? ''));
  for (const name of names) await control.seed(200, ['SHIPPED', 'SHIPPED', 'READY_TO_PICK'], name);
  const file = join(folder, 'clients.json');
  const entries = names.map((key) => ({ key, baseUrl: control.url.href, username: key, password: key }));
  writeFileSync(file, JSON.stringify(entries));
  const queue: Record<string, string> = redisUrl === undefined ? {} : { REDIS_URL: redisUrl };
  const env = {
    DATABASE_URL: postgres.url,
    WAREHOUSE_CLIENTS_FILE: file,
    ADMIN_PORT: '0',
    LOG_PRETTY: 'false',
    ...queue,
  };
  const worker = await start(['worker'], env, 'worker_started');
  worker.child.stdout?.resume();
  const client = new pg.Client({ connectionString: postgres.url, application_name: 'bench' });
  await client.connect();
  await client.query('create extension pg_stat_statements');
  try {
    const unread = `select 1 from sync.jobs where job like 'pull-%' and isfinite(due_at) and last_success_at is null limit 1`;
    while ((await client.query(unread)).rows.length > 0) await wait(200);
    await wait(settleMs);
    const pid = worker.child.pid ?? 0;
    const before = await read(client, control, redisUrl, pid);
    await wait(measureMs);
    const after = await read(client, control, redisUrl, pid);
    const { rows } = await client.query(`
      select count(*)::int as n from pg_stat_activity where application_name <> 'bench' and backend_type = 'client backend'`);
    const perMinute = (name: keyof Meter) => Math.round(((after[name] - before[name]) * 60_000) / measureMs);
    const figures = (Object.keys(after) as (keyof Meter)[]).map(
      (name) => `${name} ${perMinute(name).toLocaleString('en')}`,
    );
    process.stdout.write(
      `queue in ${redisUrl === undefined ? 'Postgres' : 'Redis'}, ${clients} clients: connections ${rows[0].n}; a minute: ${figures.join(', ')}\n`,
    );
  } finally {
    await client.end();
    worker.child.kill('SIGTERM');
    sandbox.child.kill('SIGTERM');
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function admin(url: string, text: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(text);
  await client.end();
}

async function read(
  client: pg.Client,
  control: SandboxControl,
  redisUrl: string | undefined,
  pid: number,
): Promise<Meter> {
  const { rows } = await client.query(`
    select (select sum(calls)::int from pg_stat_statements) as statements,
      (select (xact_commit + xact_rollback)::int from pg_stat_database where datname = current_database()) as transactions,
      pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as wal`);
  const { statements, transactions, wal } = rows[0];
  return {
    statements,
    transactions,
    walBytes: wal,
    redisCommands: await redisCommands(redisUrl),
    requests: (await control.requests()).length,
    cpuMs: cpuMsOf(pid),
  };
}

async function redisCommands(url: string | undefined): Promise<number> {
  if (url === undefined) return 0;
  const redis = new Redis(url);
  const info = await redis.info('stats');
  redis.disconnect();
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1] ?? 0);
}

/** User and system time of a process, in hundredths of a second where Linux counts them; 0 elsewhere. */
function cpuMsOf(pid: number): number {
  if (process.platform !== 'linux') return 0;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

const redisUrl = process.argv[2];
for (const clients of [1, 10, 50]) {
  await measure(clients, undefined);
  if (redisUrl !== undefined) await measure(clients, redisUrl);
}
if (redisUrl === undefined) process.stdout.write('For the other backend: npm run --silent bench:idle -- redis://…\n');
