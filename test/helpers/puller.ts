import { type Config, readConfig } from '../../config/env.ts';
import type { WarehouseClient } from '../../config/files.ts';
import type { JobName } from '../../config/schedules.ts';
import { connectDatabase, openLeaseKeeper, openWarehouses } from '../../src/app/deps.ts';
import { createLogger } from '../../src/app/log.ts';
import { type RunnerDeps, runJob, runWork, type Work } from '../../src/app/runner.ts';
import type { Trigger } from '../../src/erp/runs.ts';
import type { RunReport } from '../../src/sync/run.ts';
import type { TestDatabase } from './database.ts';
import type { SandboxControl } from './sandbox-control.ts';

const log = createLogger({ level: 'silent', pretty: false });

/** Configuration of one client `default` of a sandbox; times are short so that faults are met quickly. */
export function configFor(database: TestDatabase, sandbox: SandboxControl, env: Record<string, string> = {}): Config {
  return readConfig(
    { database: true, clients: true },
    {
      DATABASE_URL: database.url,
      WAREHOUSE_BASE_URL: sandbox.url.href,
      WAREHOUSE_USERNAME: 'default',
      WAREHOUSE_PASSWORD: 'default',
      HTTP_TIMEOUT_MS: '5000',
      ...env,
    },
  );
}

export type Pull = (
  job: JobName,
  options?: { env?: Record<string, string>; stop?: AbortSignal; trigger?: Trigger },
) => Promise<RunReport>;

/** Opens what a run needs, runs it for the client `default` and closes all again. */
export async function inProcess<T>(
  config: Config,
  url: string,
  run: (deps: RunnerDeps, client: WarehouseClient) => Promise<T>,
): Promise<T> {
  const main = connectDatabase(url, log);
  const leases = openLeaseKeeper(url, log);
  const { warehouses, close } = openWarehouses(config);
  const deps = { config, db: main.db, keeper: leases.keeper, warehouses, worker: 'test', log, said: new Map() };
  const client = config.clients[0];
  if (client === undefined) throw new Error('no client configured');
  try {
    return await run(deps, client);
  } finally {
    await Promise.all([close(), leases.close(), main.close()]);
  }
}

/** Runs jobs in this process, as `fulfilment-sync run` does. */
export function usePuller(database: TestDatabase, sandbox: SandboxControl): Pull {
  return async (job, { env, stop = new AbortController().signal, trigger = 'manual' } = {}) =>
    inProcess(configFor(database, sandbox, env), database.url, (deps, client) =>
      runJob(deps, job, client, trigger, stop),
    );
}

/** Runs any work under a lease of that name, as commands do. */
export function useWork(database: TestDatabase, sandbox: SandboxControl) {
  return (name: string, run: Work['run'], env: Record<string, string> = {}): Promise<RunReport> =>
    inProcess(configFor(database, sandbox, env), database.url, (deps, client) =>
      runWork(deps, { name, run }, client, 'manual', new AbortController().signal),
    );
}

/** The totals of a run that must have ended well. */
export function done(report: RunReport) {
  if (report.status !== 'done')
    throw new Error(`The run was ${report.status}`, { cause: 'error' in report ? report.error : undefined });
  return report.totals;
}
