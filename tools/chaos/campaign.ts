import { setTimeout as wait } from 'node:timers/promises';
import { compareWithSandbox } from '../../src/app/demo/oracle.ts';
import { connectDatabase } from '../../src/app/deps/database.ts';
import { silentLogger } from '../../src/app/logging/logger.ts';
import { Random, seedFor } from '../../src/sandbox/random.ts';
import { beliefBroughtAbout } from '../../test/helpers/campaigns/belief.ts';
import { waitFor } from '../../test/helpers/wait.ts';
import type { Fault } from './fault.ts';
import { countOrders, cursorsAhead, problemsAtRest, watchTables } from './invariants.ts';
import { Load } from './load.ts';
import type { Servers } from './servers.ts';
import { Stage } from './stage.ts';

/** What came of one campaign. */
export interface Outcome {
  readonly fault: string;
  readonly seed: number;
  readonly queue: 'postgres' | 'redis';
  readonly strikes: number;
  readonly orders: number;
  readonly runs: number;
  readonly lost: number;
  readonly doubled: number;
  /** From the last mending until every table equalled the service and every job had succeeded; null where it never was so. */
  readonly recoveredMs: number | null;
  /** Until the last order was certain. */
  readonly settledMs: number | null;
  /** Most resident memory of a worker before and after, in MB. */
  readonly memoryMb: readonly [number, number];
  /** Of workers to Postgres, Redis and the service, before and after. */
  readonly connections: readonly [readonly number[], readonly number[]];
  readonly problems: readonly string[];
  /** What the workers wrote, where something was wrong. */
  readonly output: string;
}

export interface CampaignOptions {
  /** How long it is worked under strikes. */
  readonly lastsMs: number;
  /** Whether the time that an absence needs to be believed is waited for, or brought about by hand. */
  readonly patient: boolean;
}

/** How long tables may differ, and orders be open, once nothing is broken any more. */
const deadlineMs = 150_000;
/** What a worker may hold more than before: pages of a heap that was larger for a while. */
const memorySlackMb = 120;
/** And all of them: connections to Postgres, Redis and the service that were not idle for long enough to be closed. */
const connectionSlack = [8, 2, 32];

/** Where a campaign keeps its queue: both in turn, unless the fault is one of Redis. */
export function queueOf(fault: Fault, seed: number): Outcome['queue'] {
  return fault.queue ?? (seed % 2 === 0 ? 'redis' : 'postgres');
}

/** Plays one campaign: a shop and a warehouse at work, something that breaks again and again, and what is left in the end. */
export async function play(servers: Servers, fault: Fault, seed: number, options: CampaignOptions): Promise<Outcome> {
  const queue = queueOf(fault, seed);
  const stage = await Stage.open(seed, servers, { queue, onSmallDisk: fault.onSmallDisk ?? false });
  const problems: string[] = [];
  const attempt: Attempt = (work) =>
    work.catch((error: unknown) => {
      problems.push(error instanceof Error ? error.message : String(error));
      return null;
    });
  const { db, close } = connectDatabase(stage.parts.database.superUrl, silentLogger, 'chaos', 2);
  try {
    await watchTables(stage);
    await stage.startWorkers();
    const differences = async () => {
      const found = await compareWithSandbox(db, stage.parts.sandbox.url).catch((error: Error) => [error.message]);
      // It is no small thing to ask for: whoever waits for there to be none asks no more often than this.
      if (found.length > 0) await wait(500);
      return found;
    };
    await waitFor('the first load', async () => (await differences()).length === 0, 120_000);
    const before = { memory: stage.mostMemoryMb(), connections: stage.connections };
    const load = new Load(stage, new Random(seedFor(seed, 'load')));
    const [strikes] = await Promise.all([
      strike(stage, fault, options.lastsMs),
      load.run(options.lastsMs),
      watchCursors(stage, options.lastsMs, problems),
    ]);
    const { recoveredMs, settledMs } = await recover(stage, attempt, differences, options.patient);
    // Orders that were settled after the tables equalled show in them a moment later.
    await attempt(waitFor('the tables to equal the service', async () => (await differences()).length === 0));
    problems.push(...(await differences()).slice(0, 5));
    const most = before.connections.map((count, index) => count + (connectionSlack[index] ?? 0));
    const areBack = () => stage.connections.every((count, index) => count <= (most[index] ?? 0));
    await attempt(waitFor(`at most ${most.join(', ')} connections`, areBack, 90_000));
    const after = { memory: stage.mostMemoryMb(), connections: stage.connections };
    if (after.memory > before.memory + memorySlackMb)
      problems.push(`memory grew by ${after.memory - before.memory} MB`);
    stage.restartFallen();
    problems.push(...stage.fallen.map((end) => `a worker ended by itself with ${end}`));
    problems.push(...(await stage.stopWorkers(25_000)), ...(await problemsAtRest(stage)));
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

/** Waits for work. A failure is noted as a problem, and the result is null. */
type Attempt = <T>(work: Promise<T>) => Promise<T | null>;

/** Ends what is broken. Measures how long the tables and the outbox take from then; null if they take too long. */
async function recover(
  stage: Stage,
  attempt: Attempt,
  differences: () => Promise<string[]>,
  patient: boolean,
): Promise<Pick<Outcome, 'recoveredMs' | 'settledMs'>> {
  await mend(stage);
  const mendedMs = performance.now();
  const since = (what: Promise<unknown>) => attempt(what.then(() => Math.round(performance.now() - mendedMs)));
  const [recoveredMs, settledMs] = await Promise.all([
    since(recovered(stage, differences)),
    since(settled(stage, patient)),
  ]);
  return { recoveredMs, settledMs };
}

/** Breaks it at random moments, until the time is up. */
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

/** Looks again and again, also in the middle of everything, whether a cursor has gone ahead of its rows. */
async function watchCursors(stage: Stage, lastsMs: number, problems: string[]): Promise<void> {
  const endMs = performance.now() + lastsMs;
  while (performance.now() < endMs) {
    // Where the database is away there is nothing to see.
    problems.push(...(await cursorsAhead(stage).catch(() => [])));
    await wait(200);
  }
}

/** Makes everything whole again but what the workers themselves have to. */
async function mend(stage: Stage): Promise<void> {
  const { proxies, sandbox } = stage.parts;
  for (const proxy of Object.values(proxies)) {
    proxy.set({ kind: 'fair' });
    proxy.forgetLost();
  }
  await sandbox.clearFaults();
  for (const worker of stage.workers) worker.kill('SIGCONT');
  stage.restartFallen();
}

/** Every job of every client has succeeded since, and every table equals the service. */
async function recovered(stage: Stage, differences: () => Promise<string[]>): Promise<void> {
  const [now] = await stage.query<{ at: Date }>('select clock_timestamp() as at');
  let found: string[] = [];
  const late = `select client || ' ' || job as job from sync.jobs
    where (stream is not null or job = 'reconcile') and coalesce(last_success_at, '-infinity') < $1`;
  try {
    await waitFor(
      'it to recover',
      async () => {
        const behind = await stage.query<{ job: string }>(late, [now?.at]);
        found = behind.length > 0 ? behind.map(({ job }) => `${job} has not succeeded`) : await differences();
        return found.length === 0;
      },
      deadlineMs,
    );
  } catch (cause) {
    const words = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${words}: ${found.slice(0, 5).join('; ')}`, { cause });
  }
}

/** No order is open. */
async function settled(stage: Stage, patient: boolean): Promise<void> {
  const open = `select from fulfilment.outbox
    where status in ('pending', 'sending') or (status = 'unknown' and next_attempt_at is not null) limit 1`;
  await waitFor(
    'the orders to be settled',
    async () => {
      if ((await stage.query(open)).length === 0) return true;
      if (!patient) await stage.query(beliefBroughtAbout);
      await wait(patient ? 250 : 1_000);
      return false;
    },
    deadlineMs,
  );
}
