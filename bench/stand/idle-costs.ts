import type { ChildProcess } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { toScheduleVariable } from '../../config/jobs.ts';
import type { TestRedis } from '../../test/helpers/processes/test-servers.ts';
import { waitFor } from '../../test/helpers/wait.ts';
import { readCpuMs, round } from './measure.ts';
import { createSettings, endProcess, openStand, type Stand, schedulesOff } from './stand.ts';

/** What a worker has used, or uses per minute. */
export interface Meter {
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
  /** Folder of the measured program; this checkout if it is absent. */
  readonly checkout?: string | undefined;
  readonly measureMs: number;
}

/** Time to wait before measuring: a worker is not idle yet right after its first loads. */
const settleMs = 30_000;
const streams = ['shipments', 'return-items', 'inbounds', 'inbound-packing-slips', 'orders'];

/** Schedules that poll every stream every two seconds, and nothing else. */
export const oftenSchedules: Record<string, string> = {
  ...schedulesOff,
  ...Object.fromEntries(streams.map((stream) => [toScheduleVariable(`pull-${stream}`), '2s'])),
};

async function readMeter(
  { query, sandbox }: Stand,
  redis: TestRedis | null,
  pid: number | undefined,
): Promise<Meter> {
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

/** Returns the number of commands that a Redis has processed; 0 without one. */
async function countCommands(server: TestRedis | null): Promise<number> {
  if (server === null) return 0;
  const redis = new Redis(server.url);
  const info = await redis.info('stats');
  redis.disconnect();
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1] ?? 0);
}

/** A worker that has read every stream of its clients once. */
export interface Served {
  readonly stand: Stand;
  readonly settings: Record<string, string>;
  readonly worker: ChildProcess;
  readonly close: () => Promise<void>;
}

/**
 * Starts a worker for clients with 90 shipments each, and waits for its first loads. No list has
 * more than one page.
 */
export async function openServed({
  clients,
  redis,
  schedules = {},
  checkout,
}: Omit<Case, 'measureMs'>): Promise<Served> {
  const names = Array.from({ length: clients }, (_, index) => `shop-${index + 1}`);
  const stand = await openStand(names, checkout);
  const { settings, close: deleteFile } = createSettings(stand, names);
  const close = async () => {
    await stand.stop();
    deleteFile();
  };
  try {
    for (const name of names)
      await stand.sandbox.seed(90, {
        statuses: ['SHIPPED', 'SHIPPED', 'READY_TO_PICK'],
        client: name,
      });
    const queue: Record<string, string> = redis === null ? {} : { REDIS_URL: redis.url };
    const worker = await stand.startWorker({ ...queue, ...schedules }, settings);
    const unread =
      'select from sync.jobs where stream is not null ' +
      'and isfinite(next_at) and last_success_at is null';
    await waitFor('the first loads', async () => (await stand.query(unread)).length === 0, 900_000);
    return { stand, settings, worker, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Measures the costs per minute after every stream has been read once. */
export async function measureIdle({ measureMs, ...served }: Case): Promise<Meter> {
  const { stand, worker, close } = await openServed(served);
  try {
    await wait(settleMs);
    const before = await readMeter(stand, served.redis, worker.pid);
    await wait(measureMs);
    const after = await readMeter(stand, served.redis, worker.pid);
    await endProcess(worker);
    const keys = Object.keys(after) as (keyof Meter)[];
    return Object.fromEntries(
      keys.map((key) => [key, Math.round(((after[key] - before[key]) * 60_000) / measureMs)]),
    ) as unknown as Meter;
  } finally {
    await close();
  }
}

/**
 * Computes the cost of a poll that finds nothing new, from a worker that polls often and one that
 * polls rarely.
 */
export function computePollCost(often: Meter, rarely: Meter) {
  const polls = often.polls - rarely.polls;
  return {
    polls: often.polls,
    cpuMs: round((often.cpuMs - rarely.cpuMs) / polls),
    requests: round((often.requests - rarely.requests) / polls),
    statements: round((often.statements - rarely.statements) / polls),
  };
}
