/**
 * This folder: the commands. A command returns its exit code: 0 if all went well, 2 for wrong
 * usage, 1 otherwise.
 */

import type { Command } from 'commander';
import { jobNames, pushJob, runnableNames } from '../../../config/jobs.ts';
import { describeHold } from '../../core/database-mark.ts';
import { toDirectUrl } from '../../db/connect.ts';
import type { Database } from '../../db/pool.ts';
import { formatCount } from '../../operate/health/problem.ts';
import { readPushDatabase } from '../../push/sql/push-database.ts';
import type { RunReport } from '../../schedule/run.ts';
import { runJob, toClientIdentity } from '../../schedule/runs.ts';
import { readRefusal } from '../../schedule/sql/start-runs.ts';
import { registerClients } from '../../service/sql/clients.ts';
import {
  addCommand,
  type CommonOptions,
  exitWith,
  forClient,
  print,
  UsageError,
} from '../command-line.ts';
import { describeEnd, exitCodeFor, type Foreground, withForeground } from '../with-foreground.ts';
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
      const report = await runJob(deps, job, { client, trigger: 'manual' }, stop);
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
  return withForeground(only, false, async ({ deps, direct, clients, stop }) => {
    await registerClients(deps.db, clients.map(toClientIdentity));
    const counts = await drainOutbox({ deps, direct, clients, stop });
    const heldBecause = await explainHold(direct);

    let isAnyParked = false;
    for (const client of clients) {
      const asked = { ...toClientIdentity(client), job: pushJob.name };
      const refusal = await readRefusal(deps.db, asked);
      isAnyParked ||= refusal?.reason === 'identity';

      const skipped = refusal?.because ?? heldBecause;
      const counted = describeCounts(counts.get(client.key)) || 'nothing was due';
      const text = skipped === null ? counted : `skipped (${skipped})`;
      print(`${client.key} ${pushJob.name}: ${text}`);
    }

    const isAnyDead = [...counts.values()].some((statuses) => statuses.has('dead'));
    return stop.aborted || isAnyParked || heldBecause !== null || isAnyDead ? 1 : 0;
  });
}

/** Numbers of settled rows by status. */
type StatusCounts = ReadonlyMap<string, number>;

/** Pushes until no row is due or the command is stopped. Counts what was settled, by client. */
async function drainOutbox({
  deps,
  clients,
  stop,
}: Foreground): Promise<ReadonlyMap<string, StatusCounts>> {
  const counts = new Map(clients.map(({ key }) => [key, new Map<string, number>()]));
  const { pusher, close } = openPusher({
    ...deps,
    databaseUrl: toDirectUrl(deps.config),
    onSettled: ({ client, status }) => {
      const clientCounts = counts.get(client);
      clientCounts?.set(status, (clientCounts.get(status) ?? 0) + 1);
    },
  });

  try {
    stop.addEventListener('abort', () => void pusher.stop(0), { once: true });
    await pusher.drain();
  } finally {
    await close();
  }

  return counts;
}

const describeCounts = (counts: StatusCounts = new Map()) =>
  [...counts].map(([status, count]) => `${status} ${count}`).join(', ');

/** Returns why nothing is sent from this database; null if rows are sent. */
async function explainHold(db: Database): Promise<string | null> {
  const database = await readPushDatabase(db);
  return database === null ? null : describeHold(database);
}

function describeReport(report: RunReport): string {
  const end = describeEnd(report);
  if (report.status === 'skipped') return end ?? report.status;

  const { pages, fetched, created, updated, removed, quarantined } = report.totals;
  const counts =
    `${fetched} fetched in ${formatCount(pages, 'page')}; ` +
    `rows created ${created}, updated ${updated}, removed ${removed}; quarantined ${quarantined}`;
  return end === null ? `${report.status}: ${counts}` : `${end} (${counts})`;
}

/** Adds `run`. */
export function addRunCommand(cli: Command): void {
  addCommand(cli, {
    name: 'run',
    description: 'run one job once in this process, even if it is not due',
    examples: 'fulfilment-sync run pull-shipments --client default',
  })
    .argument('<job>', runnableNames.join(', '))
    .option(...forClient)
    .action(exitWith(runCommand));
}
