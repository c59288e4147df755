/**
 * This folder: code that the commands share: connections, the choice of clients, signals, printing.
 * A command closes everything that it opened before it ends.
 */

import { readConfig } from '../../config/env.ts';
import type { WarehouseClient } from '../../config/files.ts';
import { jobs } from '../../jobs/registry.ts';
import { describeError, StoppedError } from '../core/errors.ts';
import { errorFields, silentLogger } from '../core/logger.ts';
import { connectForWriting, toAddress, toDirectUrl, workerName } from '../db/connect.ts';
import type { Database } from '../db/pool.ts';
import { assertSchemaFits } from '../db/schema-fit.ts';
import { FeedNumbering } from '../push/feed-numbering.ts';
import { noteDatabase } from '../push/sql/push-database.ts';
import type { RunReport } from '../schedule/run.ts';
import type { RunnerDeps } from '../schedule/runs.ts';
import { openLeaseKeeper } from '../schedule/sql/leases.ts';
import { openWarehouses } from '../service/open-warehouses.ts';
import { type CommonOptions, print, printJson, selectClients } from './command-line.ts';

/** Everything that a command needs to execute runs in its own process. */
export interface Foreground {
  readonly deps: RunnerDeps;
  /** The database at the address of pushes and leases. */
  readonly direct: Database;
  readonly clients: readonly WarehouseClient[];
  /** Aborts on SIGINT or SIGTERM. */
  readonly stop: AbortSignal;
}

/**
 * Opens everything that runs in this process need, calls `work`, and closes everything afterwards.
 * @throws UsageError if the client is not known
 */
export async function withForeground<T>(
  only: string | undefined,
  work: (foreground: Foreground) => Promise<T>,
): Promise<T> {
  const config = readConfig({ database: true, clients: true });
  const clients = selectClients(config, only);
  // The command prints how its runs end.
  const log = silentLogger;

  const { db, close } = connectForWriting(toAddress(config), log);
  const leases = openLeaseKeeper(toDirectUrl(config), log);
  const { warehouses, close: closeWarehouses } = openWarehouses(config, { log });
  const feed = new FeedNumbering(db, (error) =>
    log.warn({ event: 'feed_failed', ...errorFields(error) }),
  );

  const stop = new AbortController();
  const onSignal = () => stop.abort(new StoppedError());
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);

  try {
    await assertSchemaFits(db);

    const worker = workerName();
    // This must happen before any run: it notices a restored database, whose gates must wait.
    await noteDatabase(db, worker, []);

    const deps = {
      jobs,
      config: { ...config, clients },
      db,
      keeper: leases.keeper,
      warehouses,
      worker,
      log,
      reportedWarnings: new Map(),
      numberFeed: feed.number,
    };
    const foreground = { deps, direct: leases.db, clients, stop: stop.signal };
    return await work(foreground).finally(() => feed.close());
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    await Promise.all([closeWarehouses(), leases.close(), close()]);
  }
}

/** Describes how a run ended that is not done. Returns null if the run is done. */
export function describeEnd(report: RunReport): string | null {
  if (report.status === 'skipped') {
    const next = describeNextDue(report);
    return `skipped (${report.because}; ${next})`;
  }
  return report.error === undefined ? null : `${report.status}: ${describeError(report.error)}`;
}

function describeNextDue({ reason, nextAt }: Extract<RunReport, { status: 'skipped' }>): string {
  if (reason === 'paused') return 'next due once it is resumed';
  if (reason === 'identity') return 'next due once it is accepted';
  return nextAt === null ? 'not scheduled' : `next due ${nextAt.toISOString()}`;
}

/** What a command says about the run of one client: as lines, and as JSON. */
export interface ClientOutcome {
  readonly report: RunReport;
  readonly lines: readonly string[];
  readonly json: object;
  /** True if the run is done, but not what the command was called for. */
  readonly failed?: boolean;
}

/**
 * Runs something once for each client, one after the other, and prints the outcomes: at once, or as
 * one JSON list.
 * @returns the exit code: 0 if every run is done or was skipped, else 1. A run that was skipped
 *   because its client is parked also gives 1.
 */
export function runForClients(
  { client: only, json = false }: CommonOptions,
  run: (foreground: Foreground, client: WarehouseClient) => Promise<ClientOutcome>,
): Promise<number> {
  return withForeground(only, async (foreground) => {
    const outcomes: ClientOutcome[] = [];
    for (const client of foreground.clients) {
      const outcome = await run(foreground, client);
      outcomes.push(outcome);
      if (!json) for (const line of outcome.lines) print(`${client.key} ${line}`);
    }

    if (json) printJson(outcomes.map((outcome) => outcome.json));
    const isFine = ({ report, failed = false }: ClientOutcome) =>
      !failed &&
      (report.status === 'done' || (report.status === 'skipped' && report.reason !== 'identity'));
    return outcomes.every(isFine) ? 0 : 1;
  });
}
