import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { type Config, listSettingsFiles, readConfig } from '../../../config/env.ts';
import { pauses } from '../../core/backoff.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { startAdmin } from '../admin/server.ts';
import { HangUps } from '../cli/hang-ups.ts';
import { createStopSignal } from '../cli/stop-signal.ts';
import { connectDatabase } from '../deps/database.ts';
import { isUnreachable } from '../deps/is-unreachable.ts';
import { openStateReaders } from '../health/overview.ts';
import { openLogger } from '../logging/create-logger.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { Metrics } from '../metrics/metrics.ts';
import { registerSettingsMetrics } from '../metrics/settings-metrics.ts';
import { WorkMetrics } from '../metrics/work-metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { version } from '../version.ts';
import { type Daemon, type DaemonOptions, startDaemon } from '../worker/daemon.ts';
import { Reloader } from '../worker/reloader.ts';
import { SettingsWatch } from '../worker/settings-watch.ts';

/** Time after which the process is ended if something keeps it alive although everything is closed. */
const lingerMs = 1_000;
/**
 * Number of connections of the admin server, and its statement timeout. Both are small, so that pages add no load to an
 * outage.
 */
const adminPoolSize = 3;
const adminQueryMs = 10_000;

const needs = { database: true, clients: true };

/** Runs the daemon until it is stopped. */
export async function workerCommand(): Promise<number> {
  const hangUps = new HangUps();
  const watch = new SettingsWatch();
  await watch.remember(listSettingsFiles());
  const config = readConfig(needs);
  let telemetry: Telemetry | null = null;
  const log = await openLogger({
    level: config.LOG_LEVEL,
    pretty: config.LOG_PRETTY,
    ...(config.telemetry === null ? {} : { readSpanIds: () => telemetry?.tracing?.readSpanIds() ?? {} }),
  });
  exitOnUncaughtError(log);
  const stop = createStopSignal((cause) => log.info({ event: 'worker_stopping', cause }));
  const stopped = once(stop, 'abort');
  let daemon: Daemon | null = null;
  const kinds = outboxKinds.map(({ name }) => name);
  const work = new WorkMetrics(version, kinds, () => daemon?.sinceLastSweepMs());
  const { db, close } = connectDatabase(config.DATABASE_URL ?? '', log, 'admin', adminPoolSize, adminQueryMs);
  const source = { read: () => readConfig(needs), files: () => listSettingsFiles(), watch };
  const reloader = new Reloader(config, source, log);
  const current = () => reloader.config;
  registerSettingsMetrics(work.registry, () => reloader.outcome);
  const readers = openStateReaders({ db, config: current });
  // A queue that is closed cannot be asked any more.
  const queues = () => (stop.aborted ? [] : (daemon?.queues ?? []));
  const metrics = new Metrics({ config: current, log, work, readState: readers.readState, queues });
  telemetry = await openTelemetry(config, metrics, log);
  try {
    const admin = await startAdmin({ config, current, db, log, metrics, readers, daemon: () => daemon });
    log.info({ event: 'admin_listening', host: config.ADMIN_HOST, port: admin.port });
    reloader.start();
    hangUps.listen(() => reloader.ask());
    try {
      daemon = await boot(reloader, { log, metrics: work, tracing: telemetry?.tracing ?? null }, stop);
      if (daemon === null) return 0;
      const outdated = await Promise.race([stopped.then(() => null), daemon.outdated]);
      reloader.stop();
      // Something hangs and would keep the process alive. The process ends here, and its leases expire.
      if (!(await daemon.stop())) process.exit(1);
      if (outdated === null) return 0;
      throw outdated;
    } finally {
      await admin.close();
    }
  } finally {
    reloader.stop();
    // The last export reads the state, so the database is closed after it.
    await telemetry?.close();
    await close();
    // Half-open connections would keep the process alive although its work is done.
    setTimeout(() => process.exit(), lingerMs).unref();
  }
}

/** Starts to send telemetry if the settings name a receiver. Otherwise no library is loaded. */
async function openTelemetry(config: Config, metrics: Metrics, log: Logger): Promise<Telemetry | null> {
  if (config.telemetry === null) return null;
  const { startTelemetry } = await import('../telemetry/telemetry.ts');
  return startTelemetry(config, config.telemetry, metrics, log);
}

/**
 * Starts the daemon. While Postgres or Redis cannot be reached, tries again every 2 seconds with new connections.
 * @returns null if it was stopped before the daemon started
 */
async function boot(
  reloader: Reloader,
  parts: Pick<DaemonOptions, 'log' | 'metrics' | 'tracing'>,
  stop: AbortSignal,
): Promise<Daemon | null> {
  const readSettings = () => reloader.state;
  while (!stop.aborted) {
    const { config } = reloader;
    try {
      const daemon = await startDaemon({ ...parts, config, databaseUrl: config.DATABASE_URL ?? '', readSettings });
      reloader.attach(daemon, config);
      return daemon;
    } catch (error) {
      if (!isUnreachable(error, config.REDIS_URL !== undefined)) throw error;
      parts.log.warn({ event: 'boot_waits', retryMs: pauses.start.firstMs, ...errorFields(error) });
      // An abort ends the wait; the loop then ends.
      await wait(pauses.start.firstMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }
  return null;
}

/** Ends the process after an uncaught error: its memory cannot be trusted any more, but the database can. */
function exitOnUncaughtError(log: Logger): void {
  process.on('uncaughtException', (error) => {
    log.fatal({ event: 'uncaught', ...errorFields(error) });
    process.exit(1);
  });
}
