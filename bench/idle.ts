/**
 * Measures what an idle worker costs per minute, with 1 and 50 clients on default schedules, and what a poll costs that
 * finds nothing new: `npm run --silent bench:idle -- [SECONDS]`. Counts statements and WAL of Postgres, commands of
 * Redis, requests to the service, and CPU time of the worker.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { toScheduleVariable } from '../config/jobs.ts';
import { startRedis, type TestRedis } from '../test/helpers/processes/redis-server.ts';
import { waitFor } from '../test/helpers/wait.ts';
import { printLine, readCpuMs, round, saveResults } from './stand/measure.ts';
import { createSettings, endProcess, openStand, type Stand, schedulesOff } from './stand/stand.ts';

const measureMs = Number(process.argv[2] ?? 60) * 1_000;
/** Time to wait before measuring: a worker is not idle yet right after its first loads. */
const settleMs = 30_000;
const streams = ['shipments', 'return-items', 'inbounds', 'inbound-packing-slips', 'orders'];

interface Meter {
  readonly statements: number;
  readonly transactions: number;
  readonly walBytes: number;
  readonly redisCommands: number;
  readonly requests: number;
  readonly polls: number;
  readonly cpuMs: number;
}

interface Case {
  readonly clients: number;
  readonly redis: TestRedis | null;
  readonly schedules?: Record<string, string>;
}

async function readMeter({ query, sandbox }: Stand, redis: TestRedis | null, pid: number | undefined): Promise<Meter> {
  const [row] = await query<Omit<Meter, 'redisCommands' | 'requests' | 'cpuMs'>>(`
    select (select sum(calls)::int from pg_stat_statements) as statements,
      (select (xact_commit + xact_rollback)::int from pg_stat_database where datname = current_database()) as transactions,
      pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as "walBytes",
      (select coalesce(sum(uneventful_runs), 0)::int from sync.jobs where stream is not null) as polls`);
  if (row === undefined) throw new Error('Postgres returned no statistics');
  return {
    ...row,
    redisCommands: await countCommands(redis),
    requests: await sandbox.lastPlace(),
    cpuMs: readCpuMs(pid),
  };
}

async function countCommands(server: TestRedis | null): Promise<number> {
  if (server === null) return 0;
  const redis = new Redis(server.url);
  const info = await redis.info('stats');
  redis.disconnect();
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1] ?? 0);
}

/** Measures the costs per minute after every stream has been read once. */
async function measure({ clients, redis, schedules = {} }: Case): Promise<Meter> {
  const names = Array.from({ length: clients }, (_, index) => `shop-${index + 1}`);
  const stand = await openStand(names);
  const { settings, close } = createSettings(stand, names);
  try {
    // With 90 shipments, no list has more than one page.
    for (const name of names)
      await stand.sandbox.seed(90, { statuses: ['SHIPPED', 'SHIPPED', 'READY_TO_PICK'], client: name });
    const queue: Record<string, string> = redis === null ? {} : { REDIS_URL: redis.url };
    const worker = await stand.startWorker({ ...queue, ...schedules }, settings);
    const unread = `select from sync.jobs where stream is not null and isfinite(due_at) and last_success_at is null limit 1`;
    await waitFor('the first loads', async () => (await stand.query(unread)).length === 0, 120_000);
    await wait(settleMs);
    const before = await readMeter(stand, redis, worker.pid);
    await wait(measureMs);
    const after = await readMeter(stand, redis, worker.pid);
    await endProcess(worker);
    const keys = Object.keys(after) as (keyof Meter)[];
    return Object.fromEntries(
      keys.map((key) => [key, Math.round(((after[key] - before[key]) * 60_000) / measureMs)]),
    ) as unknown as Meter;
  } finally {
    await stand.stop();
    close();
  }
}

const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
const found: object[] = [];
for (const clients of [1, 50])
  for (const [queue, server] of [
    ['Postgres', null],
    ['Redis', redis],
  ] as const) {
    if (queue === 'Redis' && redis === null) continue;
    const minute = await measure({ clients, redis: server });
    printLine(`${clients} clients, queue in ${queue}: ${JSON.stringify(minute)}`);
    found.push({ clients, queue, ...minute });
  }
// The difference between a worker that polls every stream every two seconds and one without polls is the cost of polls.
const often = Object.fromEntries(streams.map((stream) => [toScheduleVariable(`pull-${stream}`), '2s']));
const [none, many] = [
  await measure({ clients: 1, redis: null, schedules: schedulesOff }),
  await measure({ clients: 1, redis: null, schedules: { ...schedulesOff, ...often } }),
];
const poll = {
  polls: many.polls,
  cpuMs: round((many.cpuMs - none.cpuMs) / many.polls),
  requests: round(many.requests / many.polls),
  statements: round((many.statements - none.statements) / many.polls),
};
printLine(`a poll that finds nothing new: ${JSON.stringify(poll)}`);
await redis?.stop();
saveResults('idle', { seconds: measureMs / 1_000, found, poll, none, many });
