import { type Config, readConfig } from '../../config/env.ts';
import type { WarehouseClient } from '../../config/files.ts';
import type { JobName } from '../../config/jobs.ts';
import { jobs } from '../../jobs/registry.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { reconcileStream } from '../../src/pull/rescan.ts';
import type { Rescan } from '../../src/pull/sql/rescans.ts';
import { toRescanContext } from '../../src/pull/stream.ts';
import { streams } from '../../src/pull/streams/all-streams.ts';
import { FeedNumbering } from '../../src/push/feed-numbering.ts';
import type { Trigger } from '../../src/schedule/decide-start.ts';
import type { RunContext, RunReport } from '../../src/schedule/run.ts';
import { type RunnerDeps, runJob, runWork } from '../../src/schedule/runs.ts';
import { DueRuns } from '../../src/schedule/start-due.ts';
import { openWarehouses } from '../../src/service/open-warehouses.ts';
import { type TestDatabase, useDatabase } from './database.ts';
import { compareWithSandbox } from './oracle.ts';
import { useSandbox } from './sandbox.ts';
import type { SandboxControl } from './sandbox-control.ts';

/**
 * Returns the configuration of one client `default` of a sandbox, with a short time limit for
 * requests.
 */
export function makeConfig(
  database: Pick<TestDatabase, 'url'>,
  sandbox: SandboxControl,
  env: Record<string, string> = {},
): Config {
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

/** Every job that has a schedule. Orders come after the shipments that name them. */
export const dailyJobs: readonly JobName[] = [
  'refresh-settings',
  'pull-shipments',
  'pull-orders',
  'pull-return-items',
  'pull-inbounds',
  'pull-inbound-packing-slips',
  'track-trace',
  'pull-parcels',
  'pull-stock',
  'reconcile',
  'prune',
];

export type Pull = (
  job: JobName,
  options?: { env?: Record<string, string>; stop?: AbortSignal; trigger?: Trigger },
) => Promise<RunReport>;

/** Calls `run` for the client `default` with new connections to the service. */
export async function runInProcess<T>(
  config: Config,
  database: Pick<TestDatabase, 'forRuns'>,
  run: (deps: RunnerDeps, client: WarehouseClient) => Promise<T>,
): Promise<T> {
  const { db, keeper } = database.forRuns();
  const { warehouses, close } = openWarehouses(config);
  const feed = new FeedNumbering(db, () => undefined);
  const deps = {
    jobs,
    config,
    db,
    keeper,
    warehouses,
    worker: 'test',
    log: silentLogger,
    reportedWarnings: new Map(),
    numberFeed: feed.number,
  };
  const client = config.clients[0];
  if (client === undefined) throw new Error('no client configured');
  try {
    return await run(deps, client);
  } finally {
    await Promise.all([feed.close(), close()]);
  }
}

/** Calls `work` with the runs of a worker, and waits for those that it began. */
export const withDueRuns = (
  config: Config,
  database: Pick<TestDatabase, 'forRuns'>,
  work: (runs: DueRuns) => Promise<unknown>,
): Promise<void> =>
  runInProcess(config, database, async (deps) => {
    const runs = new DueRuns(deps, new AbortController().signal, () => undefined);
    await work(runs);
    await runs.ended();
  });

/** Returns a function that runs jobs in this process, as `fulfilment-sync run` does. */
export function usePuller(
  database: Pick<TestDatabase, 'url' | 'forRuns'>,
  sandbox: SandboxControl,
): Pull {
  return async (job, { env, stop = new AbortController().signal, trigger = 'manual' } = {}) => {
    // Otherwise many look-ups of packages wait for each other.
    const pace: Record<string, string> =
      job === 'pull-parcels' ? { REQUESTS_PER_SECOND: '1000' } : {};
    return runInProcess(
      makeConfig(database, sandbox, { ...pace, ...env }),
      database,
      (deps, client) => runJob(deps, job, { client, trigger }, stop),
    );
  };
}

/** Returns a function that runs any work under a lease of the given name, as commands do. */
export function useWork(database: TestDatabase, sandbox: SandboxControl) {
  return (
    name: string,
    run: (context: RunContext) => Promise<void>,
    env: Record<string, string> = {},
  ): Promise<RunReport> =>
    runInProcess(makeConfig(database, sandbox, env), database, (deps, client) =>
      runWork(deps, { name, run }, { client, trigger: 'manual' }, new AbortController().signal),
    );
}

/**
 * Returns a function that reconciles one stream, as the command does. It returns the report of the
 * run, and the reconciliation; null if it failed.
 */
function useReconcile(database: TestDatabase, sandbox: SandboxControl) {
  const work = useWork(database, sandbox);

  return async (name: string, { acceptMissing = false } = {}) => {
    const stream = streams.find((known) => known.name === name);
    if (stream === undefined) throw new Error(`no stream ${name}`);

    const found: Rescan[] = [];
    const report = await work('reconcile', async (context) => {
      const rescanContext = toRescanContext(context, stream);
      found.push(await reconcileStream(rescanContext, 'command', acceptMissing));
    });
    return { report, rescan: found[0] ?? null };
  };
}

/** Gives every test of the file a database, a sandbox, and pulls between them. */
export function usePulls(options?: Parameters<typeof useSandbox>[1]) {
  const database = useDatabase();
  const sandbox = useSandbox(['default'], options);

  return {
    database,
    sandbox,
    pull: usePuller(database, sandbox),
    work: useWork(database, sandbox),
    reconcile: useReconcile(database, sandbox),
    /** Compares the tables of these streams with the sandbox, those of all streams by default. */
    findDifferences: (streams?: string[]) => compareWithSandbox(database.db, sandbox.url, streams),
  };
}

/** Returns the totals of a run. Throws an error if the run is not done. */
export function done(report: RunReport) {
  if (report.status !== 'done')
    throw new Error(`The run was ${report.status}`, {
      cause: 'error' in report ? report.error : undefined,
    });
  return report.totals;
}
