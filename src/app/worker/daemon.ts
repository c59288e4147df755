/**
 * The worker: it runs due jobs, pushes rows, and finds runs that other workers left behind. All of its state that
 * matters is in Postgres.
 */

import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { jobNames } from '../../../config/jobs.ts';
import type { ClientPart, SettingsChanges } from '../../../config/settings/changes.ts';
import { jobs } from '../../../jobs/registry.ts';
import { StoppedError } from '../../core/errors.ts';
import type { SchemaError } from '../../erp/schema/migration-files.ts';
import { assertSchemaFits } from '../../erp/schema/schema-fit.ts';
import type { QueueBackend, TaskQueue } from '../../queue/backend.ts';
import type { QueueName } from '../../queue/define-job.ts';
import { RunSlots } from '../../queue/run-slots.ts';
import { Sweeper } from '../../queue/sweeper.ts';
import { connectForWriting, openLeaseKeeper, workerName } from '../deps/database.ts';
import { openQueueBackend } from '../deps/queue.ts';
import { type OpenWarehouses, openWarehouses } from '../deps/warehouses.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';
import { version } from '../version.ts';
import { AccountStops } from './account-stops.ts';
import { Closers } from './closers.ts';
import { FigureMaker } from './figure-maker.ts';
import { openAlerter } from './open-alerter.ts';
import { createProcessor } from './processor.ts';
import { Pushing, type PushingParts } from './pushing.ts';
import { logReachability } from './reachability.ts';
import type { RunnerDeps } from './runner.ts';
import { Schedules } from './schedules.ts';
import { SettingsNote, type SettingsState } from './settings-note.ts';

/** Maximum number of runs of one queue that a worker makes at the same time. */
const concurrency = 8;
/** Maximum milliseconds of a stop. Requests of runs are aborted at once; a page that is being written is finished. */
const stopTimeoutMs = 20_000;
/** Milliseconds that everything else has to close, when pushes and runs have ended. Nothing is lost if it does not. */
const closeTimeoutMs = 3_000;

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
   * Takes over changed clients, schedules and other settings. Runs and rows that are under way end with the settings that
   * they began with; runs of clients that are gone, or that have another account, are stopped, and their pages stay.
   * If the database does not take the change, throws its error, and nothing is changed.
   */
  readonly change: (config: Config, changes: SettingsChanges) => Promise<void>;
  /** Records in Postgres, soon, which settings are in use. */
  readonly noteSettings: () => void;
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
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { config, databaseUrl, log } = options;
  const closers = new Closers();
  try {
    const { live, backend } = await openConnections(closers, options);
    const parts = await openQueues(closers, live, backend);
    const { queues, schedules, workers, stopping, outdated } = parts;
    await schedules.prepare();
    // Pushing starts after `prepare`, which registers the accounts that the rows belong to.
    const pushing = closers.add(new Pushing(options));
    await pushing.apply(live.deps);
    const sweeper = new Sweeper(schedules.sweeperTasks());
    closers.add({ close: () => sweeper.stop() });
    const { db, worker, warehouses } = live.deps;
    for (const running of workers) runInBackground(running.run(), log);
    sweeper.start();
    closers.add(openAlerter(live, databaseUrl, log));
    closers.add(new FigureMaker(db, log)).start();
    const note = closers.add(new SettingsNote(db, worker, log, options.readSettings));
    note.start();
    runInBackground(logReachability(warehouses, log, stopping.signal), log);
    log.info({ event: 'worker_started', version, worker, queue: backend.kind, clients: config.clients.length });
    return {
      outdated,
      queues,
      wakeClient: (client) => schedules.wakeClient(client),
      change: (next, changes) => changeSettings(live, parts, pushing, next, changes),
      noteSettings: () => note.change(),
      sinceLastSweepMs: () => sweeper.sinceLastDoneMs(),
      stop: async () => {
        stopping.abort(new StoppedError());
        for (const running of workers) running.cancelAllJobs('stopping');
        const hasStopped = await endsWithin(stopTimeoutMs, [pushing.close(), ...workers.map((one) => one.close())]);
        if (!hasStopped) {
          log.error({ event: 'stop_forced', worker, afterMs: stopTimeoutMs });
          return false;
        }
        // On a connection that no longer answers, a statement of a chart or a note takes a minute to fail.
        const isClosed = await endsWithin(closeTimeoutMs, [closers.closeAll()]);
        if (!isClosed) log.warn({ event: 'connections_left', worker, afterMs: closeTimeoutMs });
        log.info({ event: 'worker_stopped', worker });
        return true;
      },
    };
  } catch (error) {
    await closers.closeAll();
    throw error;
  }
}

/** Returns whether all work ends within a time. */
const endsWithin = (ms: number, work: readonly Promise<unknown>[]) =>
  Promise.race([Promise.all(work).then(() => true), wait(ms, false, { ref: false })]);

/** Lets work continue without waiting for it. Logs its error. */
const runInBackground = (work: Promise<unknown>, log: Logger) =>
  void work.catch((error: unknown) => log.error({ event: 'background_failed', ...errorFields(error) }));

/** What a worker is started with. */
export interface DaemonOptions extends PushingParts {
  readonly config: Config;
  readonly log: Logger;
  /** Returns which settings are in use, and what happened to changed ones. */
  readonly readSettings: () => SettingsState;
}

/** The parts that runs use. A change of settings replaces `deps`; runs under way keep those that they began with. */
interface LiveDeps {
  deps: RunnerDeps;
  readonly changeWarehouses: OpenWarehouses['change'];
}

/** Opens the database, the service of each client and the queue. */
async function openConnections(
  closers: Closers,
  { config, databaseUrl, log, metrics }: DaemonOptions,
): Promise<{ readonly live: LiveDeps; readonly backend: QueueBackend }> {
  const { db } = closers.add(connectForWriting(databaseUrl, log));
  await assertSchemaFits(db);
  const { keeper } = closers.add(openLeaseKeeper(databaseUrl, log));
  const { warehouses, change } = closers.add(
    openWarehouses(config, { log, onExchange: (client, exchange) => metrics.onExchange(client, exchange) }),
  );
  const { backend } = closers.add(await openQueueBackend(config, databaseUrl, log));
  const onRun: RunnerDeps['onRun'] = (...run) => metrics.onRun(...run);
  const worker = workerName();
  const deps = { config, db, keeper, warehouses, worker, log, reportedWarnings: new Map(), onRun };
  return { live: { deps, changeWarehouses: change }, backend };
}

/** Creates the queues and their workers, and waits until they are ready. No worker runs yet. */
async function openQueues(closers: Closers, live: LiveDeps, backend: QueueBackend) {
  const { config, log } = live.deps;
  const stopping = new AbortController();
  const { promise: outdated, resolve: onOutdated } = Promise.withResolvers<SchemaError>();
  const names = [...new Set(jobNames.map((job) => jobs[job].queue))];
  const queues = new Map(names.map((name) => [name, closers.add(backend.queue(name))]));
  const schedules = new Schedules(live.deps, queues);
  const accountStops = new AccountStops();
  const slots = new Map(names.map((name) => [name, new RunSlots(concurrency, config.clients.length, name === 'bulk')]));
  const shared = { current: () => live.deps, schedules, accountStops, stop: stopping.signal, onOutdated };
  const workers = [...slots].map(([name, free]) =>
    closers.add(backend.worker(name, createProcessor(shared, free), concurrency)),
  );
  const warn = throttleWarnings(log);
  const parts = [...queues.values(), ...workers];
  for (const part of parts) part.on('error', (error) => warn({ event: 'queue_error', ...errorFields(error) }));
  await Promise.all(parts.map((part) => part.waitUntilReady()));
  return { queues, schedules, accountStops, slots, workers, stopping, outdated };
}

/** Takes over changed settings: first in the database, then everywhere in this process without a wait between. */
async function changeSettings(
  live: LiveDeps,
  { schedules, accountStops, slots, stopping }: Awaited<ReturnType<typeof openQueues>>,
  pushing: Pushing,
  config: Config,
  { addedClients, changedClients, values }: SettingsChanges,
): Promise<void> {
  const { log } = live.deps;
  const isOther = (what: readonly ClientPart[]) => what.includes('account') || what.includes('password');
  const others = changedClients.filter(({ what }) => isOther(what)).map(({ client }) => client);
  const fresh = [...addedClients, ...others];
  const changedJobs = jobNames.filter((job) => values.some(({ name }) => name === job));
  await schedules.prepareChange(config, fresh, changedJobs);
  if (stopping.signal.aborted) return;
  live.deps = { ...live.deps, config, warehouses: live.changeWarehouses(config) };
  schedules.use(live.deps);
  for (const free of slots.values()) free.setClients(config.clients.length);
  accountStops.keepOnly(config.clients);
  runInBackground(pushing.apply(live.deps), log);
  runInBackground(schedules.catchUp(), log);
  const asked = [...live.deps.warehouses].filter(([client]) => fresh.includes(client));
  runInBackground(logReachability(new Map(asked), log, stopping.signal), log);
}
