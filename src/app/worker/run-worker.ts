import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { startAdmin } from '../admin/server.ts';
import { connectDatabase } from '../deps/database.ts';
import { isUnreachable } from '../deps/is-unreachable.ts';
import { openStateReaders } from '../health/overview.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { Metrics } from '../metrics/metrics.ts';
import type { WorkMetrics } from '../metrics/work-metrics.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { Closers } from './closers.ts';
import { type Daemon, type DaemonOptions, startDaemon } from './daemon.ts';

const bootRetryMs = 2_000;
/**
 * Number of connections of the admin server, and its statement timeout. Both are small, so that pages add no load to an
 * outage.
 */
const adminPoolSize = 3;
const adminQueryMs = 10_000;

/** What a worker is built from. */
export interface WorkerOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly work: WorkMetrics;
  /** Aborts when the worker has to stop. */
  readonly stop: AbortSignal;
  /** When the former worker of this process began to stop, by performance.now(); null for the first worker. */
  readonly stoppedAtMs: number | null;
}

/**
 * Runs a worker with its admin server and its telemetry until it is asked to stop. If it does not stop in time, ends the
 * process: its leases expire then.
 * @throws SchemaError, QueueSetupError or CodedError if the worker cannot start or must not continue
 */
export async function runWorker({ config, log, work, stop, stoppedAtMs }: WorkerOptions): Promise<void> {
  const databaseUrl = config.DATABASE_URL ?? '';
  const parts = { config, databaseUrl, log };
  const stopped = once(stop, 'abort');
  const closers = new Closers();
  let daemon: Daemon | null = null;
  try {
    const { db } = closers.add(connectDatabase(databaseUrl, log, 'admin', adminPoolSize, adminQueryMs));
    const readers = openStateReaders(db, config);
    // A queue that is closed cannot be asked any more.
    const queues = () => (stop.aborted ? [] : (daemon?.queues ?? []));
    const sinceLastSweepMs = () => daemon?.sinceLastSweepMs();
    const metrics = new Metrics({ config, log, work, readState: readers.readState, queues, sinceLastSweepMs });
    // The last export reads the state, so the database is closed after it.
    const telemetry = await openTelemetry(config, metrics, log);
    if (telemetry !== null) closers.add(telemetry);
    const admin = closers.add(await startAdmin({ config, db, log, metrics, readers, daemon: () => daemon }));
    log.info({ event: 'admin_listening', host: config.ADMIN_HOST, port: admin.port });
    daemon = await boot({ ...parts, metrics: work, tracing: telemetry?.tracing ?? null }, stop);
    if (daemon === null) return;
    if (stoppedAtMs !== null)
      log.info({ event: 'worker_restarted', withoutWorkerMs: Math.round(performance.now() - stoppedAtMs) });
    const outdated = await Promise.race([stopped.then(() => null), daemon.outdated]);
    // Something hangs and would keep the process alive. The process ends here, and its leases expire.
    if (!(await daemon.stop())) process.exit(1);
    if (outdated !== null) throw outdated;
  } finally {
    await closers.closeAll();
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
async function boot(options: DaemonOptions, stop: AbortSignal): Promise<Daemon | null> {
  const { config, log } = options;
  while (!stop.aborted) {
    try {
      return await startDaemon(options);
    } catch (error) {
      if (!isUnreachable(error, config.REDIS_URL !== undefined)) throw error;
      log.warn({ event: 'boot_waits', retryMs: bootRetryMs, ...errorFields(error) });
      // An abort ends the wait; the loop then ends.
      await wait(bootRetryMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }
  return null;
}
