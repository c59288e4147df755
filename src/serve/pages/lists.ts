/** The pages of the quarantine and of the audit. Neither shows a resource or a payload. */

import type { Config } from '../../../config/env.ts';
import { type JobName, jobNames, pushJob } from '../../../config/jobs.ts';
import { type Schedule, writeSpan } from '../../../config/schedules.ts';
import { badge, type Html, html, type Tone } from '../../core/html.ts';
import { formatSpan } from '../../core/time.ts';
import { formatCount, formatTimes } from '../../operate/health/problem.ts';
import type { Snapshot } from '../../operate/health/state.ts';
import type { JobStatus } from '../../operate/sql/job-status.ts';
import type { ListedRun, RunFilter } from '../../operate/sql/run-list.ts';
import type { QuarantineRow } from '../../pull/sql/quarantine.ts';
import type { AuditRow } from '../../schedule/sql/audit.ts';
import { ago, choice, linkClient, linkRows, moment, table } from './view.ts';

/** Names that a run can have: jobs, and commands whose runs are recorded. */
export const runJobs = [...jobNames, 'replay', 'refetch'] as const;
export const runStatuses = ['running', 'done', 'failed', 'stopped', 'abandoned'] as const;

const tones: Readonly<Record<string, Tone>> = {
  done: 'good',
  running: 'note',
  failed: 'bad',
  abandoned: 'warn',
};

/** Renders `/runs`. */
export function renderRunsPage(
  runs: readonly ListedRun[],
  filter: RunFilter,
  clients: readonly string[],
  pageSize: number,
): Html {
  const rows = runs.map((run) => [
    run.id,
    linkClient('/runs', run.client),
    run.job,
    badge(tones[run.status] ?? 'note', run.status),
    moment(run.startedAt),
    run.finishedAt === null
      ? '–'
      : formatSpan((run.finishedAt.getTime() - run.startedAt.getTime()) / 1_000),
    `${run.fetched} in ${formatCount(run.pages, 'page')}`,
    `${run.created} / ${run.updated} / ${run.removed}`,
    run.quarantined,
    html`${run.error}${run.warnings.filter((warning) => warning !== run.error).map((warning) => html`<p>${warning}</p>`)}<small>${run.trigger}, ${run.worker}</small>`,
  ]);
  const headings = [
    'run',
    'client',
    'job',
    'status',
    'started (UTC)',
    'duration',
    'read',
    'created / updated / removed',
    'quarantined',
    'details',
  ];
  return html`<h1>Runs</h1>
<p>Runs that wrote rows, or that were not done. All other runs are only counted, in <code>sync.jobs</code>.</p>
<form class="filter" method="get" action="/runs">
${choice('client', 'Client', clients, filter.client)}
${choice('job', 'Job', runJobs, filter.job)}
${choice('status', 'Status', runStatuses, filter.status)}
<button>Show</button></form>
${rows.length === 0 ? html`<p class="none">No runs found.</p>` : table('Newest first', headings, rows)}
${runs.length === pageSize ? html`<p><a href="${toOlderRunsPath(filter, runs.at(-1)?.id ?? 0)}">Older runs</a></p>` : ''}`;
}

/** Returns the path of the next page, with the same filter. */
function toOlderRunsPath({ client, job, status }: RunFilter, id: number): string {
  const query = new URLSearchParams({ before: String(id) });
  for (const [name, value] of Object.entries({ client, job, status }))
    if (value !== undefined) query.set(name, value);
  return `/runs?${query}`;
}

/** Renders `/quarantine`. Resources have personal data, so only a command shows them. */
export function renderQuarantinePage(
  rows: readonly QuarantineRow[],
  chosen: { readonly client: string | null; readonly stream: string | null },
  clients: readonly string[],
  streams: readonly string[],
  limit: number,
): Html {
  const cells = rows.map((row) => [
    row.id,
    linkClient('/quarantine', row.client),
    row.stream,
    row.resourceId ?? '–',
    html`<code>${row.memberPath || '–'}</code>`,
    row.reason,
    row.times,
    moment(row.firstSeenAt),
    moment(row.lastSeenAt),
  ]);
  const headings = [
    'number',
    'client',
    'stream',
    'id',
    'member',
    'reason',
    'times',
    'first seen',
    'last seen',
  ];
  return html`<h1>Quarantine</h1>
<p>Resources that could not be decoded or stored. Each is released when a valid version of it is read.
Show one with <code>fulfilment-sync quarantine show &lt;number&gt;</code>. After an upgrade, decode all again with
<code>fulfilment-sync quarantine replay</code>.</p>
<form class="filter" method="get" action="/quarantine">
${choice('client', 'Client', clients, chosen.client ?? undefined)} ${choice('stream', 'Stream', streams, chosen.stream ?? undefined)} <button>Show</button></form>
${cells.length === 0 ? html`<p class="none">Nothing is in quarantine.</p>` : table('Oldest first', headings, cells)}
${rows.length === limit ? html`<p>Only the first ${limit} are shown. To see all: <code>fulfilment-sync quarantine list</code>.</p>` : ''}`;
}

/** Renders `/audit`. */
export function renderAuditPage(rows: readonly AuditRow[]): Html {
  const cells = rows.map(({ at, by, action, client, detail }) => [
    moment(at),
    action.replaceAll('_', ' '),
    client === null ? 'every client' : linkClient('/runs', client),
    linkRows(detail),
    by,
  ]);
  return html`<h1>Audit</h1>
<p>What operators did, and what workers repaired by themselves (<code>sync.audit</code>). Newest first.</p>
${cells.length === 0 ? html`<p class="none">No entries yet.</p>` : table('Latest entries', ['time (UTC)', 'action', 'client', 'detail', 'by'], cells)}`;
}

/** Renders `/schedules`. */
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
      configuredClients.has(client) &&
      job in config.schedules &&
      (only === undefined || client === only),
  );
  const rows = jobs.map((job) => [
    linkClient('/schedules', job.client),
    job.job,
    ...toCells(job, snapshot, config, csrf),
  ]);
  const pushers = [...configuredClients]
    .filter((client) => only === undefined || client === only)
    .map((client) => [
      linkClient('/schedules', client),
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
  const mayRun =
    schedule !== undefined && schedule.kind !== 'off' && schedule.kind !== 'on-request';
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

/** Finds the pause of a job: of the client, or of every client. */
export const findPause = ({ pauses }: Snapshot, client: string, job: string) =>
  pauses.find((one) => one.job === job && (one.client === client || one.client === null));

/** Renders the pause of a job; null if it is not paused. */
function renderPause(snapshot: Snapshot, client: string, job: string): Html | null {
  const pause = findPause(snapshot, client, job);
  if (pause === undefined) return null;
  const scope = pause.client === null ? 'for every client, ' : '';
  return html`${badge('warn', 'paused')} <small>${scope}by ${pause.by}, ${ago(pause.since, snapshot.now)}</small>`;
}

/** Renders the buttons of a job. */
function renderButtons(
  { pauses }: Snapshot,
  client: string,
  job: string,
  csrf: string | null,
  mayRun: boolean,
): Html {
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
    mayRun && commonPause === undefined && clientPause === undefined
      ? renderForm('run', 'Run now', client)
      : '';
  return html`<div class="row-buttons">${runButton}${pauseButton}</div>`;
}

/** Formats a schedule as in the environment. */
export function describeSchedule(schedule: Schedule): string {
  if (schedule.kind === 'every')
    return `every ${writeSpan(schedule.everyMs)}${schedule.slowMs === undefined ? '' : ` to ${writeSpan(schedule.slowMs)}`}`;
  return schedule.kind === 'cron' ? `${schedule.pattern} (UTC)` : schedule.kind;
}
