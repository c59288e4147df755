import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { type Config, readConfig } from '../../../config/env.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { startAdmin } from '../admin/server.ts';
import { createStopSignal } from '../cli/stop-signal.ts';
import { connectDatabase } from '../deps/database.ts';
import { isUnreachable } from '../deps/is-unreachable.ts';
import { openLogger } from '../logging/create-logger.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { WorkMetrics } from '../metrics/work-metrics.ts';
import { version } from '../version.ts';
import { type Daemon, startDaemon } from '../worker/daemon.ts';
import { startTracing, type Tracing } from '../worker/tracing.ts';

const bootRetryMs = 2_000;
/** Time after which the process is ended if something keeps it alive although everything is closed. */
const lingerMs = 1_000;
/**
 * Number of connections of the admin server, and its statement timeout. Both are small, so that pages add no load to an
 * outage.
 */
const adminPoolSize = 3;
const adminQueryMs = 10_000;

/** Runs the daemon until it is stopped. */
export async function workerCommand(): Promise<number> {
  const config = readConfig({ database: true, clients: true });
  const log = await openLogger({ level: config.LOG_LEVEL, pretty: config.LOG_PRETTY });
  exitOnUncaughtError(log);
  const stop = createStopSignal((cause) => log.info({ event: 'worker_stopping', cause }));
  const stopped = once(stop, 'abort');
  let daemon: Daemon | null = null;
  const kinds = outboxKinds.map(({ name }) => name);
  const metrics = new WorkMetrics(version, kinds, () => daemon?.sinceLastSweepMs());
  const { db, close } = connectDatabase(config.DATABASE_URL ?? '', log, 'admin', adminPoolSize, adminQueryMs);
  const tracing = await startTracing(config);
  if (tracing !== null) log.info({ event: 'tracing_started', endpoint: tracing.endpoint });
  try {
    const admin = await startAdmin({ config, db, log, metrics, daemon: () => daemon });
    log.info({ event: 'admin_listening', host: config.ADMIN_HOST, port: admin.port });
    try {
      daemon = await boot(config, log, metrics, tracing, stop);
      if (daemon === null) return 0;
      const outdated = await Promise.race([stopped.then(() => null), daemon.outdated]);
      // Something hangs and would keep the process alive. The process ends here, and its leases expire.
      if (!(await daemon.stop())) process.exit(1);
      if (outdated === null) return 0;
      throw outdated;
    } finally {
      await admin.close();
    }
  } finally {
    await Promise.all([close(), tracing?.close()]);
    // Half-open connections would keep the process alive although its work is done.
    setTimeout(() => process.exit(), lingerMs).unref();
  }
}

/**
 * Starts the daemon. While Postgres or Redis cannot be reached, tries again every 2 seconds with new connections.
 * @returns null if it was stopped before the daemon started
 */
async function boot(
  config: Config,
  log: Logger,
  metrics: WorkMetrics,
  tracing: Tracing | null,
  stop: AbortSignal,
): Promise<Daemon | null> {
  while (!stop.aborted) {
    try {
      return await startDaemon(config, config.DATABASE_URL ?? '', log, metrics, tracing?.telemetry);
    } catch (error) {
      if (!isUnreachable(error, config.REDIS_URL !== undefined)) throw error;
      log.warn({ event: 'boot_waits', retryMs: bootRetryMs, ...errorFields(error) });
      // An abort ends the wait; the loop then ends.
      await wait(bootRetryMs, undefined, { signal: stop }).catch(() => undefined);
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
