import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { StoppedError } from '../../core/errors.ts';
import type { SchemaError } from '../../erp/schema/migration-files.ts';
import { assertSchemaFits } from '../../erp/schema/schema-fit.ts';
import type { QueueTelemetry, TaskQueue } from '../../queue/backend.ts';
import type { QueueName } from '../../queue/define-job.ts';
import { RunSlots } from '../../queue/run-slots.ts';
import { Sweeper } from '../../queue/sweeper.ts';
import { connectForWriting, openLeaseKeeper, openListener, workerName } from '../deps/database.ts';
import { openQueueBackend } from '../deps/queue.ts';
import { openWarehouses } from '../deps/warehouses.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { repeatedWarnings } from '../logging/repeated.ts';
import type { WorkMetrics } from '../metrics/work-metrics.ts';
import { version } from '../version.ts';
import { processorOf } from './processor.ts';
import { openPusher } from './pushing.ts';
import { logReachability } from './reachability.ts';
import type { RunnerDeps } from './runner.ts';
import { Schedules } from './schedules.ts';

/** Runs of one worker at the same time. */
const concurrency = 8;
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
  readonly queues: ReadonlyMap<QueueName, TaskQueue>;
  /** Queues at once what is due of a client. */
  readonly wakeClient: (client: string) => void;
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
export async function startDaemon(
  config: Config,
  databaseUrl: string,
  log: Logger,
  metrics: WorkMetrics,
  telemetry?: QueueTelemetry,
): Promise<Daemon> {
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
    const { db } = opened(connectForWriting(databaseUrl, log));
    await assertSchemaFits(db, version);
    const { keeper } = opened(openLeaseKeeper(databaseUrl, log));
    const { warehouses } = opened(openWarehouses(config, (client, exchange) => metrics.onExchange(client, exchange)));
    const { backend } = opened(await openQueueBackend(config, databaseUrl, log, telemetry));
    const worker = workerName();
    const onRun: RunnerDeps['onRun'] = (...run) => metrics.onRun(...run);
    const deps: RunnerDeps = { config, db, keeper, warehouses, worker, log, said: new Map(), onRun };
    const stopping = new AbortController();
    const { promise: outdated, resolve: onOutdated } = Promise.withResolvers<SchemaError>();

    const names = [...new Set(jobNames.map((job) => jobs[job].queue))];
    const queues = new Map(names.map((name) => [name, opened(backend.queue(name))]));
    const schedules = new Schedules(deps, queues);
    const workers = names.map((name) => {
      const slots = new RunSlots(concurrency, config.clients.length, name === 'bulk');
      return opened(
        backend.worker(name, processorOf(deps, schedules, slots, stopping.signal, onOutdated), concurrency),
      );
    });
    const warn = repeatedWarnings(log);
    for (const part of [...queues.values(), ...workers]) {
      part.on('error', (error) => warn({ event: 'queue_error', ...errorFields(error) }));
    }
    await Promise.all([...queues.values(), ...workers].map((part) => part.waitUntilReady()));
    await schedules.prepare();
    // Not before it is known whose rows they are.
    const pushing = config.pushSweepMs === null ? null : startPushing(deps, databaseUrl, metrics);
    if (pushing !== null) closers.unshift(() => pushing.stop());

    const sweeper = new Sweeper(schedules.sweeperTasks());
    closers.unshift(() => sweeper.stop());
    for (const running of workers) background(running.run());
    sweeper.start();
    background(logReachability(warehouses, log, stopping.signal));
    log.info({ event: 'worker_started', version, worker, queue: backend.kind, clients: config.clients.length });
    return {
      outdated,
      queues,
      wakeClient: (client) => schedules.wakeClient(client),
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

/** Pushes as rows come, told by a notification or found by looking. */
function startPushing(
  deps: RunnerDeps,
  databaseUrl: string,
  metrics: WorkMetrics,
): { readonly stop: () => Promise<void> } {
  const { pusher, close } = openPusher({
    ...deps,
    databaseUrl,
    onSettled: (settlement, kind) => metrics.onSettled(settlement, kind),
  });
  const listener = openListener(databaseUrl, 'fulfilment_outbox', (payload) => void pusher.wakeFor(payload), deps.log);
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
