/** The JSON of pages that put several things together. All other pages send what they list. */

import type { Config } from '../../../../config/env.ts';
import { pushJob } from '../../../../config/jobs.ts';
import type { Schedule } from '../../../../config/schedules.ts';
import type { Overview } from '../../health/overview.ts';
import type { Snapshot } from '../../health/snapshot.ts';
import type { ChartedSpan } from '../../health/trends.ts';
import { describeSchedule } from '../pages/schedules.ts';

/** Makes the JSON of the overview. */
export function toOverviewJson({ snapshot, problems, stale, recent, charts }: Overview) {
  const { now, streams, outbox, gates } = snapshot;
  const rowsByStream = new Map(recent.map(({ client, stream, rows }) => [`${client}/${stream}`, rows]));
  return {
    now,
    problems,
    lateJobs: stale,
    streams: streams.map((row) => ({ ...row, recentRows: rowsByStream.get(`${row.client}/${row.stream}`) ?? [] })),
    outbox,
    charts: toChartsJson(charts),
    gates,
  };
}

/** Makes the JSON of charts. The series are those that are drawn. */
export const toChartsJson = (charts: readonly ChartedSpan[]) =>
  charts.map(({ title, drawn }) => ({ span: title, ...drawn }));

/** Makes the JSON of the schedules of this worker. */
export function toSchedulesJson(snapshot: Snapshot, config: Config, only: string | undefined) {
  const clients = config.clients.map(({ key }) => key).filter((key) => only === undefined || key === only);
  const schedules: Readonly<Partial<Record<string, Schedule>>> = config.schedules;
  const findPause = (client: string, job: string) => {
    const pause = snapshot.pauses.find((one) => one.job === job && (one.client === client || one.client === null));
    return pause === undefined ? null : { since: pause.since, by: pause.by, forEveryClient: pause.client === null };
  };
  const jobs = snapshot.jobs.flatMap(({ client, job, ...state }) => {
    const schedule = schedules[job];
    if (schedule === undefined || !clients.includes(client)) return [];
    const { dueAt, lastSuccessAt, running, lastOutcome, consecutiveFailures } = state;
    const pause = findPause(client, job);
    return [
      {
        client,
        job,
        schedule: describeSchedule(schedule),
        dueAt,
        lastSuccessAt,
        running,
        lastOutcome,
        consecutiveFailures,
        pause,
      },
    ];
  });
  const pushes = clients.map((client) => ({
    client,
    isOn: config.pushSweepMs !== null,
    pause: findPause(client, pushJob.name),
  }));
  return { now: snapshot.now, jobs, pushes };
}
