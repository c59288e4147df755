import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { Command } from 'commander';
import { ConfigError } from '../../../config/config-error.ts';
import { type Config, findDroppedSecrets, readConfig } from '../../../config/env.ts';
import { findUnreadNames, rememberEnvironment } from '../../../config/env-file.ts';
import { pauses } from '../../core/backoff.ts';
import { describeError, hasCode, isUncoded } from '../../core/errors.ts';
import { errorFields, type Logger } from '../../core/logger.ts';
import { version } from '../../core/version.ts';
import { connectDatabase, connectForWriting, toAddress } from '../../db/connect.ts';
import { isUnreachable } from '../../db/is-unreachable.ts';
import { assertSchemaFits } from '../../db/schema-fit.ts';
import { openOverviewReader } from '../../operate/health/overview.ts';
import { openLogger } from '../../operate/logging/create-logger.ts';
import { Metrics } from '../../operate/metrics/metrics.ts';
import { WorkMetrics } from '../../operate/metrics/work-metrics.ts';
import { outboxKinds } from '../../push/kinds/registry.ts';
import { startAdmin } from '../../serve/admin/server.ts';
import { startApi } from '../../serve/api/api-server.ts';
import { maxTurns } from '../../serve/api/budget.ts';
import { addCommand, createStopSignal, exitWith } from '../command-line.ts';
import { closeLater, type Daemon, type DaemonOptions, startDaemon } from '../worker/daemon.ts';

/**
 * Time after which the process is ended if something keeps it alive although everything is closed.
 */
const lingerMs = 1_000;

/** Number of connections of the admin server, and its statement timeout. */
const adminPoolSize = 2;
const adminQueryMs = 10_000;

/** Statement timeout of the API. */
const apiQueryMs = 20_000;

/**
 * Maximum milliseconds that a page or the API waits for a lock. The ERP may lock tables that their
 * views read.
 */
const lockTimeoutMs = 1_000;

const needs = { database: true, clients: true };

/**
 * Runs a worker until the process is asked to stop. After SIGHUP, the worker stops, and another one
 * starts with the configuration as it is then.
 */
async function workerCommand(envFile: string | undefined): Promise<number> {
  const nextHangUp = listenForHangUps();
  const inPresentEnvironment = rememberEnvironment(envFile);
  let config = readConfig(needs);
  let log = await openLogger(config);
  const unread = findUnreadNames(envFile);
  if (unread.length > 0) log.warn({ event: 'variables_unread', problems: unread });
  exitOnUncaughtError(() => log);

  const stop = createStopSignal((cause) => log.info({ event: 'worker_stopping', cause }));
  const work = new WorkMetrics(
    version,
    outboxKinds.map(({ name }) => name),
  );

  let idleSinceMs: number | null = null;
  try {
    while (true) {
      const restart = new AbortController();
      const former = config;
      const reread = async () => {
        const found = inPresentEnvironment(() => readNextConfig(former));
        await assertUsable(former, found, log);
        return found;
      };
      const next = findNextConfig(nextHangUp, reread, log).then((found) => {
        if (!stop.aborted) log.info({ event: 'worker_restarting', cause: 'SIGHUP' });
        restart.abort();
        return { config: found, askedAtMs: performance.now() };
      });

      const asked = AbortSignal.any([stop, restart.signal]);
      const hasStarted = await runWorker({ config, log, work, stop: asked, idleSinceMs });
      if (stop.aborted) return 0;

      const { config: found, askedAtMs } = await next;
      if (hasStarted) idleSinceMs = askedAtMs;
      config = found;
      log = await openLogger(config);
    }
  } catch (error) {
    // The message on standard error is for people; programs read the log.
    log.fatal({ event: 'worker_failed', ...errorFields(error) });
    throw error;
  } finally {
    // Half-open connections would keep the process alive although its work is done.
    setTimeout(() => process.exit(), lingerMs).unref();
  }
}

/**
 * Listens for SIGHUP, which would end the process without a listener. Returns a function that waits
 * for the next one. Several that arrive before it is called count as one: the configuration is read
 * after all of them.
 */
function listenForHangUps(): () => Promise<void> {
  let hangUp = Promise.withResolvers<void>();
  process.on('SIGHUP', () => hangUp.resolve());

  return async () => {
    await hangUp.promise;
    hangUp = Promise.withResolvers();
  };
}

/** @throws ConfigError if the configuration is wrong, or lacks a secret that the former one has */
function readNextConfig(former: Config): Config {
  const next = readConfig(needs);
  const problems = findDroppedSecrets(former, next);
  if (problems.length > 0) throw new ConfigError(problems);
  return next;
}

/**
 * Asserts that what differs in the next configuration can be used, while the present worker still
 * runs: its database, and where it listens.
 * @throws ConfigError if it cannot
 */
async function assertUsable(former: Config, next: Config, log: Logger): Promise<void> {
  const problems: string[] = [];
  const checkPart = async (name: string, check: () => Promise<unknown>) => {
    await check().catch((error: unknown) => problems.push(`${name}: ${describeError(error)}`));
  };

  for (const name of ['DATABASE_URL', 'DATABASE_DIRECT_URL'] as const) {
    const url = next[name];
    if (url === undefined || url === former[name]) continue;

    const { db, close } = connectDatabase(url, log, { name: 'check', max: 1 });
    await checkPart(name, () => assertSchemaFits(db)).finally(close);
  }

  const checkServer = async (server: 'ADMIN' | 'API', isNew: boolean) => {
    const [host, port] = [next[`${server}_HOST`], next[`${server}_PORT`]];
    if (isNew || port !== former[`${server}_PORT`])
      await checkPart(`${server}_PORT`, () => assertFree(port, host));
    // The present worker listens on the port. Port 0 takes any free one.
    else if (host !== former[`${server}_HOST`])
      await checkPart(`${server}_HOST`, () => assertFree(0, host));
  };
  await checkServer('ADMIN', false);
  if (next.apiTokens !== null) await checkServer('API', former.apiTokens === null);

  if (problems.length > 0) throw new ConfigError(problems);
}

/** @throws Error if a port is in use */
async function assertFree(port: number, host: string): Promise<void> {
  const server = createServer();
  server.listen(port, host);
  await once(server, 'listening');
  server.close();
}

/**
 * Waits for a SIGHUP after which the configuration is right, and returns it. Logs what is wrong in
 * others.
 */
async function findNextConfig(
  nextHangUp: () => Promise<void>,
  read: () => Promise<Config>,
  log: Logger,
): Promise<Config> {
  while (true) {
    await nextHangUp();
    try {
      return await read();
    } catch (error) {
      const problems = error instanceof ConfigError ? error.problems : [describeError(error)];
      log.error({ event: 'config_refused', cause: 'SIGHUP', problems });
    }
  }
}

/** What a worker is built from. */
interface WorkerOptions {
  readonly config: Config;
  readonly log: Logger;
  /** Metrics of this process, which all of its workers count in. */
  readonly work: WorkMetrics;
  /** Aborts when the worker has to stop. */
  readonly stop: AbortSignal;
  /**
   * When the former worker of this process began to stop, by performance.now(); null for the first
   * worker.
   */
  readonly idleSinceMs: number | null;
}

/** Runs a worker with its admin server until it is asked to stop. */
async function runWorker({
  config,
  log,
  work,
  stop,
  idleSinceMs,
}: WorkerOptions): Promise<boolean> {
  const stopped = once(stop, 'abort');
  await using opened = new AsyncDisposableStack();
  let daemon: Daemon | null = null;

  const pages = connectDatabase(toAddress(config), log, {
    name: 'admin',
    max: adminPoolSize,
    queryTimeoutMs: adminQueryMs,
    lockTimeoutMs,
  });
  const { db } = closeLater(opened, pages);
  const readOverview = openOverviewReader(db, config, () => daemon?.diskFullSince() ?? null);
  const metrics = new Metrics({
    config,
    log,
    work,
    readOverview,
    // A queue that is closed cannot be asked any more.
    queues: () => (stop.aborted ? [] : (daemon?.queues ?? [])),
    sinceLastSweepMs: () => daemon?.sinceLastSweepMs(),
  });

  const admin = closeLater(
    opened,
    await startAdmin({ config, db, log, metrics, readOverview, daemon: () => daemon }),
  );
  log.info({ event: 'admin_listening', host: config.ADMIN_HOST, port: admin.port });
  const closeApi = await openApi(opened, config, log, () => daemon !== null && !stop.aborted);

  daemon = await startWhenReachable({ config, log, metrics: work }, stop);
  if (daemon === null) return false;
  if (idleSinceMs !== null)
    log.info({
      event: 'worker_restarted',
      withoutWorkerMs: Math.round(performance.now() - idleSinceMs),
    });

  const outdated = await Promise.race([stopped.then(() => null), daemon.outdated]);

  // A token that was revoked is not taken while runs end.
  await closeApi();
  // Something hangs and would keep the process alive. The process ends here, and its leases expire.
  if (!(await daemon.stop())) process.exit(1);
  if (outdated !== null) throw outdated;
  return true;
}

/**
 * Starts the API, if there is one, with connections of its own. Returns a function that closes it
 * early.
 */
async function openApi(
  opened: AsyncDisposableStack,
  config: Config,
  log: Logger,
  isReady: () => boolean,
): Promise<() => Promise<void>> {
  if (config.apiTokens === null) return async () => undefined;

  const connections = connectForWriting(toAddress(config), log, {
    name: 'api',
    max: maxTurns,
    queryTimeoutMs: apiQueryMs,
    lockTimeoutMs,
  });
  const { db } = closeLater(opened, connections);

  const api = closeLater(opened, await startApi({ config, db, log, isReady }));
  log.info({ event: 'api_listening', host: config.API_HOST, port: api.port });
  return api.close;
}

/**
 * Starts the daemon. While Postgres or Redis cannot be reached, tries again every 2 seconds with
 * new connections.
 */
async function startWhenReachable(
  options: DaemonOptions,
  stop: AbortSignal,
): Promise<Daemon | null> {
  const { config, log } = options;

  while (!stop.aborted) {
    try {
      return await startDaemon(options);
    } catch (error) {
      if (!isUnreachable(error, config.REDIS_URL !== undefined)) throw error;

      const fields = errorFields(error);
      const alerts =
        config.ALERT_WEBHOOK_URL === undefined
          ? ''
          : '; no alert is posted before this worker has started';
      const words = `${nameServer(error, config)}${fields.error}${alerts}`;
      log.warn({ event: 'boot_waits', retryMs: pauses.start.firstMs, ...fields, error: words });
      // An abort ends the wait; the loop then ends.
      await wait(pauses.start.firstMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }
  return null;
}

/**
 * Returns the server that an error at the start is about, with the variable that leads to it. The
 * words of an error without a code name it already.
 */
function nameServer(error: unknown, { DATABASE_DIRECT_URL }: Config): string {
  if (isUncoded(error)) return '';

  const name = error instanceof Error ? error.name : '';
  if (hasCode(error, 'redis_unreachable') || /^(ReplyError|ConnectionClosedError)$/.test(name))
    return 'Redis (REDIS_URL): ';
  return DATABASE_DIRECT_URL === undefined
    ? 'Postgres (DATABASE_URL): '
    : 'Postgres (DATABASE_URL or DATABASE_DIRECT_URL): ';
}

/**
 * Ends the process after an uncaught error: its memory cannot be trusted any more, but the database
 * can.
 */
function exitOnUncaughtError(readLog: () => Logger): void {
  process.on('uncaughtException', (error) => {
    readLog().fatal({ event: 'uncaught', ...errorFields(error) });
    process.exit(1);
  });
}

/** Adds `worker`. */
export function addWorkerCommand(cli: Command): void {
  addCommand(cli, {
    name: 'worker',
    description: 'run the daemon until it is stopped',
  }).action(exitWith(() => workerCommand(cli.opts<{ envFile?: string }>().envFile)));
}
