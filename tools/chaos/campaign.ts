import { setTimeout as wait } from 'node:timers/promises';
import { silentLogger } from '../../src/core/logger.ts';
import { connectDatabase } from '../../src/db/connect.ts';
import { deriveSeed, Random } from '../../src/sandbox/random.ts';
import { ageAbsencesSql } from '../../test/helpers/campaigns/belief.ts';
import { compareWithSandbox } from '../../test/helpers/oracle.ts';
import { waitFor } from '../../test/helpers/wait.ts';
import { countOrders, findCursorsAhead, findProblemsAtRest, watchTables } from './invariants.ts';
import { Load } from './load.ts';
import type { Servers } from './servers.ts';
import { type Fault, Stage, workersAtATime } from './stage.ts';

/** The result of one campaign. */
export interface CampaignResult {
  readonly fault: string;
  readonly seed: number;
  readonly queue: 'postgres' | 'redis';
  readonly strikes: number;
  readonly orders: number;
  readonly runs: number;
  readonly lost: number;
  readonly doubled: number;
  /**
   * Time from the end of all faults until every table equals the service and every job has
   * succeeded; null if that takes too long.
   */
  readonly recoveredMs: number | null;
  /** Time from the end of all faults until no order is open; null if that takes too long. */
  readonly settledMs: number | null;
  /** Largest resident memory of a worker before and after the campaign, in MB. */
  readonly memoryMb: readonly [number, number];
  /**
   * Connections of the workers to Postgres, Redis and the service, before and after the campaign.
   */
  readonly connections: readonly [readonly number[], readonly number[]];
  readonly problems: readonly string[];
  /** Everything that the workers wrote; empty without problems. */
  readonly output: string;
}

export interface CampaignOptions {
  /** How long faults strike. */
  readonly lastsMs: number;
  /** True: waits the real time until an absence is believed. False: sets the stored times back. */
  readonly patient: boolean;
}

/**
 * How long tables may differ and orders may be open after the end of all faults. Without a later
 * order, an absence is believed after five minutes (docs/outbox.md).
 */
const deadlineMs = 480_000;
/**
 * How much the memory of a worker may grow: a heap that was larger for a while keeps some pages.
 */
const memorySlackMb = 120;
/**
 * Maximum number of connections of one worker to Postgres (docs/operations.md). Unused ones close
 * only after a minute.
 */
const postgresConnections = 30;
/**
 * How many more connections all workers may have to Redis and the service after a campaign: idle
 * ones close later.
 */
const [redisSlack, serviceSlack] = [2, 32];

/**
 * Chooses the queue of a campaign: Redis and Postgres take turns, unless the fault needs one of
 * them.
 */
export function chooseQueue(fault: Fault, seed: number): CampaignResult['queue'] {
  return fault.queue ?? (seed % 2 === 0 ? 'redis' : 'postgres');
}

/**
 * Plays one campaign: a shop and a warehouse work while a fault strikes again and again. Then ends
 * the fault, measures the recovery, and checks the invariants.
 */
export async function play(
  servers: Servers,
  fault: Fault,
  seed: number,
  options: CampaignOptions,
): Promise<CampaignResult> {
  const queue = chooseQueue(fault, seed);
  const stage = await Stage.open(seed, servers, { queue, onSmallDisk: fault.onSmallDisk ?? false });
  const problems: string[] = [];
  const recordFailure: FailureRecorder = (work) =>
    work.catch((error: unknown) => {
      problems.push(error instanceof Error ? error.message : String(error));
      return null;
    });
  const { db, close } = connectDatabase(stage.parts.database.superUrl, silentLogger, {
    name: 'chaos',
    max: 2,
  });
  try {
    await watchTables(stage);
    await stage.startWorkers();
    const readDifferences = async () => {
      const found = await compareWithSandbox(db, stage.parts.sandbox.url).catch((error: Error) => [
        error.message,
      ]);
      // A comparison is expensive, so callers that poll are slowed down.
      if (found.length > 0) await wait(500);
      return found;
    };
    await waitFor('the first load', async () => (await readDifferences()).length === 0);
    const before = { memory: stage.readMaxMemoryMb(), connections: stage.connections };
    const load = new Load(stage, new Random(deriveSeed(seed, 'load')));
    const [strikes] = await Promise.all([
      strike(stage, fault, options.lastsMs),
      load.run(options.lastsMs),
      watchCursors(stage, options.lastsMs, problems),
    ]);
    const { recoveredMs, settledMs } = await measureRecovery(
      stage,
      recordFailure,
      readDifferences,
      options.patient,
    );
    // Orders that settle after that comparison appear in the tables a moment later.
    await recordFailure(
      waitFor(
        'the tables to equal the service',
        async () => (await readDifferences()).length === 0,
      ),
    );
    problems.push(...(await readDifferences()).slice(0, 5));
    const [, redisBefore, serviceBefore] = before.connections;
    const allowed = [
      workersAtATime * postgresConnections,
      redisBefore + redisSlack,
      serviceBefore + serviceSlack,
    ];
    const haveClosed = () =>
      stage.connections.every((count, index) => count <= (allowed[index] ?? 0));
    await recordFailure(waitFor(`at most ${allowed.join(', ')} connections`, haveClosed));
    const after = { memory: stage.readMaxMemoryMb(), connections: stage.connections };
    if (after.memory > before.memory + memorySlackMb)
      problems.push(`memory grew by ${after.memory - before.memory} MB`);
    stage.restartEndedWorkers();
    problems.push(...stage.fallen.map((end) => `a worker ended by itself with ${end}`));
    problems.push(...(await stage.stopWorkers(25_000)), ...(await findProblemsAtRest(stage)));
    const { lost, doubled, problems: orderProblems } = await countOrders(stage, load.orders);
    problems.push(...orderProblems);
    const [row] = await stage.query<{ runs: number }>(
      `select (select count(*) from sync.runs)::int + (select coalesce(sum(uneventful_runs), 0) from sync.jobs)::int as runs`,
    );
    return {
      fault: fault.name,
      seed,
      queue,
      strikes,
      orders: load.orders,
      runs: row?.runs ?? 0,
      lost,
      doubled,
      recoveredMs,
      settledMs,
      memoryMb: [Math.round(before.memory), Math.round(after.memory)],
      connections: [before.connections, after.connections],
      problems,
      output: problems.length === 0 ? '' : stage.output,
    };
  } finally {
    await close();
    await stage.close();
  }
}

/** A function that waits for work. If the work fails, it records a problem and returns null. */
type FailureRecorder = <T>(work: Promise<T>) => Promise<T | null>;

/**
 * Ends all faults, and measures how long the tables and the outbox then take to recover; null if
 * they take too long.
 */
async function measureRecovery(
  stage: Stage,
  recordFailure: FailureRecorder,
  differences: () => Promise<string[]>,
  patient: boolean,
): Promise<Pick<CampaignResult, 'recoveredMs' | 'settledMs'>> {
  await endFaults(stage);
  const endedMs = performance.now();
  const measureUntil = (what: Promise<unknown>) =>
    recordFailure(what.then(() => Math.round(performance.now() - endedMs)));
  const [recoveredMs, settledMs] = await Promise.all([
    measureUntil(waitForRecovery(stage, differences)),
    measureUntil(waitForSettling(stage, patient)),
  ]);
  return { recoveredMs, settledMs };
}

/** Lets the fault strike at random moments until the time is up. Returns the number of strikes. */
async function strike(stage: Stage, fault: Fault, lastsMs: number): Promise<number> {
  const endMs = performance.now() + lastsMs;
  let strikes = 0;
  while (performance.now() < endMs) {
    await wait(stage.random.between(100, 1_500));
    await fault.strike(stage);
    strikes++;
  }
  return strikes;
}

/** Checks every 200 ms, also during faults, that no cursor is ahead of its rows. */
async function watchCursors(stage: Stage, lastsMs: number, problems: string[]): Promise<void> {
  const endMs = performance.now() + lastsMs;
  while (performance.now() < endMs) {
    // If the database is away, nothing can be checked.
    problems.push(...(await findCursorsAhead(stage).catch(() => [])));
    await wait(200);
  }
}

/** Ends all faults. Leaves everything that the workers must repair by themselves. */
async function endFaults(stage: Stage): Promise<void> {
  const { proxies, sandbox } = stage.parts;
  for (const proxy of Object.values(proxies)) {
    proxy.set({ kind: 'fair' });
    proxy.forgetLost();
  }
  await sandbox.clearFaults();
  for (const worker of stage.workers) worker.kill('SIGCONT');
  stage.restartEndedWorkers();
}

/**
 * Waits until every job of every client has succeeded once more, and every table equals the
 * service.
 */
async function waitForRecovery(stage: Stage, differences: () => Promise<string[]>): Promise<void> {
  const [now] = await stage.query<{ at: Date }>('select clock_timestamp() as at');
  let found: string[] = [];
  const late = `select client || ' ' || job as job from sync.jobs
    where (stream is not null or job = 'reconcile') and coalesce(last_success_at, '-infinity') < $1`;
  try {
    await waitFor(
      'it to recover',
      async () => {
        const behind = await stage.query<{ job: string }>(late, [now?.at]);
        found =
          behind.length > 0
            ? behind.map(({ job }) => `${job} has not succeeded`)
            : await differences();
        return found.length === 0;
      },
      deadlineMs,
    );
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${words}: ${found.slice(0, 5).join('; ')}`, { cause });
  }
}

/** Waits until no order is open. */
async function waitForSettling(stage: Stage, patient: boolean): Promise<void> {
  const open = `select from fulfilment.outbox
    where status in ('pending', 'sending') or (status = 'unknown' and next_attempt_at is not null) limit 1`;
  await waitFor(
    'the orders to be settled',
    async () => {
      if ((await stage.query(open)).length === 0) return true;
      if (!patient) await stage.query(ageAbsencesSql);
      await wait(patient ? 250 : 1_000);
      return false;
    },
    deadlineMs,
  );
}
