import { type Config, readConfig } from '../../config/env.ts';
import type { JobName } from '../../config/schedules.ts';
import { connectDatabase, openLeaseKeeper, openWarehouses } from '../../src/app/deps.ts';
import { createLogger } from '../../src/app/log.ts';
import { runJob } from '../../src/app/runner.ts';
import type { RunReport } from '../../src/sync/run.ts';
import type { TestDatabase } from './database.ts';
import type { SandboxControl } from './sandbox.ts';

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

export type Pull = (job: JobName, options?: { env?: Record<string, string>; stop?: AbortSignal }) => Promise<RunReport>;

/** Runs jobs in this process, as `fulfilment-sync run` does. */
export function usePuller(database: TestDatabase, sandbox: SandboxControl): Pull {
  return async (job, { env, stop = new AbortController().signal } = {}) => {
    const config = configFor(database, sandbox, env);
    const main = connectDatabase(database.url, log);
    const leases = openLeaseKeeper(database.url, log);
    const { warehouses, close } = openWarehouses(config);
    const deps = { config, db: main.db, keeper: leases.keeper, warehouses, worker: 'test', log, said: new Map() };
    const client = config.clients[0];
    if (client === undefined) throw new Error('no client configured');
    try {
      return await runJob(deps, job, client, 'manual', stop);
    } finally {
      await Promise.all([close(), leases.close(), main.close()]);
    }
  };
}

/** The totals of a run that must have ended well. */
export function done(report: RunReport) {
  if (report.status !== 'done')
    throw new Error(`The run was ${report.status}`, { cause: 'error' in report ? report.error : undefined });
  return report.totals;
}
