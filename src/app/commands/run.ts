import { readConfig } from '../../../config/env.ts';
import { type JobName, jobNames } from '../../../config/schedules.ts';
import { describeError, StoppedError } from '../../core/errors.ts';
import { assertSchemaFits } from '../../erp/migrate.ts';
import type { RunReport } from '../../sync/run.ts';
import { connectDatabase, openLeaseKeeper, openWarehouses, workerName } from '../deps.ts';
import { createLogger } from '../log.ts';
import { runJob } from '../runner.ts';
import { UsageError } from '../usage.ts';
import { version } from '../version.ts';

export interface RunOptions {
  readonly client?: string;
}

/**
 * Runs one job once, in this process, for one client or for all, due or not.
 * @throws UsageError where the job or the client is not known
 */
export async function runCommand(job: string, { client: only }: RunOptions): Promise<number> {
  if (!isJobName(job)) throw new UsageError(`There is no job ${job}; known are ${jobNames.join(', ')}`);
  const config = readConfig({ database: true, clients: true });
  const clients = config.clients.filter(({ key }) => only === undefined || key === only);
  if (clients.length === 0)
    throw new UsageError(
      `There is no client ${only ?? ''}; known are ${config.clients.map(({ key }) => key).join(', ')}`,
    );
  const databaseUrl = config.DATABASE_URL ?? '';
  const log = createLogger({ level: config.LOG_LEVEL, pretty: config.LOG_PRETTY ?? process.stdout.isTTY });
  const { db, close } = connectDatabase(databaseUrl, log);
  const leases = openLeaseKeeper(databaseUrl, log);
  const { warehouses, close: closeWarehouses } = openWarehouses(config);
  const stop = new AbortController();
  const onSignal = () => stop.abort(new StoppedError());
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  try {
    await assertSchemaFits(db, version);
    const deps = { config, db, keeper: leases.keeper, warehouses, worker: workerName(), log, said: new Map() };
    let failed = false;
    for (const client of clients) {
      const report = await runJob(deps, job, client, 'manual', stop.signal);
      process.stdout.write(`${client.key} ${job}: ${describeReport(report)}\n`);
      failed ||= report.status === 'failed' || report.status === 'lost';
    }
    return failed ? 1 : 0;
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    await Promise.all([closeWarehouses(), leases.close(), close()]);
  }
}

function isJobName(name: string): name is JobName {
  return (jobNames as string[]).includes(name);
}

function describeReport(report: RunReport): string {
  if (report.status === 'skipped') {
    const next = report.dueAt === null ? 'not scheduled' : `next due ${report.dueAt.toISOString()}`;
    return `skipped (a run is under way; ${next})`;
  }
  const { pages, fetched, created, updated, removed, quarantined } = report.totals;
  const counts = `${fetched} fetched in ${pages} pages; rows created ${created}, updated ${updated}, removed ${removed}; quarantined ${quarantined}`;
  return report.error === undefined
    ? `${report.status}: ${counts}`
    : `${report.status}: ${describeError(report.error)} (${counts})`;
}
