import { defaultSchedules, type JobName, jobNames, polledStreams, pushJob, toScheduleVariable } from './jobs.ts';
import { parseSchedule, type Schedule } from './schedules.ts';

/** Reads the schedules of all jobs, and the sweep of the push. Adds one line per problem to `problems`. */
export function readSchedules(
  env: Record<string, string | undefined>,
  problems: string[],
): { readonly schedules: Readonly<Record<JobName, Schedule>>; readonly pushSweepMs: number | null } {
  const names = [...jobNames, pushJob.name];
  const known = new Map<string, string>(names.map((job) => [toScheduleVariable(job), job]));
  for (const name of Object.keys(env)) {
    if (!name.startsWith('SCHEDULE_') || known.has(name)) continue;
    problems.push(`${name}: is not the schedule of a job; known are ${[...known.keys()].join(', ')}`);
  }
  const read = (job: string, fallback: string): Schedule => {
    try {
      const schedule = parseSchedule(env[toScheduleVariable(job)] ?? fallback);
      if (schedule.kind === 'every' && schedule.slowMs !== undefined && !(job in polledStreams))
        problems.push(`${toScheduleVariable(job)}: only jobs that poll a stream can have two intervals; name one`);
      return schedule;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problems.push(`${toScheduleVariable(job)}: ${error.message}`);
      return { kind: 'off' };
    }
  };
  const schedules = Object.fromEntries(jobNames.map((job) => [job, read(job, defaultSchedules[job])]));
  const push = read(pushJob.name, pushJob.sweep);
  if (push.kind !== 'every' && push.kind !== 'off')
    problems.push(
      `${toScheduleVariable(pushJob.name)}: must be a span such as 15s, or off; rows are pushed as soon as they arrive`,
    );
  const pushSweepMs = push.kind === 'every' ? push.everyMs : null;
  return { schedules: schedules as Record<JobName, Schedule>, pushSweepMs };
}
