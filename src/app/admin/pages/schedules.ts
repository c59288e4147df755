import type { Config } from '../../../../config/env.ts';
import { type JobName, pushJob } from '../../../../config/jobs.ts';
import { type Schedule, writeSpan } from '../../../../config/schedules.ts';
import type { JobStatus } from '../../../erp/reports/job-status.ts';
import { times } from '../../health/problems.ts';
import type { Snapshot } from '../../health/snapshot.ts';
import { type Html, html } from './html.ts';
import { ago, badge, choice, table } from './view.ts';

/** `/schedules`: when each job is due next, and the buttons that change it. */
export function schedulesPage(snapshot: Snapshot, config: Config, csrf: string | null, only: string | undefined): Html {
  const own = new Set(config.clients.map(({ key }) => key));
  // Others are a command's own.
  const jobs = snapshot.jobs.filter(
    ({ client, job }) => own.has(client) && job in config.schedules && (only === undefined || client === only),
  );
  const rows = jobs.map((job) => [job.client, job.job, ...cellsOf(job, snapshot, config, csrf)]);
  const pushers = [...own]
    .filter((client) => only === undefined || client === only)
    .map((client) => [
      client,
      pushJob.name,
      config.pushSweepMs === null ? 'off' : 'as rows come',
      '–',
      '–',
      stateOfPause(snapshot, client, pushJob.name) ?? '–',
      buttons(snapshot, client, pushJob.name, csrf, false),
    ]);
  const headings = ['client', 'job', 'schedule', 'next run', 'last success', 'state', 'change'];
  return html`<h1>Schedules</h1>
<p>As this worker is set up. Pauses hold for every worker; what was missed is made good by one run.</p>
${own.size > 1 ? html`<form class="filter" method="get" action="/schedules">${choice('client', 'Client', [...own], only)} <button>Show</button></form>` : ''}
${table('Jobs of each client', headings, [...rows, ...pushers])}`;
}

function cellsOf(job: JobStatus, snapshot: Snapshot, config: Config, csrf: string | null) {
  const schedule = config.schedules[job.job as JobName] as Schedule | undefined;
  const text = schedule === undefined ? 'not known here' : describeSchedule(schedule);
  const mayRun = schedule !== undefined && schedule.kind !== 'off' && schedule.kind !== 'on-request';
  return [
    text,
    job.dueAt === null
      ? '–'
      : job.dueAt.getTime() - snapshot.now.getTime() < 1_000
        ? 'now'
        : ago(job.dueAt, snapshot.now),
    ago(job.lastSuccessAt, snapshot.now),
    stateOfPause(snapshot, job.client, job.job) ?? stateOf(job),
    buttons(snapshot, job.client, job.job, csrf, mayRun),
  ];
}

function stateOf({ running, lastOutcome, consecutiveFailures }: JobStatus): Html {
  if (running) return badge('note', 'running');
  if (consecutiveFailures > 0) return badge('bad', `failed ${times(consecutiveFailures)}`);
  return lastOutcome === null ? badge('note', 'waiting') : badge('good', lastOutcome);
}

function stateOfPause({ pauses, now }: Snapshot, client: string, job: string): Html | null {
  const pause = pauses.find((one) => one.job === job && (one.client === client || one.client === null));
  if (pause === undefined) return null;
  const whom = pause.client === null ? 'for every client, ' : '';
  return html`${badge('warn', 'paused')} <small>${whom}by ${pause.by}, ${ago(pause.since, now)}</small>`;
}

function buttons({ pauses }: Snapshot, client: string, job: string, csrf: string | null, mayRun: boolean): Html {
  if (csrf === null) return html``;
  const own = pauses.find((one) => one.job === job && one.client === client);
  const all = pauses.find((one) => one.job === job && one.client === null);
  const form = (action: string, text: string, whom: string) =>
    html`<form method="post" action="/schedules/${action}"><input type="hidden" name="_csrf" value="${csrf}"><input type="hidden" name="client" value="${whom}"><input type="hidden" name="job" value="${job}"><button aria-label="${text}: ${job} of ${whom === '' ? 'every client' : whom}">${text}</button></form>`;
  const pausing =
    all !== undefined
      ? form('resume', 'Resume for all', '')
      : own !== undefined
        ? form('resume', 'Resume', client)
        : form('pause', 'Pause', client);
  const running = mayRun && all === undefined && own === undefined ? form('run', 'Run now', client) : '';
  return html`<div class="buttons">${running}${pausing}</div>`;
}

/** A schedule as it would be written in the environment. */
function describeSchedule(schedule: Schedule): string {
  if (schedule.kind === 'every') return `every ${writeSpan(schedule.everyMs)}`;
  return schedule.kind === 'cron' ? `${schedule.pattern} (UTC)` : schedule.kind;
}
