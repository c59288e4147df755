import type { Config } from '../../../config/env.ts';
import type { JobName } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { bringDueTimesForward, readScheduleClock } from '../../erp/runs/due-jobs.ts';
import { ensureJobs, type WantedJob } from '../../erp/runs/start-run.ts';
import { findNextDue } from '../../queue/next-due.ts';

/** Milliseconds that a job that sets its own due time may be later than its schedule. */
const selfPacedSlackMs = 60_000;

/** Gives jobs of clients their rows in `sync.jobs`. A schedule that became shorter takes effect at once. */
export async function prepareJobs(
  db: Database,
  config: Config,
  clients: readonly string[],
  names: readonly JobName[],
): Promise<void> {
  const now = await readScheduleClock(db);
  const clientJobs = clients.flatMap((client) =>
    names.map((job) => ({ client, job, stream: jobs[job].stream?.name ?? null })),
  );
  const wanted: WantedJob[] = clientJobs.map(({ client, job, stream }) => {
    const schedule = config.schedules[job];
    if (schedule.kind === 'off' || schedule.kind === 'on-request') return { client, job, stream, due: 'never' };
    // Long work first runs when its schedule says so. Before the first load there is nothing to compare.
    const due = jobs[job].queue === 'bulk' ? findNextDue(schedule, now, { client, job }) : null;
    return { client, job, stream, due };
  });
  await ensureJobs(db, wanted);
  const latest = clientJobs.flatMap(({ client, job }) => {
    const schedule = config.schedules[job];
    const due = findNextDue(schedule, now, { client, job });
    if (due === null) return [];
    if (!jobs[job].ownPace) return [{ client, job, due, ifNever: due }];
    // The gate of such a job may open later than the schedule says. A restart must not make it try before.
    const latestDue = schedule.kind === 'every' ? new Date(now.getTime() + schedule.everyMs + selfPacedSlackMs) : due;
    return [{ client, job, due: latestDue, ifNever: now }];
  });
  await bringDueTimesForward(db, latest);
}
