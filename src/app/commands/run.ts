import { type JobName, jobNames } from '../../../config/schedules.ts';
import type { RunReport } from '../../sync/run.ts';
import { describeEnd, exitCodeFor, inForeground } from '../foreground.ts';
import { runJob } from '../runner.ts';
import { UsageError } from '../usage.ts';

export interface RunOptions {
  readonly client?: string;
}

/**
 * Runs one job once, in this process, for one client or for all, due or not.
 * @throws UsageError where the job or the client is not known
 */
export async function runCommand(job: string, { client: only }: RunOptions): Promise<number> {
  if (!isJobName(job)) throw new UsageError(`There is no job ${job}; known are ${jobNames.join(', ')}`);
  return inForeground(only, false, async ({ deps, clients, stop }) => {
    const reports: RunReport[] = [];
    for (const client of clients) {
      const report = await runJob(deps, job, client, 'manual', stop);
      process.stdout.write(`${client.key} ${job}: ${describeReport(report)}\n`);
      reports.push(report);
    }
    return exitCodeFor(reports);
  });
}

function isJobName(name: string): name is JobName {
  return (jobNames as string[]).includes(name);
}

function describeReport(report: RunReport): string {
  const end = describeEnd(report);
  if (report.status === 'skipped') return end ?? report.status;
  const { pages, fetched, created, updated, removed, quarantined } = report.totals;
  const counts = `${fetched} fetched in ${pages} pages; rows created ${created}, updated ${updated}, removed ${removed}; quarantined ${quarantined}`;
  return end === null ? `${report.status}: ${counts}` : `${end} (${counts})`;
}
