/**
 * The worker: it runs due jobs, pushes rows, and finds runs that other workers left behind. All of its state that
 * matters is in Postgres.
 */

import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { StoppedError } from '../../core/errors.ts';
import type { SchemaError } from '../../erp/schema/migration-files.ts';
import { assertSchemaFits } from '../../erp/schema/schema-fit.ts';
import type { QueueBackend, QueueTelemetry, TaskQueue } from '../../queue/backend.ts';
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
import { Closers } from './closers.ts';
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
 * Starts a worker. It runs due jobs and queues again what the queue has lost, until it is stopped.
 * @throws SchemaError, QueueSetupError where it must not start
 */
export async function startDaemon(
  config: Config,
  databaseUrl: string,
  log: Logger,
  metrics: WorkMetrics,
  telemetry?: QueueTelemetry,
): Promise<Daemon> {
  const closers = new Closers();
  try {
    const { deps, backend } = await openConnections(closers, { config, databaseUrl, log, metrics, telemetry });
    const { queues, schedules, workers, stopping, outdated } = await openQueues(closers, deps, backend);
    await schedules.prepare();
    // Not before it is known whose rows they are.
    const pushing = config.pushSweepMs === null ? null : closers.add(startPushing(deps, databaseUrl, metrics));
    const sweeper = new Sweeper(schedules.sweeperTasks());
    closers.add({ close: () => sweeper.stop() });
    const { worker, warehouses } = deps;
    for (const running of workers) inBackground(running.run(), log);
    sweeper.start();
    inBackground(logReachability(warehouses, log, stopping.signal), log);
    log.info({ event: 'worker_started', version, worker, queue: backend.kind, clients: config.clients.length });
    return {
      outdated,
      queues,
      wakeClient: (client) => schedules.wakeClient(client),
      sinceLastSweepMs: () => sweeper.sinceLastDoneMs(),
      stop: async () => {
        stopping.abort(new StoppedError());
        // Claims nothing more from now on; it is waited for with the rest.
        inBackground(pushing?.close() ?? Promise.resolve(), log);
        for (const running of workers) running.cancelAllJobs('stopping');
        const closing = closers.closeAll().then(() => true);
        const inTime = await Promise.race([closing, wait(stopWithinMs, false, { ref: false })]);
        if (inTime) log.info({ event: 'worker_stopped', worker });
        else log.error({ event: 'stop_forced', worker, afterMs: stopWithinMs });
        return inTime;
      },
    };
  } catch (error) {
    await closers.closeAll();
    throw error;
  }
}

const inBackground = (work: Promise<unknown>, log: Logger) =>
  void work.catch((error: unknown) => log.error({ event: 'background_failed', ...errorFields(error) }));

interface DaemonOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly log: Logger;
  readonly metrics: WorkMetrics;
  readonly telemetry: QueueTelemetry | undefined;
}

/** Opens the database, the service of each client and the queue. */
async function openConnections(
  closers: Closers,
  { config, databaseUrl, log, metrics, telemetry }: DaemonOptions,
): Promise<{ readonly deps: RunnerDeps; readonly backend: QueueBackend }> {
  const { db } = closers.add(connectForWriting(databaseUrl, log));
  await assertSchemaFits(db, version);
  const { keeper } = closers.add(openLeaseKeeper(databaseUrl, log));
  const { warehouses } = closers.add(
    openWarehouses(config, (client, exchange) => metrics.onExchange(client, exchange)),
  );
  const { backend } = closers.add(await openQueueBackend(config, databaseUrl, log, telemetry));
  const onRun: RunnerDeps['onRun'] = (...run) => metrics.onRun(...run);
  const worker = workerName();
  return { deps: { config, db, keeper, warehouses, worker, log, said: new Map(), onRun }, backend };
}

/** Makes the queues and their workers, and waits until they are ready. No worker runs yet. */
async function openQueues(closers: Closers, deps: RunnerDeps, backend: QueueBackend) {
  const stopping = new AbortController();
  const { promise: outdated, resolve: onOutdated } = Promise.withResolvers<SchemaError>();
  const names = [...new Set(jobNames.map((job) => jobs[job].queue))];
  const queues = new Map(names.map((name) => [name, closers.add(backend.queue(name))]));
  const schedules = new Schedules(deps, queues);
  const workers = names.map((name) => {
    const slots = new RunSlots(concurrency, deps.config.clients.length, name === 'bulk');
    const processor = processorOf(deps, schedules, slots, stopping.signal, onOutdated);
    return closers.add(backend.worker(name, processor, concurrency));
  });
  const warn = repeatedWarnings(deps.log);
  const parts = [...queues.values(), ...workers];
  for (const part of parts) part.on('error', (error) => warn({ event: 'queue_error', ...errorFields(error) }));
  await Promise.all(parts.map((part) => part.waitUntilReady()));
  return { queues, schedules, workers, stopping, outdated };
}

/** Pushes as rows come, told by a notification or found by looking. */
function startPushing(
  deps: RunnerDeps,
  databaseUrl: string,
  metrics: WorkMetrics,
): { readonly close: () => Promise<void> } {
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
    close: () => {
      ending ??= end();
      return ending;
    },
  };
}
