import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { type Config, readConfig } from '../../../config/env.ts';
import { sqlState } from '../../erp/transaction.ts';
import { startProbes } from '../admin/probes.ts';
import { type Daemon, startDaemon } from '../daemon.ts';
import { createLogger, errorFields, type Logger } from '../log.ts';
import { stopSignal } from '../stop-signal.ts';

const bootRetryMs = 2_000;

/** Runs the daemon until it is stopped. */
export async function workerCommand(): Promise<number> {
  const config = readConfig({ database: true, clients: true });
  const log = createLogger({ level: config.LOG_LEVEL, pretty: config.LOG_PRETTY ?? process.stdout.isTTY });
  endOnUncaught(log);
  const stop = stopSignal((cause) => log.info({ event: 'worker_stopping', cause }));
  const stopped = once(stop, 'abort');
  let daemon: Daemon | null = null;
  const probes = await startProbes(config.ADMIN_HOST, config.ADMIN_PORT, () => daemon?.sinceLastSweepMs());
  log.info({ event: 'probes_listening', host: config.ADMIN_HOST, port: probes.port });
  try {
    daemon = await boot(config, log, stop);
    if (daemon === null) return 0;
    const outdated = await Promise.race([stopped.then(() => null), daemon.outdated]);
    // Something that hangs would keep the process alive: it ends here, and its leases run out.
    if (!(await daemon.stop())) process.exit(1);
    if (outdated === null) return 0;
    throw outdated;
  } finally {
    await probes.close();
  }
}

/** Starts anew, with new connections, while Postgres or Redis cannot be reached; null where stopped before that. */
async function boot(config: Config, log: Logger, stop: AbortSignal): Promise<Daemon | null> {
  while (!stop.aborted) {
    try {
      return await startDaemon(config, config.DATABASE_URL ?? '', log);
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      log.warn({ event: 'boot_waits', retryMs: bootRetryMs, ...errorFields(error) });
      // Stopped in the middle of the wait: the loop sees it.
      await wait(bootRetryMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }
  return null;
}

/** Connection refused, reset or timed out, name not resolved; Postgres starting up or shutting down. */
function isUnreachable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isUnreachable);
  const code = sqlState(error);
  if (/^(ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND|57P0[123]|08\d{3})$/.test(code))
    return true;
  return (
    error instanceof Error &&
    /Connection (is closed|terminated)|timeout exceeded when trying to connect/.test(error.message)
  );
}

/** After an error nobody caught, nothing in memory can be trusted; what is in the database can. */
function endOnUncaught(log: Logger): void {
  process.on('uncaughtException', (error) => {
    log.fatal({ event: 'uncaught', ...errorFields(error), stack: error.stack });
    process.exit(1);
  });
}
