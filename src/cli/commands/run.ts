/**
 * This folder: the commands. A command returns its exit code: 0 if all went well, 2 for wrong
 * usage, 1 otherwise.
 */

import type { Command } from 'commander';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { describeHold } from '../../core/database-mark.ts';
import { toDirectUrl } from '../../db/connect.ts';
import { formatCount } from '../../operate/health/problem.ts';
import { readPushDatabase } from '../../push/sql/push-database.ts';
import type { RunReport } from '../../schedule/run.ts';
import { runJob, toClientIdentity } from '../../schedule/runs.ts';
import { readRefusal } from '../../schedule/sql/start-runs.ts';
import { registerClients } from '../../service/sql/clients.ts';
import { clientScope, everyWorker, isHeld, readHealth } from '../../service/sql/service-health.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  exitWith,
  forClient,
  jobArgument,
  print,
  printJson,
  UsageError,
} from '../command-line.ts';
import { describeEnd, type Foreground, runForClients, withForeground } from '../with-foreground.ts';
import { openPusher } from '../worker/open-pusher.ts';

/** Runs one job once in this process, for one client or for all, even if it is not due. */
async function runCommand(name: string, options: CommonOptions): Promise<number> {
  if (name === pushJob.name) return pushOnce(options);
  const job = jobNames.find((known) => known === name);
  if (job === undefined) throw new UsageError(`There is no job ${name}`);

  return runForClients(options, async ({ deps, stop }, client) => {
    const report = await runJob(deps, job, { client, trigger: 'manual' }, stop);
    const counts = report.status === 'skipped' ? {} : report.totals;
    const words = describeReport(report);
    const json = { client: client.key, job, status: report.status, ...counts, words };
    return { report, lines: [`${job}: ${words}`], json };
  });
}

/**
 * Pushes the rows that are due, until none is due. Leaves the rows that wait for their time or for
 * a person.
 */
async function pushOnce(options: CommonOptions): Promise<number> {
  return withForeground(options.client, async ({ deps, direct, clients, stop }) => {
    await registerClients(deps.db, clients.map(toClientIdentity));
    const counts = await drainOutbox({ deps, direct, clients, stop });
    const database = await readPushDatabase(direct);
    const heldBecause = database === null ? null : describeHold(database);
    // A copy needs no person: somebody has said that nothing is ever sent from it.
    const isCopy = database?.acceptedAs === 'copy' && database.change === 'none';
    const holds = await readHolds(deps);

    const job = pushJob.name;
    const ended = [];
    let isAnyParked = false;
    for (const client of clients) {
      const asked = { ...toClientIdentity(client), job };
      const refusal = await readRefusal(deps.db, asked);
      isAnyParked ||= refusal?.reason === 'identity';

      const settled = counts.get(client.key) ?? new Map<string, number>();
      const hold = settled.size === 0 ? holds.get(client.key) : undefined;
      const skipped = refusal?.because ?? heldBecause ?? hold ?? null;
      const counted = describeCounts(settled) || 'nothing was due';
      const words = skipped === null ? counted : `skipped (${skipped})`;
      const status = skipped === null ? 'done' : 'skipped';
      const rows = Object.fromEntries(settled);
      ended.push({ client: client.key, job, status, rows, words });
    }
    if (options.json) printJson(ended);
    else for (const { client, words } of ended) print(`${client} ${job}: ${words}`);

    const isAnyDead = [...counts.values()].some((statuses) => statuses.has('dead'));
    const isDatabaseHeld = heldBecause !== null && !isCopy;
    return stop.aborted || isAnyParked || isDatabaseHeld || isAnyDead ? 1 : 0;
  });
}

/** Reads why nothing is sent to the service of a client, and until when, by client. */
async function readHolds({ db, worker }: Foreground['deps']): Promise<ReadonlyMap<string, string>> {
  const holds = (await readHealth(db)).filter(
    (one) => one.scope === clientScope && [everyWorker, worker].includes(one.worker) && isHeld(one),
  );
  return new Map(
    holds.map(({ client, cause, nextAt }) => [
      client,
      `${cause.words}; tried again at ${nextAt.toISOString()}`,
    ]),
  );
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

const describeCounts = (counts: StatusCounts) =>
  [...counts].map(([status, count]) => `${status} ${count}`).join(', ');

function describeReport(report: RunReport): string {
  const end = describeEnd(report);
  if (report.status === 'skipped') return end ?? report.status;

  const { pages, fetched, created, updated, removed, quarantined, warnings } = report.totals;
  const counts =
    `${fetched} fetched in ${formatCount(pages, 'page')}; ` +
    `rows created ${created}, updated ${updated}, removed ${removed}; quarantined ${quarantined}`;
  const sentence = end === null ? `${report.status}: ${counts}` : `${end} (${counts})`;
  return [sentence, ...warnings].join('\n  ');
}

/** Adds `run`. */
export function addRunCommand(cli: Command): void {
  addCommand(cli, {
    name: 'run',
    description: 'run one job once in this process, even if it is not due',
    examples: 'pull-shipments --client default',
  })
    .addArgument(jobArgument())
    .option(...forClient)
    .option(...asJson)
    .action(exitWith(runCommand));
}
