/**
 * The worker: it runs due jobs, pushes rows, and finds runs that other workers left behind. All of
 * its state that matters is in Postgres.
 */

import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { jobs } from '../../../jobs/registry.ts';
import { StoppedError } from '../../core/errors.ts';
import { errorFields, type Logger, throttleWarnings } from '../../core/logger.ts';
import { repeat } from '../../core/repeat.ts';
import { version } from '../../core/version.ts';
import {
  connectForWriting,
  openListener,
  toAddress,
  toDirectUrl,
  workerName,
} from '../../db/connect.ts';
import type { SchemaError } from '../../db/migration-files.ts';
import { assertOwnSessions, assertSameDatabase } from '../../db/own-sessions.ts';
import { assertSchemaFits } from '../../db/schema-fit.ts';
import { startAlerter } from '../../operate/alerts/alerter.ts';
import { Deliverer, type Receiver } from '../../operate/deliveries/deliverer.ts';
import { startEventMaker } from '../../operate/deliveries/event-maker.ts';
import type { WorkMetrics } from '../../operate/metrics/work-metrics.ts';
import { alertReceiver } from '../../operate/sql/receivers.ts';
import { FeedNumbering } from '../../push/feed-numbering.ts';
import { listStoredKinds } from '../../push/kinds/registry.ts';
import { describeKindDifferences } from '../../push/sql/kinds.ts';
import { askForPlace, noteDatabase } from '../../push/sql/push-database.ts';
import { type QueueBackend, queueName } from '../../schedule/backend.ts';
import { openQueueBackend } from '../../schedule/open-queue.ts';
import type { RunReport, Work } from '../../schedule/run.ts';
import { type RunnerDeps, runWork } from '../../schedule/runs.ts';
import { Schedules, sweepMs } from '../../schedule/schedules.ts';
import { openLeaseKeeper } from '../../schedule/sql/leases.ts';
import { DueRuns } from '../../schedule/start-due.ts';
import type { RunningWorker } from '../../serve/admin/admin-deps.ts';
import { openWarehouses } from '../../service/open-warehouses.ts';
import { openDispatcher } from '../../service/transport/dispatcher.ts';
import { openPusher } from './open-pusher.ts';

/** Interval in which every worker looks for lost schedulers. */
const alignMs = 30_000;

/**
 * Maximum milliseconds of a stop. Requests of runs are aborted at once; a page that is being
 * written is finished.
 */
const stopTimeoutMs = 20_000;
/** Milliseconds that BullMQ has to tell the queue that the last firings are over. */
const farewellMs = 2_000;

/**
 * Milliseconds that everything else has to close, when pushes and runs have ended. Nothing is lost
 * if it does not.
 */
const closeTimeoutMs = 3_000;

/** A started worker. */
export interface Daemon extends RunningWorker {
  /**
   * Since when Postgres refuses runs of this worker because its disk is full; null: it does not.
   */
  readonly diskFullSince: () => Date | null;
  /**
   * Resolves with the reason when this worker must not continue, because the database was migrated
   * beyond its code.
   */
  readonly outdated: Promise<SchemaError>;
  /**
   * Stops claiming, finishes the pages that are being written, releases the leases and closes
   * everything.
   * @returns false if that took too long. Leases and claims that are left then expire.
   */
  readonly stop: () => Promise<boolean>;
}

/**
 * Starts a worker. Until it is stopped, it runs due jobs, pushes rows, and starts runs that the
 * queue lost.
 * @throws SchemaError if the schema does not fit this version
 * @throws QueueSetupError if the queue is not set up as it has to be
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { config, log } = options;
  await using opened = new AsyncDisposableStack();
  const { deps, backend } = await openConnections(opened, options);
  const queue = await openQueue(opened, deps, backend);
  const { schedules, runs, clock, stopping, onOutdated } = queue;

  // Before any run: it notices a restored database, whose gates must wait.
  await noteDatabase(deps.db, deps.worker, []);
  await schedules.prepare();

  // Pushing starts after `prepare`, which registers the accounts that the rows belong to.
  const pushing = closeLater(opened, startPushing(deps, options, onOutdated));
  runInBackground(logKindDifferences(deps), log);
  runInBackground(clock.run(), log);
  const sweeper = closeLater(opened, startSweeps(schedules, runs, log));

  const diskFullSince = () => runs.diskFullSince;
  closeLater(opened, await openDeliveries(config, log, diskFullSince));

  log.info({
    event: 'worker_started',
    version,
    worker: deps.worker,
    queue: backend.kind,
    clients: config.clients.length,
  });

  const closers = opened.move();
  return {
    outdated: queue.outdated,
    queues: new Map([[queueName, queue.queue]]),
    startDue: (job) => runInBackground(runs.startDue([job]), log),
    runFor: (client, work) => runFor(deps, client, work, stopping.signal),
    sinceLastSweepMs: sweeper.sinceLastDoneMs,
    sinceSweepBegunMs: sweeper.sinceBegunMs,
    diskFullSince,
    stop: () => stopDaemon(deps, queue, pushing, closers),
  };
}

/** @throws TypeError if this worker does not have the client */
function runFor(deps: RunnerDeps, key: string, work: Work, stop: AbortSignal): Promise<RunReport> {
  const client = deps.config.clients.find((one) => one.key === key);
  if (client === undefined) throw new TypeError(`client ${key} is not served here`);
  return runWork(deps, work, { client, trigger: 'manual' }, stop);
}

/** Stops a worker in steps, each with a time limit. Returns false if the first took too long. */
async function stopDaemon(
  { worker, log }: RunnerDeps,
  { clock, runs, stopping }: Awaited<ReturnType<typeof openQueue>>,
  pushing: Part,
  closers: AsyncDisposableStack,
): Promise<boolean> {
  stopping.abort(new StoppedError());

  if (!(await endsWithin(stopTimeoutMs, [pushing.close(), runs.ended()]))) {
    log.error({ event: 'stop_forced', worker, afterMs: stopTimeoutMs });
    return false;
  }

  // BullMQ tells the queue that the last firings are over, and waits while it is away.
  await endsWithin(farewellMs, [clock.close()]);

  // On a connection that no longer answers, a statement of a chart takes a minute to fail.
  const isClosed = await endsWithin(closeTimeoutMs, [closers.disposeAsync()]);
  if (!isClosed) log.warn({ event: 'connections_left', worker, afterMs: closeTimeoutMs });

  log.info({ event: 'worker_stopped', worker });
  return true;
}

/** A part of a worker that was opened or started. */
interface Part {
  readonly close: () => Promise<unknown>;
}

/** A part that is not configured. */
const nothing: Part = { close: async () => undefined };

/** Closes an opened part with the stack. Returns the part. */
export const closeLater = <T extends Part>(opened: AsyncDisposableStack, part: T): T =>
  opened.adopt(part, async () => void (await part.close()));

/** Returns whether all work ends within a time. */
const endsWithin = (ms: number, work: readonly Promise<unknown>[]) =>
  Promise.race([Promise.all(work).then(() => true), wait(ms, false, { ref: false })]);

/** Lets work continue without waiting for it. Logs its error. */
const runInBackground = (work: Promise<unknown>, log: Logger) =>
  void work.catch((error: unknown) =>
    log.error({ event: 'background_failed', ...errorFields(error) }),
  );

/** What a worker is started with. */
export interface DaemonOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: WorkMetrics;
}

/** Opens the database, the service of each client and the queue. */
async function openConnections(
  opened: AsyncDisposableStack,
  { config, log, metrics }: DaemonOptions,
): Promise<{ readonly deps: RunnerDeps; readonly backend: QueueBackend }> {
  const databaseUrl = toDirectUrl(config);
  await assertOwnSessions(databaseUrl);

  const { db } = closeLater(opened, connectForWriting(toAddress(config), log));
  await assertSchemaFits(db);

  const { keeper, db: leases } = closeLater(opened, openLeaseKeeper(databaseUrl, log));
  if (config.DATABASE_DIRECT_URL !== undefined) await assertSameDatabase(db, leases);

  const { warehouses } = closeLater(
    opened,
    openWarehouses(config, {
      log,
      onExchange: (client, exchange) => metrics.onExchange(client, exchange),
    }),
  );
  const { backend } = closeLater(opened, await openQueueBackend(config, databaseUrl, log));

  const feed = closeLater(opened, openFeed(config, log));

  const deps: RunnerDeps = {
    jobs,
    config,
    db,
    keeper,
    warehouses,
    worker: workerName(),
    log,
    reportedWarnings: new Map(),
    onRun: (...run) => metrics.onRun(...run),
    numberFeed: feed.number,
  };
  return { deps, backend };
}

/** Starts to move changes to the feed, with a connection of its own. */
function openFeed(config: Config, log: Logger) {
  const { db, close } = connectForWriting(toAddress(config), log, {
    name: 'feed',
    max: 1,
    prepares: true,
    findsSilence: true,
  });
  const warn = throttleWarnings(log);
  const feed = new FeedNumbering(db, (error) =>
    warn({ event: 'feed_failed', ...errorFields(error) }),
  );
  feed.start();

  return {
    number: feed.number,
    close: async () => {
      await feed.close();
      await close();
    },
  };
}

/** Creates the queue and the Worker that hears its firings, and waits until they are ready. */
async function openQueue(opened: AsyncDisposableStack, deps: RunnerDeps, backend: QueueBackend) {
  const stopping = new AbortController();
  const { promise: outdated, resolve: onOutdated } = Promise.withResolvers<SchemaError>();

  const queue = closeLater(opened, backend.queue());
  const schedules = new Schedules(deps, queue);
  const runs = new DueRuns(deps, stopping.signal, onOutdated);
  const clock = closeLater(
    opened,
    backend.worker((name) => runs.fire(name)),
  );

  const warn = throttleWarnings(deps.log);
  for (const part of [queue, clock])
    part.on('error', (error) => warn({ event: 'queue_error', ...errorFields(error) }));
  await Promise.all([queue.waitUntilReady(), clock.waitUntilReady()]);

  return { queue, schedules, runs, clock, stopping, outdated, onOutdated };
}

/** Finds again and again what must run and does not: the queue may have lost it, or be away. */
function startSweeps(schedules: Schedules, runs: DueRuns, log: Logger) {
  const warn = throttleWarnings(log);

  /** Tries a task, which the next sweep tries again. Returns true if it succeeded. */
  const attempt = async (task: string, work: () => Promise<void>) => {
    try {
      await work();
      return true;
    } catch (error) {
      // A run whose end could not be stored keeps the sweep from starting others, which would meet
      // the full disk.
      runs.noteFullDisk(error);
      // No stack: a server that is away is not a fault of this program.
      const { code, error: words } = errorFields(error);
      warn({ event: 'sweep_failed', task, code, error: words });
      return false;
    }
  };

  let begunAtMs: number | undefined;
  let lastDoneAtMs: number | undefined;
  const sweeps = repeat(sweepMs, async () => {
    begunAtMs = performance.now();
    if (await attempt('startDue', () => runs.sweep())) lastDoneAtMs = performance.now();
  });

  const alignments = repeat(
    alignMs,
    async () => void (await attempt('align', () => schedules.align())),
  );

  const since = (atMs: number | undefined) =>
    atMs === undefined ? undefined : performance.now() - atMs;
  return {
    /** Returns the milliseconds since the last complete sweep; undefined before the first. */
    sinceLastDoneMs: () => since(lastDoneAtMs),
    /** Returns the milliseconds since a sweep last began; undefined before the first. */
    sinceBegunMs: () => since(begunAtMs),
    close: () => Promise.all([sweeps.close(), alignments.close()]),
  };
}

/** Warns if claims and triggers know kinds of rows differently from this worker. */
async function logKindDifferences({ config, db, log }: RunnerDeps): Promise<void> {
  const differences = await describeKindDifferences(db, listStoredKinds(config.operations));
  if (differences === null) return;

  const error =
    `the database knows these kinds of rows differently: ${differences};` +
    ' run migrate with the same WAREHOUSE_OPERATIONS_FILE as the workers';
  log.warn({ event: 'kinds_differ', error });
}

/** Maximum bytes of an answer to a post. */
const maxAnswerBytes = 1024 * 1024;

/** Number of connections of deliveries, and their statement timeout. */
const deliveryPoolSize = 4;
const deliveryQueryMs = 30_000;
/** The same of the alerter, whose checks must not delay runs. */
const alertPoolSize = 2;
const alertQueryMs = 10_000;

/** Lists where deliveries are posted to. */
function listReceivers({
  subscribers,
  ALERT_WEBHOOK_URL: url,
  ALERT_WEBHOOK_SECRET: secret,
}: Config): Receiver[] {
  const receivers: Receiver[] = subscribers.map((one) => ({ ...one, kind: 'event' }));
  if (url === undefined) return receivers;

  const everything = { types: null, clients: null, personalData: false };
  return [...receivers, { name: alertReceiver, kind: 'alert', url, secret, ...everything }];
}

/** Milliseconds between two questions whether the place of this worker is accepted. */
const placeMs = 3_000;

/**
 * Starts to find problems, to make business events, and to post both, with connections of its own.
 * Does nothing without receivers.
 */
async function openDeliveries(
  config: Config,
  log: Logger,
  diskFullSince: () => Date | null,
): Promise<Part> {
  const { subscribers, HTTP_TIMEOUT_MS: timeoutMs } = config;
  const receivers = listReceivers(config);
  if (receivers.length === 0) return nothing;

  await using opened = new AsyncDisposableStack();
  const open = (options: Parameters<typeof connectForWriting>[2]) =>
    closeLater(opened, connectForWriting(toAddress(config), log, options)).db;
  const db = open({
    name: 'deliveries',
    max: deliveryPoolSize,
    queryTimeoutMs: deliveryQueryMs,
    prepares: true,
  });
  const dispatcher = openDispatcher(config, maxAnswerBytes);
  opened.defer(() => dispatcher.destroy());

  const deliverer = closeLater(
    opened,
    new Deliverer({ db, receivers, dispatcher, timeoutMs, log }),
  );
  await deliverer.start();
  if (subscribers.length > 0) closeLater(opened, startEventMaker(db, log));
  if (subscribers.length > 0 && config.pushSweepMs === null) {
    const warn = throttleWarnings(log);
    const ask = () =>
      askForPlace(db, workerName()).catch((error: unknown) =>
        warn({ event: 'place_failed', ...errorFields(error) }),
      );
    closeLater(opened, repeat(placeMs, ask));
  }

  const { ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: secret } = config;
  if (url !== undefined) {
    const alerts = open({ name: 'alerts', max: alertPoolSize, queryTimeoutMs: alertQueryMs });
    const webhook = { url, secret, dispatcher, timeoutMs };
    const options = { config, db: alerts, log, webhook, diskFullSince };
    closeLater(opened, startAlerter(options));
  }

  const closers = opened.move();
  return { close: () => closers.disposeAsync() };
}

/**
 * Milliseconds that connections have to close. One that no longer answers takes a minute to fail.
 */
const pushCloseTimeoutMs = 2_000;

/**
 * Milliseconds that a stop waits for the answers of sent rows. A row without an answer becomes
 * unknown.
 */
const pushStopTimeoutMs = 15_000;

/**
 * Starts pushing, unless SCHEDULE_PUSH_OUTBOX is off. A notification of the database, or a periodic
 * sweep, finds the rows. `close` claims nothing more, and resolves when what is under way is
 * settled. It may be called again.
 */
function startPushing(
  deps: RunnerDeps,
  { metrics }: DaemonOptions,
  onOutdated: (error: SchemaError) => void,
): Part {
  if (deps.config.pushSweepMs === null) return nothing;

  const databaseUrl = toDirectUrl(deps.config);
  const { pusher, close } = openPusher({
    ...deps,
    databaseUrl,
    onOutdated,
    onSettled: (settlement, kind) => metrics.onSettled(settlement, kind),
  });
  const listener = openListener(
    databaseUrl,
    'fulfilment_outbox',
    (client) => pusher.onNotification(client),
    deps.log,
  );
  pusher.start();

  const end = async () => {
    // At the same time: if the listener does not close, the pusher must stop claiming anyway.
    await Promise.all([listener.close(), pusher.stop(pushStopTimeoutMs)]);
    await Promise.race([close(), wait(pushCloseTimeoutMs, undefined, { ref: false })]);
  };

  let ending: Promise<void> | undefined;
  return {
    close: () => {
      ending ??= end();
      return ending;
    },
  };
}
