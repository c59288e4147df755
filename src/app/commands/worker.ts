import { ConfigError } from '../../../config/config-error.ts';
import { type Config, readConfig } from '../../../config/env.ts';
import { rememberEnvironment } from '../../../config/env-file.ts';
import { describeError } from '../../core/errors.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { HangUps } from '../cli/hang-ups.ts';
import { createStopSignal } from '../cli/stop-signal.ts';
import { openLogger } from '../logging/create-logger.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { WorkMetrics } from '../metrics/work-metrics.ts';
import { version } from '../version.ts';
import { runWorker } from '../worker/run-worker.ts';

/** Time after which the process is ended if something keeps it alive although everything is closed. */
const lingerMs = 1_000;

const needs = { database: true, clients: true };

/**
 * Runs a worker until the process is asked to stop. SIGHUP replaces the worker with one that is built from the
 * configuration as it is then. A wrong configuration changes nothing.
 * @param envFile the file of `--env-file`; undefined if there is none
 */
export async function workerCommand(envFile: string | undefined): Promise<number> {
  const hangUps = new HangUps();
  const withPresentEnvironment = rememberEnvironment(envFile);
  let config = readConfig(needs);
  let log = await openLog(config);
  exitOnUncaughtError(() => log);
  const stop = createStopSignal((cause) => log.info({ event: 'worker_stopping', cause }));
  const kinds = outboxKinds.map(({ name }) => name);
  const work = new WorkMetrics(version, kinds);
  let stoppedAtMs: number | null = null;
  try {
    while (true) {
      const restart = new AbortController();
      const next = findNextConfig(hangUps, () => withPresentEnvironment(() => readConfig(needs)), log).then((found) => {
        if (!stop.aborted) log.info({ event: 'worker_restarting', cause: 'SIGHUP' });
        restart.abort();
        return { config: found, stoppedAtMs: performance.now() };
      });
      await runWorker({ config, log, work, stop: AbortSignal.any([stop, restart.signal]), stoppedAtMs });
      if (stop.aborted) return 0;
      ({ config, stoppedAtMs } = await next);
      log = await openLog(config);
    }
  } finally {
    // Half-open connections would keep the process alive although its work is done.
    setTimeout(() => process.exit(), lingerMs).unref();
  }
}

/** Waits for a SIGHUP after which the configuration is right, and returns it. Logs what is wrong in others. */
async function findNextConfig(hangUps: HangUps, read: () => Config, log: Logger): Promise<Config> {
  while (true) {
    await hangUps.next();
    try {
      return read();
    } catch (error) {
      const problems = error instanceof ConfigError ? error.problems : [describeError(error)];
      log.error({ event: 'config_refused', cause: 'SIGHUP', problems });
    }
  }
}

/** Opens the log. While traces are sent, each line has the ids of its span; otherwise no library of them is loaded. */
async function openLog({ LOG_LEVEL: level, LOG_PRETTY: pretty, telemetry }: Config): Promise<Logger> {
  const traces = telemetry?.traces ? await import('../telemetry/traces.ts') : undefined;
  return openLogger({ level, pretty, readSpanIds: traces?.readSpanIds });
}

/** Ends the process after an uncaught error: its memory cannot be trusted any more, but the database can. */
function exitOnUncaughtError(readLog: () => Logger): void {
  process.on('uncaughtException', (error) => {
    readLog().fatal({ event: 'uncaught', ...errorFields(error) });
    process.exit(1);
  });
}
