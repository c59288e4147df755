import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../config/env.ts';
import type { WarehouseClient } from '../../config/files.ts';
import { type JobName, jobNames } from '../../config/schedules.ts';
import { jobs } from '../../jobs/registry.ts';
import { CodedError, StoppedError } from '../core/errors.ts';
import { tryExclusively } from '../erp/exclusive.ts';
import { assertSchemaFits } from '../erp/migrate.ts';
import { ensureJobs } from '../erp/runs.ts';
import { bringForward, dueJobs, reviveAbandoned } from '../erp/schedule.ts';
import type { TaskQueue, TaskWorker } from '../queue/backend.ts';
import { jobDataSchema, type QueueName } from '../queue/define-job.ts';
import { dispatch } from '../queue/dispatch.ts';
import { nextDue } from '../queue/next-due.ts';
import { alignSchedulers } from '../queue/schedulers.ts';
import { Sweeper } from '../queue/sweeper.ts';
import { connectDatabase, openLeaseKeeper, openQueueBackend, openWarehouses, workerName } from './deps.ts';
import { errorFields, type Logger } from './log.ts';
import { logReachability } from './reachability.ts';
import { type RunnerDeps, runJob } from './runner.ts';
import { version } from './version.ts';

/** Runs of one worker at the same time. */
const concurrency = 8;
/** A tick should have delivered what is due for so long; from then on the sweeper does. */
const overdueMs = 5_000;
/** How long runs may take to end after a stop; their HTTP is called off at once, a page being written is finished. */
const stopWithinMs = 20_000;

/** A worker at work. */
export interface Daemon {
  /** Milliseconds since the last sweep that did all it had to; undefined before the first. */
  readonly sinceLastSweepMs: () => number | undefined;
  /** Stops claiming, lets the page being written be finished, gives leases back, closes everything. */
  readonly stop: () => Promise<void>;
}

/**
 * Starts a worker: it runs what is due, sweeps up what the queue lost, and goes on until stopped.
 * @throws SchemaError, QueueSetupError where it must not start
 */
export async function startDaemon(config: Config, databaseUrl: string, log: Logger): Promise<Daemon> {
  const closers: (() => Promise<void>)[] = [];
  const opened = <T extends { close: () => Promise<void> }>(part: T): T => {
    closers.unshift(part.close);
    return part;
  };
  const closeAll = async () => {
    for (const close of closers) await close();
  };
  try {
    const { db } = opened(connectDatabase(databaseUrl, log));
    await assertSchemaFits(db, version);
    const { keeper } = opened(openLeaseKeeper(databaseUrl, log));
    const { warehouses } = opened(openWarehouses(config));
    const { backend } = opened(await openQueueBackend(config, databaseUrl, log));
    const worker = workerName();
    const deps: RunnerDeps = { config, db, keeper, warehouses, worker, log, said: new Map() };
    const stopping = new AbortController();

    const names = [...new Set(jobNames.map((job) => jobs[job].queue))];
    const queues = new Map(names.map((name) => [name, backend.queue(name)]));
    const workers = names.map((name) => backend.worker(name, processorOf(deps, queues, stopping.signal), concurrency));
    for (const part of [...queues.values(), ...workers]) {
      part.on('error', (error) => log.warn({ event: 'queue_error', ...errorFields(error) }));
    }
    await Promise.all([...queues.values(), ...workers].map((part) => part.waitUntilReady()));
    await prepareSchedules(deps);

    const sweeper = new Sweeper(sweeperTasks(deps, queues));
    for (const running of workers) void running.run();
    sweeper.start();
    void logReachability(warehouses, log, stopping.signal);
    log.info({ event: 'worker_started', version, worker, queue: backend.kind, clients: config.clients.length });
    return {
      sinceLastSweepMs: () => sweeper.sinceLastDoneMs(),
      stop: async () => {
        await sweeper.stop();
        stopping.abort(new StoppedError());
        await closeWorkers(workers, log);
        await Promise.all([...queues.values()].map((queue) => queue.close()));
        await closeAll();
        log.info({ event: 'worker_stopped', worker });
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function closeWorkers(workers: readonly TaskWorker[], log: Logger): Promise<void> {
  for (const running of workers) running.cancelAllJobs('stopping');
  const closed = Promise.all(workers.map((running) => running.close())).then(() => true);
  const inTime = await Promise.race([closed, wait(stopWithinMs, false, { ref: false })]);
  if (inTime) return;
  log.warn({ event: 'stop_forced', afterMs: stopWithinMs });
  await Promise.all(workers.map((running) => running.close(true)));
}

function processorOf(deps: RunnerDeps, queues: ReadonlyMap<QueueName, TaskQueue>, stop: AbortSignal) {
  const clients = new Map(deps.config.clients.map((client) => [client.key, client]));
  return async (
    { name, data }: { name: string; data: unknown },
    _token: unknown,
    cancelled: AbortSignal | undefined,
  ) => {
    const job = jobNames.find((known) => known === name);
    // Queued by a newer version, or an older one: theirs to run.
    if (job === undefined) return;
    const { client: key } = jobDataSchema.parse(data);
    if (key === undefined) return fanOut(deps, queues, [job]);
    const client = clients.get(key);
    if (client === undefined) return;
    const signal = cancelled === undefined ? stop : AbortSignal.any([stop, cancelled]);
    const report = await runJob(deps, job, client, 'schedule', signal);
    // The ledger has the story; BullMQ only shows that it failed.
    if (report.status === 'failed' || report.status === 'lost')
      throw new CodedError('run_failed', `${job}: see sync.runs`);
  };
}

/** Queues a run for every client that is due. */
async function fanOut(
  { config, db }: RunnerDeps,
  queues: ReadonlyMap<QueueName, TaskQueue>,
  names: readonly JobName[],
  overdue?: { readonly byMs: number; readonly nowMs: number },
): Promise<void> {
  const enabled = names.filter((job) => config.schedules[job].kind !== 'off');
  const due = await dueJobs(db, enabled, keysOf(config.clients), overdue?.byMs);
  for (const job of enabled) {
    const queue = queues.get(jobs[job].queue);
    const clients = due.filter((entry) => entry.job === job).map(({ client }) => client);
    if (queue !== undefined) await dispatch(queue, job, clients, overdue?.nowMs);
  }
}

const keysOf = (clients: readonly WarehouseClient[]) => clients.map(({ key }) => key);

/** Every (client, job) gets its due row; a schedule that was shortened takes effect at once. */
async function prepareSchedules({ config, db }: RunnerDeps): Promise<void> {
  await ensureJobs(
    db,
    jobNames.flatMap((job) => keysOf(config.clients).map((client) => ({ client, job }))),
  );
  for (const job of jobNames) {
    const schedule = config.schedules[job];
    if (schedule.kind !== 'off') await bringForward(db, job, (now) => nextDue(schedule, now) ?? now);
  }
}

function sweeperTasks(deps: RunnerDeps, queues: ReadonlyMap<QueueName, TaskQueue>) {
  const { config, db, log } = deps;
  return {
    revive: async () => {
      for (const { client, job } of await reviveAbandoned(db)) log.warn({ event: 'run_abandoned', client, job });
    },
    dispatchOverdue: () => fanOut(deps, queues, jobNames, { byMs: overdueMs, nowMs: Date.now() }),
    align: async () => {
      // One registrar at a time; who does not get the lock leaves it to whoever has it.
      await tryExclusively(db, 'schedulers', async () => {
        for (const [name, queue] of queues) {
          const plan = jobNames
            .filter((job) => jobs[job].queue === name)
            .map((job) => ({ job, schedule: config.schedules[job] }));
          const { set, removed } = await alignSchedulers(queue, plan, version);
          if (set.length + removed.length > 0) log.info({ event: 'schedulers_aligned', queue: name, set, removed });
        }
      });
    },
    onError: (task: string, error: unknown) => log.warn({ event: 'sweep_failed', task, ...errorFields(error) }),
  };
}
