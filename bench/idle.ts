/**
 * What a worker costs while nothing happens, with 1 and 50 clients on default schedules, by the minute; and what a poll
 * costs that finds nothing new: `npm run --silent bench:idle -- [SECONDS]`. Statements and WAL of Postgres, commands of Redis, requests
 * to the service, CPU of the worker.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { scheduleVariable } from '../config/jobs.ts';
import { startRedis, type TestRedis } from '../test/helpers/processes/redis-server.ts';
import { waitFor } from '../test/helpers/wait.ts';
import { cpuMsOf, keep, round, say } from './stand/measure.ts';
import { end, openStand, type Stand, schedulesOff, settingsFor } from './stand/stand.ts';

const measureMs = Number(process.argv[2] ?? 60) * 1_000;
/** A worker that has just begun, and has read everything once, is not idle yet. */
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

async function read({ query, sandbox }: Stand, redis: TestRedis | null, pid: number | undefined): Promise<Meter> {
  const [row] = await query<Omit<Meter, 'redisCommands' | 'requests' | 'cpuMs'>>(`
    select (select sum(calls)::int from pg_stat_statements) as statements,
      (select (xact_commit + xact_rollback)::int from pg_stat_database where datname = current_database()) as transactions,
      pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as "walBytes",
      (select coalesce(sum(uneventful_runs), 0)::int from sync.jobs where stream is not null) as polls`);
  if (row === undefined) throw new Error('Postgres tells nothing');
  return { ...row, redisCommands: await commandsOf(redis), requests: await sandbox.lastPlace(), cpuMs: cpuMsOf(pid) };
}

async function commandsOf(server: TestRedis | null): Promise<number> {
  if (server === null) return 0;
  const redis = new Redis(server.url);
  const info = await redis.info('stats');
  redis.disconnect();
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1] ?? 0);
}

/** What is used in a minute, once every stream has been read. */
async function measure({ clients, redis, schedules = {} }: Case): Promise<Meter> {
  const names = Array.from({ length: clients }, (_, index) => `shop-${index + 1}`);
  const stand = await openStand(names);
  const { settings, close } = settingsFor(stand, names);
  try {
    // No list has more than one page.
    for (const name of names) await stand.sandbox.seed(90, ['SHIPPED', 'SHIPPED', 'READY_TO_PICK'], name);
    const queue: Record<string, string> = redis === null ? {} : { REDIS_URL: redis.url };
    const worker = await stand.startWorker({ ...queue, ...schedules }, settings);
    const unread = `select from sync.jobs where stream is not null and isfinite(due_at) and last_success_at is null limit 1`;
    await waitFor('the first loads', async () => (await stand.query(unread)).length === 0, 120_000);
    await wait(settleMs);
    const before = await read(stand, redis, worker.pid);
    await wait(measureMs);
    const after = await read(stand, redis, worker.pid);
    await end(worker);
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
    say(`${clients} clients, queue in ${queue}: ${JSON.stringify(minute)}`);
    found.push({ clients, queue, ...minute });
  }
// Between a worker that polls every stream every two seconds and one that polls none lies what polls cost.
const often = Object.fromEntries(streams.map((stream) => [scheduleVariable(`pull-${stream}`), '2s']));
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
say(`a poll that finds nothing new: ${JSON.stringify(poll)}`);
await redis?.stop();
keep('idle', { seconds: measureMs / 1_000, found, poll, none, many });
