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
import type { QueueBackend, TaskQueue } from '../../queue/backend.ts';
import type { QueueName } from '../../queue/define-job.ts';
import { RunSlots } from '../../queue/run-slots.ts';
import { Sweeper } from '../../queue/sweeper.ts';
import { connectForWriting, openLeaseKeeper, openListener, workerName } from '../deps/database.ts';
import { openQueueBackend } from '../deps/queue.ts';
import { openWarehouses } from '../deps/warehouses.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';
import type { WorkMetrics } from '../metrics/work-metrics.ts';
import type { Tracing } from '../telemetry/traces.ts';
import { version } from '../version.ts';
import { Closers } from './closers.ts';
import { FigureMaker } from './figure-maker.ts';
import { openAlerter } from './open-alerter.ts';
import { openPusher } from './open-pusher.ts';
import { createProcessor } from './processor.ts';
import { logReachability } from './reachability.ts';
import type { RunnerDeps } from './runner.ts';
import { Schedules } from './schedules.ts';

/** Maximum number of runs of one queue that a worker makes at the same time. */
const concurrency = 8;
/** Maximum milliseconds of a stop. Requests of runs are aborted at once; a page that is being written is finished. */
const stopTimeoutMs = 20_000;
/** Milliseconds that a stop waits for the answers of sent rows. A row without an answer becomes unknown. */
const pushStopTimeoutMs = 15_000;

/** A started worker. */
export interface Daemon {
  /** Returns the milliseconds since the last complete sweep; undefined before the first. */
  readonly sinceLastSweepMs: () => number | undefined;
  /** Resolves with the reason when this worker must not continue, because the database was migrated beyond its code. */
  readonly outdated: Promise<SchemaError>;
  readonly queues: ReadonlyMap<QueueName, TaskQueue>;
  /** Queues the due jobs of a client at once. */
  readonly wakeClient: (client: string) => void;
  /**
   * Stops claiming, finishes the pages that are being written, releases the leases and closes everything.
   * @returns false if that took too long. Leases and claims that are left then expire.
   */
  readonly stop: () => Promise<boolean>;
}

/**
 * Starts a worker. Until it is stopped, it runs due jobs, pushes rows, and queues due jobs again that the queue lost.
 * @throws SchemaError if the schema does not fit this version
 * @throws QueueSetupError if the queue is not set up as it has to be
 */
export async function startDaemon(
  config: Config,
  databaseUrl: string,
  log: Logger,
  metrics: WorkMetrics,
  tracing: Tracing | null,
): Promise<Daemon> {
  const closers = new Closers();
  try {
    const { deps, backend } = await openConnections(closers, { config, databaseUrl, log, metrics, tracing });
    const { queues, schedules, workers, stopping, outdated } = await openQueues(closers, deps, backend);
    await schedules.prepare();
    // Pushing starts after `prepare`, which registers the accounts that the rows belong to.
    const pushing = config.pushSweepMs === null ? null : closers.add(startPushing(deps, databaseUrl, metrics, tracing));
    const sweeper = new Sweeper(schedules.sweeperTasks());
    closers.add({ close: () => sweeper.stop() });
    const { worker, warehouses } = deps;
    for (const running of workers) runInBackground(running.run(), log);
    sweeper.start();
    closers.add(openAlerter(deps, databaseUrl));
    closers.add(new FigureMaker(deps.db, log)).start();
    runInBackground(logReachability(warehouses, log, stopping.signal), log);
    log.info({ event: 'worker_started', version, worker, queue: backend.kind, clients: config.clients.length });
    return {
      outdated,
      queues,
      wakeClient: (client) => schedules.wakeClient(client),
      sinceLastSweepMs: () => sweeper.sinceLastDoneMs(),
      stop: async () => {
        stopping.abort(new StoppedError());
        // From now on nothing is claimed. `closeAll` waits for the end.
        runInBackground(pushing?.close() ?? Promise.resolve(), log);
        for (const running of workers) running.cancelAllJobs('stopping');
        const closing = closers.closeAll().then(() => true);
        const hasStopped = await Promise.race([closing, wait(stopTimeoutMs, false, { ref: false })]);
        if (hasStopped) log.info({ event: 'worker_stopped', worker });
        else log.error({ event: 'stop_forced', worker, afterMs: stopTimeoutMs });
        return hasStopped;
      },
    };
  } catch (error) {
    await closers.closeAll();
    throw error;
  }
}

/** Lets work continue without waiting for it. Logs its error. */
const runInBackground = (work: Promise<unknown>, log: Logger) =>
  void work.catch((error: unknown) => log.error({ event: 'background_failed', ...errorFields(error) }));

/** What the connections of a worker are opened with. */
interface DaemonOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly log: Logger;
  readonly metrics: WorkMetrics;
  readonly tracing: Tracing | null;
}

/** Opens the database, the service of each client and the queue. */
async function openConnections(
  closers: Closers,
  { config, databaseUrl, log, metrics, tracing }: DaemonOptions,
): Promise<{ readonly deps: RunnerDeps; readonly backend: QueueBackend }> {
  const { db } = closers.add(connectForWriting(databaseUrl, log));
  await assertSchemaFits(db, version);
  const { keeper } = closers.add(openLeaseKeeper(databaseUrl, log));
  const { warehouses } = closers.add(
    openWarehouses(config, { log, onExchange: (client, exchange) => metrics.onExchange(client, exchange) }),
  );
  const { backend } = closers.add(await openQueueBackend(config, databaseUrl, log, tracing?.queue));
  const onRun: RunnerDeps['onRun'] = (...run) => metrics.onRun(...run);
  const worker = workerName();
  return { deps: { config, db, keeper, warehouses, worker, log, reportedWarnings: new Map(), onRun }, backend };
}

/** Creates the queues and their workers, and waits until they are ready. No worker runs yet. */
async function openQueues(closers: Closers, deps: RunnerDeps, backend: QueueBackend) {
  const stopping = new AbortController();
  const { promise: outdated, resolve: onOutdated } = Promise.withResolvers<SchemaError>();
  const names = [...new Set(jobNames.map((job) => jobs[job].queue))];
  const queues = new Map(names.map((name) => [name, closers.add(backend.queue(name))]));
  const schedules = new Schedules(deps, queues);
  const workers = names.map((name) => {
    const slots = new RunSlots(concurrency, deps.config.clients.length, name === 'bulk');
    const processor = createProcessor(deps, schedules, slots, stopping.signal, onOutdated);
    return closers.add(backend.worker(name, processor, concurrency));
  });
  const warn = throttleWarnings(deps.log);
  const parts = [...queues.values(), ...workers];
  for (const part of parts) part.on('error', (error) => warn({ event: 'queue_error', ...errorFields(error) }));
  await Promise.all(parts.map((part) => part.waitUntilReady()));
  return { queues, schedules, workers, stopping, outdated };
}

/** Starts pushing. A notification of the database, or a periodic sweep, finds the rows. */
function startPushing(
  deps: RunnerDeps,
  databaseUrl: string,
  metrics: WorkMetrics,
  tracing: Tracing | null,
): { readonly close: () => Promise<void> } {
  const { pusher, close } = openPusher({
    ...deps,
    databaseUrl,
    onSettled: (settlement, kind) => metrics.onSettled(settlement, kind),
    spans: tracing?.push,
  });
  const listener = openListener(databaseUrl, 'fulfilment_outbox', (payload) => void pusher.wakeFor(payload), deps.log);
  pusher.start();
  const end = async () => {
    // At the same time: if the listener does not close, the pusher must stop claiming anyway.
    await Promise.all([listener.close(), pusher.stop(pushStopTimeoutMs)]);
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
