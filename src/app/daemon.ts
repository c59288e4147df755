import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../config/env.ts';
import type { WarehouseClient } from '../../config/files.ts';
import { type JobName, jobNames } from '../../config/schedules.ts';
import { jobs } from '../../jobs/registry.ts';
import { CodedError, StoppedError } from '../core/errors.ts';
import { tryExclusively } from '../erp/exclusive.ts';
import { assertSchemaFits, SchemaError } from '../erp/migrate.ts';
import { ensureJobs } from '../erp/runs.ts';
import { bringForward, databaseNow, dueJobs, reviveAbandoned } from '../erp/schedule.ts';
import type { TaskQueue } from '../queue/backend.ts';
import { jobDataSchema, type QueueName } from '../queue/define-job.ts';
import { dispatch } from '../queue/dispatch.ts';
import { nextDue } from '../queue/next-due.ts';
import { alignSchedulers } from '../queue/schedulers.ts';
import { Sweeper } from '../queue/sweeper.ts';
import {
  connectDatabase,
  openLeaseKeeper,
  openListener,
  openQueueBackend,
  openWarehouses,
  workerName,
} from './deps.ts';
import { errorFields, type Logger } from './log.ts';
import { openPusher } from './pushing.ts';
import { logReachability } from './reachability.ts';
import { repeatedWarnings } from './repeated.ts';
import { type RunnerDeps, runJob } from './runner.ts';
import { version } from './version.ts';

/** Runs of one worker at the same time. */
const concurrency = 8;
/** A tick should have delivered what is due for so long; from then on the sweeper does. */
const overdueMs = 5_000;
/** How long runs may take to end after a stop; their HTTP is called off at once, a page being written is finished. */
const stopWithinMs = 20_000;
/** How long pushes that are under way may take to be answered after a stop; what is not answered by then is unknown. */
const pushWithinMs = 15_000;

/** A worker at work. */
export interface Daemon {
  /** Milliseconds since the last sweep that did all it had to; undefined before the first. */
  readonly sinceLastSweepMs: () => number | undefined;
  /** Settles, with the reason, where this worker must not go on: the database was migrated beyond its code. */
  readonly outdated: Promise<SchemaError>;
  /**
   * Stops claiming, lets the page being written be finished, gives leases back, closes everything.
   * @returns false where that took too long; what is left behind runs out by itself
   */
  readonly stop: () => Promise<boolean>;
}

/**
 * Starts a worker: it runs what is due, sweeps up what the queue lost, and goes on until stopped.
 * @throws SchemaError, QueueSetupError where it must not start
 */
export async function startDaemon(config: Config, databaseUrl: string, log: Logger): Promise<Daemon> {
  const closers: (() => Promise<unknown>)[] = [];
  const opened = <T extends { close: () => Promise<unknown> }>(part: T): T => {
    closers.unshift(() => part.close());
    return part;
  };
  const closeAll = async () => {
    for (const close of closers) await close();
  };
  const background = (work: Promise<unknown>) =>
    void work.catch((error: unknown) => log.error({ event: 'background_failed', ...errorFields(error) }));
  try {
    const { db } = opened(connectDatabase(databaseUrl, log));
    await assertSchemaFits(db, version);
    const { keeper } = opened(openLeaseKeeper(databaseUrl, log));
    const { warehouses } = opened(openWarehouses(config));
    const { backend } = opened(await openQueueBackend(config, databaseUrl, log));
    const worker = workerName();
    const deps: RunnerDeps = { config, db, keeper, warehouses, worker, log, said: new Map() };
    const stopping = new AbortController();
    const pushing = config.pushSweepMs === null ? null : startPushing(deps, databaseUrl);
    if (pushing !== null) closers.unshift(() => pushing.stop());
    const { promise: outdated, resolve: onOutdated } = Promise.withResolvers<SchemaError>();

    const names = [...new Set(jobNames.map((job) => jobs[job].queue))];
    const queues = new Map(names.map((name) => [name, opened(backend.queue(name))]));
    const processor = processorOf(deps, queues, stopping.signal, onOutdated);
    const workers = names.map((name) => opened(backend.worker(name, processor, concurrency)));
    const warn = repeatedWarnings(log);
    for (const part of [...queues.values(), ...workers]) {
      part.on('error', (error) => warn({ event: 'queue_error', ...errorFields(error) }));
    }
    await Promise.all([...queues.values(), ...workers].map((part) => part.waitUntilReady()));
    await prepareSchedules(deps);

    const sweeper = new Sweeper(sweeperTasks(deps, queues));
    closers.unshift(() => sweeper.stop());
    for (const running of workers) background(running.run());
    sweeper.start();
    background(logReachability(warehouses, log, stopping.signal));
    log.info({ event: 'worker_started', version, worker, queue: backend.kind, clients: config.clients.length });
    return {
      outdated,
      sinceLastSweepMs: () => sweeper.sinceLastDoneMs(),
      stop: async () => {
        stopping.abort(new StoppedError());
        // Claims nothing more from now on; it is waited for with the rest.
        background(pushing?.stop() ?? Promise.resolve());
        for (const running of workers) running.cancelAllJobs('stopping');
        const inTime = await Promise.race([closeAll().then(() => true), wait(stopWithinMs, false, { ref: false })]);
        if (inTime) log.info({ event: 'worker_stopped', worker });
        else log.error({ event: 'stop_forced', worker, afterMs: stopWithinMs });
        return inTime;
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

function processorOf(
  deps: RunnerDeps,
  queues: ReadonlyMap<QueueName, TaskQueue>,
  stop: AbortSignal,
  onOutdated: (error: SchemaError) => void,
) {
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
    const report = await runJob(deps, job, client, 'schedule', signal).catch((error: unknown) => {
      // Not a failure of the run, which would be in the ledger: the database could not take its record.
      deps.log.error({ event: 'run_unrecorded', client: key, job, ...errorFields(error) });
      if (error instanceof SchemaError) onOutdated(error);
      throw error;
    });
    // The ledger has the story; BullMQ only shows that it failed.
    if (report.status === 'failed' || report.status === 'lost')
      throw new CodedError('run_failed', `${job}: see sync.runs`);
  };
}

/** Pushes as rows come, told by a notification or found by looking. */
function startPushing(deps: RunnerDeps, databaseUrl: string): { readonly stop: () => Promise<void> } {
  const { pusher, close } = openPusher({ ...deps, databaseUrl });
  const listener = openListener(databaseUrl, 'fulfilment_outbox', () => pusher.wake(), deps.log);
  pusher.start();
  const end = async () => {
    // Side by side: a connection that does not end must not keep the pusher claiming.
    await Promise.all([listener.close(), pusher.stop(pushWithinMs)]);
    await close();
  };
  let ending: Promise<void> | undefined;
  return {
    stop: () => {
      ending ??= end();
      return ending;
    },
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
  const now = await databaseNow(db);
  for (const job of jobNames) {
    const schedule = config.schedules[job];
    // Long work waits for its time: there is nothing to prove before the first load is done.
    const firstDue = jobs[job].queue === 'bulk' ? nextDue(schedule, now) : null;
    await ensureJobs(
      db,
      keysOf(config.clients).map((client) => ({ client, job })),
      firstDue,
    );
    const { kind } = schedule;
    if (kind === 'every' || kind === 'cron') await bringForward(db, job, (now) => nextDue(schedule, now) ?? now);
  }
}

function sweeperTasks(deps: RunnerDeps, queues: ReadonlyMap<QueueName, TaskQueue>) {
  const { config, db, log } = deps;
  return {
    revive: async () => {
      const lost = await reviveAbandoned(db);
      for (const { client, job } of lost) log.warn({ event: 'run_abandoned', client, job });
      // They have waited for a lease's length already.
      if (lost.length > 0) await fanOut(deps, queues, jobNames, { byMs: 0, nowMs: Date.now() });
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
