/**
 * What commands share: connections, the choice of clients, signals, printing. A command closes what it has opened
 * before it ends.
 */

import { readConfig } from '../../../config/env.ts';
import type { WarehouseClient } from '../../../config/files.ts';
import { describeError, StoppedError } from '../../core/errors.ts';
import { noteDatabase } from '../../erp/outbox/push-database.ts';
import { assertSchemaFits } from '../../erp/schema/schema-fit.ts';
import type { RunReport } from '../../sync/run/run.ts';
import { connectForWriting, openLeaseKeeper, workerName } from '../deps/database.ts';
import { openWarehouses } from '../deps/warehouses.ts';
import { openLogger } from '../logging/create-logger.ts';
import { silentLogger } from '../logging/logger.ts';
import { version } from '../version.ts';
import type { RunnerDeps } from '../worker/runner.ts';
import { UsageError } from './usage.ts';

/** What a command that runs something itself works with. */
export interface Foreground {
  readonly deps: RunnerDeps;
  readonly clients: readonly WarehouseClient[];
  /** Aborted by SIGINT or SIGTERM. */
  readonly stop: AbortSignal;
}

/**
 * Opens everything a run in this process needs, and closes it afterwards.
 * @param only restricts it to one client
 * @param quietLog leaves standard output to what the command prints
 * @throws UsageError where the client is not known
 */
export async function inForeground<T>(
  only: string | undefined,
  quietLog: boolean,
  work: (foreground: Foreground) => Promise<T>,
): Promise<T> {
  const config = readConfig({ database: true, clients: true });
  const clients = config.clients.filter(({ key }) => only === undefined || key === only);
  if (clients.length === 0) {
    const known = config.clients.map(({ key }) => key).join(', ');
    throw new UsageError(`There is no client ${only ?? ''}; known are ${known}`);
  }
  const databaseUrl = config.DATABASE_URL ?? '';
  const log = quietLog ? silentLogger : await openLogger({ level: config.LOG_LEVEL, pretty: config.LOG_PRETTY });
  const { db, close } = connectForWriting(databaseUrl, log);
  const leases = openLeaseKeeper(databaseUrl, log);
  const { warehouses, close: closeWarehouses } = openWarehouses(config);
  const stop = new AbortController();
  const onSignal = () => stop.abort(new StoppedError());
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  try {
    await assertSchemaFits(db, version);
    const worker = workerName();
    // Before any run: after a restore, gates wait.
    await noteDatabase(db, worker, []);
    const deps = { config, db, keeper: leases.keeper, warehouses, worker, log, said: new Map() };
    return await work({ deps, clients, stop: stop.signal });
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    await Promise.all([closeWarehouses(), leases.close(), close()]);
  }
}

/** How a run ended that did not get done, in words; null where it did. */
export function describeEnd(report: RunReport): string | null {
  if (report.status === 'skipped') {
    const next = nextDueInWords(report);
    return `skipped (${report.because}; ${next})`;
  }
  return report.error === undefined ? null : `${report.status}: ${describeError(report.error)}`;
}

function nextDueInWords({ reason, dueAt }: Extract<RunReport, { status: 'skipped' }>): string {
  if (reason === 'paused') return 'next due once it is resumed';
  if (reason === 'identity') return 'next due once it is accepted';
  return dueAt === null ? 'not scheduled' : `next due ${dueAt.toISOString()}`;
}

/** Exit code of a command: 0 where all got done, or were refused by gate, pause or a run under way; else 1. */
export function exitCodeFor(reports: readonly RunReport[]): number {
  const isFine = (report: RunReport) =>
    report.status === 'done' || (report.status === 'skipped' && report.reason !== 'identity');
  return reports.every(isFine) ? 0 : 1;
}
