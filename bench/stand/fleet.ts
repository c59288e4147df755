import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  defaultSchedules,
  type JobName,
  jobNames,
  polledStreams,
  toScheduleVariable,
} from '../../config/jobs.ts';
import { parseSchedule } from '../../config/schedules.ts';
import { planNext } from '../../src/schedule/plan-next.ts';
import { startRedis } from '../../test/helpers/processes/redis-server.ts';
import type { TestRedis } from '../../test/helpers/processes/test-servers.ts';
import { type FleetMeter, type FleetProcesses, readFleetMeter } from './fleet-meter.ts';
import { quantile, readResidentMb, round } from './measure.ts';
import { endProcess, openStand, type Stand } from './stand.ts';

export interface FleetCase {
  readonly clients: number;
  readonly workers: number;
  readonly queue: 'Postgres' | 'Redis';
  /**
   * Streams are polled this many times as often as by default, as if there were as many times more
   * clients.
   */
  readonly speed: number;
  readonly seconds: number;
}

/** Maximum milliseconds for the runs that are all due at once. */
const burstMs = 40_000;
/** Milliseconds after the start of the workers that are not measured. */
const settleMs = 10_000;

/**
 * Records when each run began, and when it was due. A table without WAL, so that the record costs
 * little.
 */
const recorder = `
  create unlogged table public.bench_starts (late_ms float8 not null, at timestamptz not null default clock_timestamp());
  create function public.bench_record() returns trigger language plpgsql as $$
  begin
    insert into public.bench_starts (late_ms)
    values (extract(epoch from new.last_started_at - old.next_at) * 1000);
    return null;
  end $$;
  create trigger bench_record after update of last_started_at on sync.jobs for each row
    when (new.last_started_at is distinct from old.last_started_at and new.stream is not null and isfinite(old.next_at))
    execute function public.bench_record()`;

/**
 * Returns the interval of a default schedule; of two, the shorter one, as if something moved all
 * the time.
 */
function toEveryMs(text: string): number {
  const schedule = parseSchedule(text);
  return schedule.kind === 'every' ? schedule.everyMs : Number.NaN;
}

/** Returns the schedules of the polls. Turns off the jobs that run daily or read other lists. */
function makeSchedules(speed: number): Record<string, string> {
  const toSchedule = (job: JobName) =>
    job in polledStreams
      ? `${Math.round(toEveryMs(defaultSchedules[job]) / 1_000 / speed)}s`
      : 'off';
  return Object.fromEntries(jobNames.map((job) => [toScheduleVariable(job), toSchedule(job)]));
}

/**
 * Measures workers for many clients whose lists are empty: polls by their schedules, then all polls
 * due at once.
 */
export async function measureFleet(wanted: FleetCase): Promise<object> {
  const stand = await openStand();
  const redis =
    wanted.queue === 'Redis' ? await startRedis(['--maxmemory-policy', 'noeviction']) : null;
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-bench-'));
  try {
    await stand.query(recorder);
    return await measureWorkers(stand, redis, folder, wanted);
  } finally {
    await stand.stop();
    await redis?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measureWorkers(
  stand: Stand,
  redis: TestRedis | null,
  folder: string,
  wanted: FleetCase,
) {
  const service = stand.start([fileURLToPath(new URL('stub-service.ts', import.meta.url))]);
  const [line] = await once(service.stdout ?? service, 'data');
  const serviceUrl = new URL(`http://127.0.0.1:${/\d+/.exec(String(line))?.[0]}/`);
  const settings = writeSettings(stand, folder, serviceUrl, wanted.clients);
  const queue: Record<string, string> = redis === null ? {} : { REDIS_URL: redis.url };
  const schedules = makeSchedules(wanted.speed);
  await fillJobs(stand, wanted.clients, schedules);
  const startedAtMs = performance.now();
  const workers = await Promise.all(
    Array.from({ length: wanted.workers }, () =>
      stand.startWorker({ ...schedules, ...queue }, settings),
    ),
  );
  const startMs = performance.now() - startedAtMs;
  const fleet = { workers: workers.map(({ pid }) => pid), service: service.pid, serviceUrl, redis };
  await wait(settleMs);
  const polls = await measurePolls(stand, fleet, wanted.seconds);
  const burst = await measureBurst(stand, fleet);
  const stop = await Promise.all(workers.map(measureStop));
  return { ...wanted, startMs: round(startMs), polls, burst, stopMs: round(Math.max(...stop)) };
}

/**
 * Stores the polls as if workers had kept their schedules until now, so that nothing is late at the
 * start.
 */
async function fillJobs(
  stand: Stand,
  clients: number,
  schedules: Record<string, string>,
): Promise<void> {
  const now = new Date();
  const jobs = Object.entries(polledStreams).flatMap(([job, stream]) => {
    const everyMs = Number.parseInt(schedules[toScheduleVariable(job)] ?? '', 10) * 1_000;
    return Array.from({ length: clients }, (_, index) => {
      const client = `shop-${index + 1}`;
      // From now, a due time within the first tenth of the interval would be skipped.
      const from = new Date(now.getTime() - everyMs / 10);
      const due =
        planNext({ kind: 'every', everyMs }, { client, job }, { kind: 'begin', at: from }) ?? now;
      return { client, job, stream, due, last: new Date(due.getTime() - everyMs) };
    });
  });
  await stand.query(
    `insert into sync.jobs (client, job, stream, next_at, last_started_at, last_finished_at, last_success_at, last_outcome)
     select client, job, stream, due, last, last, last, 'done'
     from jsonb_to_recordset($1) as j (client text, job text, stream text, due timestamptz, last timestamptz)`,
    [JSON.stringify(jobs)],
  );
}

function writeSettings(
  { env }: Stand,
  folder: string,
  url: URL,
  clients: number,
): Record<string, string> {
  const file = join(folder, 'clients.json');
  const entries = Array.from({ length: clients }, (_, index) => ({
    key: `shop-${index + 1}`,
    baseUrl: url.href,
    username: `shop-${index + 1}`,
    password: 'x',
  }));
  writeFileSync(file, JSON.stringify(entries));
  const {
    WAREHOUSE_BASE_URL: _url,
    WAREHOUSE_USERNAME: _user,
    WAREHOUSE_PASSWORD: _password,
    ...rest
  } = env;
  return { ...rest, WAREHOUSE_CLIENTS_FILE: file };
}

/** Makes all polls due at once, and measures how fast the workers run them. */
async function measureBurst(stand: Stand, fleet: FleetProcesses) {
  const [{ at } = { at: null }] = await stand.query<{ at: Date }>(
    `with due as (update sync.jobs set next_at = sync.clock() where stream is not null)
     select clock_timestamp() as at`,
  );
  const before = await readFleetMeter(stand, fleet);
  const startedAtMs = performance.now();
  const countLeft = async () => {
    const [row] = await stand.query<{ n: number }>(
      'select count(*)::int as n from sync.jobs where stream is not null and last_success_at < $1',
      [at],
    );
    return row?.n ?? 0;
  };
  let left = await countLeft();
  while (left > 0 && performance.now() - startedAtMs < burstMs) {
    await wait(500);
    left = await countLeft();
  }
  const after = await readFleetMeter(stand, fleet);
  return { left, ...toRates(before, after, (performance.now() - startedAtMs) / 1_000) };
}

/**
 * Measures polls by their schedules: how late they begin, how old the data is, and what they cost.
 */
async function measurePolls(stand: Stand, fleet: FleetProcesses, seconds: number) {
  const [{ at } = { at: null }] = await stand.query<{ at: Date }>('select clock_timestamp() as at');
  const before = await readFleetMeter(stand, fleet);
  const startedAtMs = performance.now();
  const connections: number[] = [];
  const ages: number[] = [];
  while (performance.now() - startedAtMs < seconds * 1_000) {
    await wait(5_000);
    const [row] = await stand.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name <> 'bench'`,
    );
    connections.push(row?.n ?? 0);
    const found = await stand.query<{ age: number }>(
      `select extract(epoch from clock_timestamp() - last_success_at)::float8 as age from sync.jobs where job = 'pull-shipments'`,
    );
    ages.push(...found.map(({ age }) => age));
  }
  const after = await readFleetMeter(stand, fleet);
  const starts = await stand.query<{ late: number }>(
    'select late_ms as late from bench_starts where at > $1',
    [at],
  );
  const late = starts.map((start) => start.late);
  return {
    lateMs: {
      p50: round(quantile(late, 0.5)),
      p99: round(quantile(late, 0.99)),
      max: round(Math.max(...late)),
    },
    ageOfShipmentsSeconds: { p50: round(quantile(ages, 0.5)), p99: round(quantile(ages, 0.99)) },
    connections: Math.max(...connections),
    memoryMb: fleet.workers.map((pid) => Math.round(readResidentMb(pid))),
    ...toRates(before, after, (performance.now() - startedAtMs) / 1_000),
  };
}

/** Returns what was used per second, and processor times as a share of one core. */
function toRates(before: FleetMeter, after: FleetMeter, seconds: number) {
  const each = (key: keyof FleetMeter, scale = 1) =>
    round((after[key] - before[key]) / seconds / scale);
  return {
    seconds: round(seconds),
    runsPerSecond: each('runs'),
    requestsPerSecond: each('requests'),
    statementsPerSecond: each('statements'),
    redisCommandsPerSecond: each('redisCommands'),
    cores: {
      workers: each('workersCpuMs', 1_000),
      Postgres: each('postgresCpuMs', 1_000),
      Redis: each('redisCpuMs', 1_000),
      service: each('serviceCpuMs', 1_000),
    },
  };
}

async function measureStop(worker: ChildProcess): Promise<number> {
  const startedAtMs = performance.now();
  await endProcess(worker);
  return performance.now() - startedAtMs;
}
