/**
 * The page of the schedules. It shows the configuration of this worker, and the pauses of all.
 */

import type { Config } from '../../../../config/env.ts';
import { type JobName, pushJob } from '../../../../config/jobs.ts';
import { type Schedule, writeSpan } from '../../../../config/schedules.ts';
import { type Html, html } from '../../../core/html.ts';
import type { JobStatus } from '../../../erp/reports/job-status.ts';
import { formatTimes } from '../../health/find-problems.ts';
import type { Snapshot } from '../../health/snapshot.ts';
import { ago, badge, choice, table } from './view.ts';

/**
 * Renders `/schedules`.
 * @param csrf token of the forms; null for a viewer, who gets no buttons
 * @param only key of the only client to show; undefined for all
 */
export function renderSchedulesPage(
  snapshot: Snapshot,
  config: Config,
  csrf: string | null,
  only: string | undefined,
): Html {
  const configuredClients = new Set(config.clients.map(({ key }) => key));
  // Other names are commands, which have no schedule.
  const jobs = snapshot.jobs.filter(
    ({ client, job }) =>
      configuredClients.has(client) && job in config.schedules && (only === undefined || client === only),
  );
  const rows = jobs.map((job) => [job.client, job.job, ...toCells(job, snapshot, config, csrf)]);
  const pushers = [...configuredClients]
    .filter((client) => only === undefined || client === only)
    .map((client) => [
      client,
      pushJob.name,
      config.pushSweepMs === null ? 'off' : 'when rows arrive',
      '–',
      '–',
      renderPause(snapshot, client, pushJob.name) ?? '–',
      renderButtons(snapshot, client, pushJob.name, csrf, false),
    ]);
  const headings = ['client', 'job', 'schedule', 'next run', 'last success', 'state', 'actions'];
  return html`<h1>Schedules</h1>
<p>The schedules of this worker. A pause applies to all workers. After it, one run makes up for all missed runs.</p>
${configuredClients.size > 1 ? html`<form class="filter" method="get" action="/schedules">${choice('client', 'Client', [...configuredClients], only)} <button>Show</button></form>` : ''}
${table('Jobs of each client', headings, [...rows, ...pushers])}`;
}

/** Returns the cells of a job after its name. */
function toCells(job: JobStatus, snapshot: Snapshot, config: Config, csrf: string | null) {
  const schedule = config.schedules[job.job as JobName] as Schedule | undefined;
  const text = schedule === undefined ? 'unknown job' : describeSchedule(schedule);
  const mayRun = schedule !== undefined && schedule.kind !== 'off' && schedule.kind !== 'on-request';
  return [
    text,
    job.dueAt === null
      ? '–'
      : job.dueAt.getTime() - snapshot.now.getTime() < 1_000
        ? 'now'
        : ago(job.dueAt, snapshot.now),
    ago(job.lastSuccessAt, snapshot.now),
    renderPause(snapshot, job.client, job.job) ?? renderJobState(job),
    renderButtons(snapshot, job.client, job.job, csrf, mayRun),
  ];
}

/** Renders how the last run of a job ended, or that one is under way. */
function renderJobState({ running, lastOutcome, consecutiveFailures }: JobStatus): Html {
  if (running) return badge('note', 'running');
  if (consecutiveFailures > 0) return badge('bad', `failed ${formatTimes(consecutiveFailures)}`);
  return lastOutcome === null ? badge('note', 'waiting') : badge('good', lastOutcome);
}

/** Renders the pause of a job; null if it is not paused. */
function renderPause({ pauses, now }: Snapshot, client: string, job: string): Html | null {
  const pause = pauses.find((one) => one.job === job && (one.client === client || one.client === null));
  if (pause === undefined) return null;
  const scope = pause.client === null ? 'for every client, ' : '';
  return html`${badge('warn', 'paused')} <small>${scope}by ${pause.by}, ${ago(pause.since, now)}</small>`;
}

/** Renders the buttons of a job. */
function renderButtons({ pauses }: Snapshot, client: string, job: string, csrf: string | null, mayRun: boolean): Html {
  if (csrf === null) return html``;
  const clientPause = pauses.find((one) => one.job === job && one.client === client);
  const commonPause = pauses.find((one) => one.job === job && one.client === null);
  const renderForm = (action: string, text: string, target: string) =>
    html`<form method="post" action="/schedules/${action}"><input type="hidden" name="_csrf" value="${csrf}"><input type="hidden" name="client" value="${target}"><input type="hidden" name="job" value="${job}"><button aria-label="${text}: ${job} of ${target === '' ? 'every client' : target}">${text}</button></form>`;
  const pauseButton =
    commonPause !== undefined
      ? renderForm('resume', 'Resume for all', '')
      : clientPause !== undefined
        ? renderForm('resume', 'Resume', client)
        : renderForm('pause', 'Pause', client);
  const runButton =
    mayRun && commonPause === undefined && clientPause === undefined ? renderForm('run', 'Run now', client) : '';
  return html`<div class="row-buttons">${runButton}${pauseButton}</div>`;
}

/** Formats a schedule as in the environment. */
export function describeSchedule(schedule: Schedule): string {
  if (schedule.kind === 'every')
    return `every ${writeSpan(schedule.everyMs)}${schedule.slowMs === undefined ? '' : ` to ${writeSpan(schedule.slowMs)}`}`;
  return schedule.kind === 'cron' ? `${schedule.pattern} (UTC)` : schedule.kind;
}
