/**
 * This folder: the commands. A command returns its exit code: 0 if all went well, 2 for wrong
 * usage, 1 otherwise.
 */

import type { Command } from 'commander';
import { jobNames, pushJob, runnableNames } from '../../../config/jobs.ts';
import { changeInWords } from '../../core/database-mark.ts';
import { toDirectUrl } from '../../db/connect.ts';
import type { Database } from '../../db/pool.ts';
import { readPushDatabase } from '../../push/sql/push-database.ts';
import type { RunReport } from '../../schedule/run.ts';
import { runJob, toClientIdentity } from '../../schedule/runs.ts';
import { findRefusal } from '../../schedule/sql/start-runs.ts';
import { registerClients } from '../../service/sql/clients.ts';
import {
  addCommand,
  type CommonOptions,
  exitWith,
  forClient,
  print,
  UsageError,
} from '../command-line.ts';
import { describeEnd, exitCodeFor, withForeground } from '../with-foreground.ts';
import { openPusher } from '../worker/open-pusher.ts';

/** Runs one job once in this process, for one client or for all, even if it is not due. */
async function runCommand(name: string, { client: only }: CommonOptions): Promise<number> {
  if (name === pushJob.name) return pushOnce(only);
  const job = jobNames.find((known) => known === name);
  if (job === undefined)
    throw new UsageError(`There is no job ${name}; known are ${runnableNames.join(', ')}`);
  return withForeground(only, false, async ({ deps, clients, stop }) => {
    const reports: RunReport[] = [];
    for (const client of clients) {
      const report = await runJob(deps, job, client, 'manual', stop);
      print(`${client.key} ${job}: ${describeReport(report)}`);
      reports.push(report);
    }
    return exitCodeFor(reports);
  });
}

/**
 * Pushes the rows that are due, until none is due. Leaves the rows that wait for their time or for
 * a person.
 */
async function pushOnce(only: string | undefined): Promise<number> {
  return withForeground(only, false, async ({ deps, clients, stop }) => {
    const counts = new Map(clients.map(({ key }) => [key, new Map<string, number>()]));
    const onSettled = ({
      client,
      status,
    }: {
      readonly client: string;
      readonly status: string;
    }) => {
      const clientCounts = counts.get(client);
      clientCounts?.set(status, (clientCounts.get(status) ?? 0) + 1);
    };
    await registerClients(deps.db, clients.map(toClientIdentity));
    const databaseUrl = toDirectUrl(deps.config);
    const { pusher, close } = openPusher({ ...deps, databaseUrl, onSettled });
    try {
      stop.addEventListener('abort', () => void pusher.stop(0), { once: true });
      await pusher.drain();
    } finally {
      await close();
    }
    const heldBecause = await explainHold(deps.db);
    const refusals = await Promise.all(
      clients.map((client) =>
        findRefusal(deps.db, { ...toClientIdentity(client), job: pushJob.name }),
      ),
    );
    for (const [index, { key }] of clients.entries()) {
      const counted = [...(counts.get(key) ?? [])]
        .map(([status, count]) => `${status} ${count}`)
        .join(', ');
      const refusal = refusals[index];
      const skipped = refusal?.because ?? heldBecause;
      const text = skipped === null ? counted || 'nothing was due' : `skipped (${skipped})`;
      print(`${key} ${pushJob.name}: ${text}`);
    }
    const isParked = refusals.some((refusal) => refusal?.reason === 'identity');
    const isAnyDead = [...counts.values()].some((statuses) => statuses.has('dead'));
    return stop.aborted || isParked || heldBecause !== null || isAnyDead ? 1 : 0;
  });
}

/** Returns why nothing is sent from this database; null if rows are sent. */
async function explainHold(db: Database): Promise<string | null> {
  const database = await readPushDatabase(db);
  if (database === null) return null;
  const { change, acceptedAs } = database;
  if (change !== 'none')
    return `database_changed: ${changeInWords[change]}; say what it is: database accept --as moved, restored or copy`;
  return acceptedAs === 'copy' ? 'this database is a copy: nothing is sent from it' : null;
}

function describeReport(report: RunReport): string {
  const end = describeEnd(report);
  if (report.status === 'skipped') return end ?? report.status;
  const { pages, fetched, created, updated, removed, quarantined } = report.totals;
  const counts = `${fetched} fetched in ${pages} pages; rows created ${created}, updated ${updated}, removed ${removed}; quarantined ${quarantined}`;
  return end === null ? `${report.status}: ${counts}` : `${end} (${counts})`;
}

/** Adds `run`. */
export function addRunCommand(cli: Command): void {
  const example = 'fulfilment-sync run pull-shipments --client default';
  addCommand(cli, 'run', 'run one job once in this process, even if it is not due', example)
    .argument('<job>', runnableNames.join(', '))
    .option(...forClient)
    .action(exitWith(runCommand));
}
