import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { type Config, readConfig } from '../../../config/env.ts';
import { isUncoded } from '../../core/errors.ts';
import { sqlState } from '../../erp/connection/transaction.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { startAdmin } from '../admin/server.ts';
import { stopSignal } from '../cli/stop-signal.ts';
import { connectDatabase } from '../deps/database.ts';
import { openLogger } from '../logging/create-logger.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { WorkMetrics } from '../metrics/work-metrics.ts';
import { version } from '../version.ts';
import { type Daemon, startDaemon } from '../worker/daemon.ts';
import { startTracing, type Tracing } from '../worker/tracing.ts';

const bootRetryMs = 2_000;
/** How long after all is closed the process may last. */
const lingerMs = 1_000;
/** Connections of the admin server, and how long it waits for an answer: it must not add to an outage. */
const adminPoolSize = 3;
const adminQueryMs = 10_000;

/** Runs the daemon until it is stopped. */
export async function workerCommand(): Promise<number> {
  const config = readConfig({ database: true, clients: true });
  const log = await openLogger({ level: config.LOG_LEVEL, pretty: config.LOG_PRETTY });
  endOnUncaught(log);
  const stop = stopSignal((cause) => log.info({ event: 'worker_stopping', cause }));
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
      // Something that hangs would keep the process alive: it ends here, and its leases run out.
      if (!(await daemon.stop())) process.exit(1);
      if (outdated === null) return 0;
      throw outdated;
    } finally {
      await admin.close();
    }
  } finally {
    await Promise.all([close(), tracing?.close()]);
    // Connections that swallow what they are given keep a process alive whose work is done.
    setTimeout(() => process.exit(), lingerMs).unref();
  }
}

/** Starts anew, with new connections, while Postgres or Redis cannot be reached; null where stopped before that. */
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
      // Stopped in the middle of the wait: the loop sees it.
      await wait(bootRetryMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }
  return null;
}

/** Codes of what passes by itself; those of five characters are SQLSTATEs. */
const passingCodes: readonly RegExp[] = [
  // Connection refused, reset or timed out, name not resolved.
  /^(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND|08\d{3})$/,
  // Postgres starting up or shutting down; out of connections, disk or memory; read-only for now.
  /^(57P0[123]|53\d{3}|25006|database_read_only|database_lost)$/,
  // Others at work on the same rows: serialization failure, deadlock, lock timeout.
  /^(40001|40P01|55P03)$/,
];
/** Codes with which Redis begins an error that passes: full, loading, a replica, unable to write its disk, without a primary. */
const passingReplies = new Set(['OOM', 'LOADING', 'READONLY', 'MISCONF', 'MASTERDOWN']);

/**
 * Whether what is needed to begin is not to be had at present, though it may be in a moment.
 * @param hasRedis the queue is in Redis, whose driver gives errors of connections no code
 */
function isUnreachable(error: unknown, hasRedis: boolean): boolean {
  if (error instanceof AggregateError) return error.errors.every((one) => isUnreachable(one, hasRedis));
  if (passingCodes.some((passing) => passing.test(sqlState(error)))) return true;
  if (!hasRedis || !(error instanceof Error)) return false;
  if (error.name === 'ReplyError') return passingReplies.has(error.message.split(' ', 1)[0] ?? '');
  return error.name === 'ConnectionClosedError' || isUncoded(error);
}

/** After an error nobody caught, nothing in memory can be trusted; what is in the database can. */
function endOnUncaught(log: Logger): void {
  process.on('uncaughtException', (error) => {
    log.fatal({ event: 'uncaught', ...errorFields(error) });
    process.exit(1);
  });
}
