import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { type Config, readConfig } from '../../../config/env.ts';
import { isUncoded } from '../../core/errors.ts';
import { readSqlState } from '../../erp/connection/transaction.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { startAdmin } from '../admin/server.ts';
import { createStopSignal } from '../cli/stop-signal.ts';
import { connectDatabase } from '../deps/database.ts';
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

/** Codes of errors that end by themselves. Codes of five characters are SQLSTATEs. */
const transientCodes: readonly RegExp[] = [
  // Connection refused, reset or timed out, name not resolved.
  /^(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND|08\d{3})$/,
  // Postgres starts up or shuts down; it has no connections, disk space or memory left; it is read-only.
  /^(57P0[123]|53\d{3}|25006|database_read_only|database_lost)$/,
  // Conflicts with other sessions: serialization failure, deadlock, lock timeout.
  /^(40001|40P01|55P03)$/,
];
/**
 * First words of replies of Redis that end by themselves: it is full, loads its data, is a replica, cannot write to its
 * disk, or has no primary.
 */
const transientReplies = new Set(['OOM', 'LOADING', 'READONLY', 'MISCONF', 'MASTERDOWN']);

/**
 * Returns true if Postgres or Redis cannot be used now, but perhaps soon.
 * @param hasRedis true if the queue is in Redis, whose driver gives connection errors no code
 */
function isUnreachable(error: unknown, hasRedis: boolean): boolean {
  if (error instanceof AggregateError) return error.errors.every((one) => isUnreachable(one, hasRedis));
  if (transientCodes.some((passing) => passing.test(readSqlState(error)))) return true;
  if (!hasRedis || !(error instanceof Error)) return false;
  if (error.name === 'ReplyError') return transientReplies.has(error.message.split(' ', 1)[0] ?? '');
  return error.name === 'ConnectionClosedError' || isUncoded(error);
}

/** Ends the process after an uncaught error: its memory cannot be trusted any more, but the database can. */
function exitOnUncaughtError(log: Logger): void {
  process.on('uncaughtException', (error) => {
    log.fatal({ event: 'uncaught', ...errorFields(error) });
    process.exit(1);
  });
}
