/** The pages of runs, quarantine, audit and schedules. None shows a resource or a payload. */

import type { Config } from '../../../config/env.ts';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { type Schedule, writeSpan } from '../../../config/schedules.ts';
import { badge, type Child, type Html, html, type Tone } from '../../core/html.ts';
import { formatSpan } from '../../core/time.ts';
import { auditActions } from '../../db/audit.ts';
import { formatCount, formatTimes } from '../../operate/health/problem.ts';
import type { Snapshot } from '../../operate/health/state.ts';
import type { AuditFilter, AuditRow } from '../../operate/sql/read-audit.ts';
import type { ListedRun, RunFilter } from '../../operate/sql/run-list.ts';
import type { QuarantineRow } from '../../pull/sql/quarantine.ts';
import { maxNamedRows } from '../../push/sql/operator-actions.ts';
import type { SchedulerState } from './queue-state.ts';
import {
  chooseClient,
  formatDuration,
  linkClient,
  linkRows,
  renderAge,
  renderChoice,
  renderCut,
  renderFacts,
  renderFilter,
  renderForm,
  renderList,
  renderTime,
} from './view.ts';

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
  const now = new Date();
  const rows = runs.map((run) => ({
    run: run.id,
    client: linkClient('/runs', run.client),
    job: run.job,
    status: badge(tones[run.status] ?? 'note', run.status),
    started: html`${renderAge(run.startedAt, now)}, ${describeDuration(run)}`,
    rows: describeRunRows(run),
    details: renderRunDetails(run),
  }));
  const last = runs.at(-1);
  const older =
    last !== undefined &&
    runs.length === pageSize &&
    html`<p><a href="${toOlderRunsPath(filter, last.id)}">Older runs</a></p>`;

  return html`<h1>Runs</h1>
<p>Runs that wrote rows, or that were not done.
All other runs are only counted, in <code>sync.jobs</code>.</p>
${renderFilter('/runs', [
  chooseClient(clients, filter.client),
  renderChoice('job', 'Job', runJobs, filter.job),
  renderChoice('status', 'Status', runStatuses, filter.status),
])}
<div class="compact">${renderList('Newest first', rows, 'No runs found.')}</div>
${older}`;
}

function describeDuration({ startedAt, finishedAt }: ListedRun): string {
  if (finishedAt === null) return 'not ended';
  return `took ${formatDuration((finishedAt.getTime() - startedAt.getTime()) / 1_000)}`;
}

/** Says how many rows a run read and wrote. */
function describeRunRows(run: ListedRun): string {
  const counts = [
    [run.created, 'created'],
    [run.updated, 'updated'],
    [run.removed, 'removed'],
    [run.quarantined, 'in quarantine'],
  ] as const;
  const written = counts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  const read = `${run.fetched} read in ${formatCount(run.pages, 'page')}`;
  return [read, ...written].join(', ');
}

/** Renders the error and the warnings of a run, and where it ran. */
function renderRunDetails({ error, warnings, trigger, worker }: ListedRun): Html {
  const others = warnings.filter((warning) => warning !== error);
  const paragraphs = others.map((warning) => html`<p>${warning}</p>`);
  return html`${error}${paragraphs}<small>${trigger}, ${worker}</small>`;
}

/** Returns the path of the next page, with the same filter. */
function toOlderRunsPath({ client, job, status }: RunFilter, id: number): string {
  const query = new URLSearchParams({ before: String(id) });
  for (const [name, value] of Object.entries({ client, job, status }))
    if (value !== undefined) query.set(name, value);
  return `/runs?${query}`;
}

/** What `/quarantine` can show, and what was chosen; null: all. */
interface QuarantineFilter {
  readonly client: string | null;
  readonly stream: string | null;
  readonly clients: readonly string[];
  readonly streams: readonly string[];
}

/** Renders `/quarantine`. Resources have personal data, so only a command shows them. */
export function renderQuarantinePage(
  rows: readonly QuarantineRow[],
  { client, stream, clients, streams }: QuarantineFilter,
  limit: number,
): Html {
  const now = new Date();
  const cells = rows.map((row) => ({
    number: html`<a href="/quarantine/${row.id}">${row.id}</a>`,
    client: linkClient('/quarantine', row.client),
    stream: row.stream,
    id: row.resourceId ?? '–',
    member: html`<code>${row.memberPath || '–'}</code>`,
    reason: row.reason,
    times: row.times,
    'first seen': renderAge(row.firstSeenAt, now),
    'last seen': renderAge(row.lastSeenAt, now),
  }));
  const more = html`To see all: <code>fulfilment-sync quarantine list</code>.`;

  return html`<h1>Quarantine</h1>
<p>Resources that could not be decoded or stored. Each is released when a valid version of it is
read. After an upgrade, decode all again with <code>fulfilment-sync quarantine replay</code>.</p>
${renderFilter('/quarantine', [
  chooseClient(clients, client),
  renderChoice('stream', 'Stream', streams, stream),
])}
${renderList('Oldest first', cells, 'Nothing is in quarantine.')}
${renderCut(rows, limit, more)}`;
}

/**
 * Renders `/quarantine/:id`.
 * @param csrf the token of the form; null for a viewer, who can change nothing
 */
export function renderQuarantineRowPage(row: QuarantineRow, csrf: string | null): Html {
  const facts = renderFacts([
    ['Client', linkClient('/quarantine', row.client)],
    ['Stream', row.stream],
    ['Id at the service', row.resourceId],
    ['Member', row.memberPath === '' ? null : html`<code>${row.memberPath}</code>`],
    ['Times', row.times],
    ['First seen (UTC)', renderTime(row.firstSeenAt)],
    ['Last seen (UTC)', renderTime(row.lastSeenAt)],
    ['Run', row.run],
    ['Worker', row.worker],
  ]);
  const button = html`<button>Decode again</button>`;
  const form = csrf !== null && renderForm(`/quarantine/${row.id}/replay`, csrf, button);

  return html`<h1>Quarantine ${row.id}</h1>
<p class="why"><b>Reason:</b> ${row.reason}</p>
<p class="remedy">→ Tell the operator of the service. The resource is released when a correct
version of it is read; after an upgrade of this program, decode it again.</p>
${facts}
${form}
<p>It may hold personal data. See it as it was received with
<code>fulfilment-sync quarantine show ${row.id}</code>.</p>`;
}

/** Renders links to the rows that an entry of the audit names. */
const renderAuditedRows = (ids: readonly number[]) =>
  html`${linkRows(ids)}${ids.length < maxNamedRows ? '' : ', …'}`;

/** Renders `/audit`. */
export function renderAuditPage(rows: readonly AuditRow[], { by, action }: AuditFilter): Html {
  const now = new Date();
  const cells = rows.map(({ at, by, action, client, detail, outboxIds }) => ({
    time: renderAge(at, now),
    action: action.replaceAll('_', ' '),
    client: client === null ? 'every client' : linkClient('/runs', client),
    detail: outboxIds.length === 0 ? detail : renderAuditedRows(outboxIds),
    by,
  }));

  return html`<h1>Audit</h1>
<p>What operators did, and what workers repaired by themselves (<code>sync.audit</code>).
Newest first.</p>
${renderFilter('/audit', [
  html`<label>By <input name="by" value="${by ?? ''}" maxlength="200"></label>`,
  renderChoice('action', 'Action', auditActions, action),
])}
${renderList('Latest entries', cells, 'No entries found.')}`;
}

/** Renders `/queues`. */
export function renderQueuesPage(schedulers: readonly SchedulerState[], now: Date): Html {
  const rows = schedulers.map(({ name, everyMs, nextAt, isLost, lastAt, ...one }) => ({
    scheduler: html`<a href="/runs?job=${name}">${name}</a>`,
    'fires every': formatSpan(everyMs / 1_000),
    next: isLost ? badge('bad', 'lost') : renderAge(nextAt, now),
    last: renderAge(lastAt, now),
    'failed firings':
      one.lastFailure === null
        ? html`<span class="none">none</span>`
        : html`${badge('bad', formatTimes(one.failures))} ${renderAge(one.lastFailure.at, now)}:
${one.lastFailure.words}`,
  }));
  const note = 'Of the last 100 firings that were done, and of the last 100 that failed';

  return html`<h1>Queues</h1>
<p>BullMQ keeps only the time. A firing starts the runs of its job that are due; what is due, and
what to pause or run now, is at <a href="/schedules">Schedules</a>.</p>
${renderList(note, rows, 'No scheduler is set yet. A worker sets them when it starts.')}`;
}

/** The pause of a job: that of every client, or of one. */
function findPause({ pauses }: Snapshot, client: string, job: string) {
  const ofJob = pauses.filter((one) => one.job === job);
  const pause = [null, client].flatMap((of) => ofJob.find((one) => one.client === of) ?? [])[0];
  return pause === undefined
    ? null
    : { since: pause.since, by: pause.by, forEveryClient: pause.client === null };
}

type ShownPause = ReturnType<typeof findPause>;

/** Describes the jobs of the clients of this worker, or of one of them. */
export function describeSchedules(snapshot: Snapshot, config: Config, only: string | undefined) {
  const clients = config.clients
    .map(({ key }) => key)
    .filter((key) => only === undefined || key === only);
  const schedules: Readonly<Partial<Record<string, Schedule>>> = config.schedules;

  const jobs = snapshot.jobs.flatMap((row) => {
    const { client, job, dueAt, lastSuccessAt, running, lastOutcome, consecutiveFailures } = row;
    // Other names are commands, which have no schedule.
    const schedule = schedules[job];
    if (schedule === undefined || !clients.includes(client)) return [];
    const last = { lastSuccessAt, running, lastOutcome, consecutiveFailures };
    const pause = findPause(snapshot, client, job);
    return [{ client, job, schedule: describeSchedule(schedule), dueAt, ...last, pause }];
  });
  const pushes = clients.map((client) => ({
    client,
    isOn: config.pushSweepMs !== null,
    pause: findPause(snapshot, client, pushJob.name),
  }));

  return { now: snapshot.now, jobs, pushes };
}

type ShownSchedules = ReturnType<typeof describeSchedules>;

/**
 * Renders `/schedules`.
 * @param choice the choice of a client, if there are several
 */
export function renderSchedulesPage(
  { now, jobs, pushes }: ShownSchedules,
  choice: Child,
  csrf: string | null,
): Html {
  const jobRows = jobs.map((row) => ({
    client: linkClient('/schedules', row.client),
    job: row.job,
    schedule: row.schedule,
    'next run': renderDueTime(row.dueAt, now),
    'last success': renderAge(row.lastSuccessAt, now),
    state: renderPause(row.pause, now) ?? renderJobState(row),
    actions:
      csrf !== null && renderButtons(row, csrf, !['off', 'on-request'].includes(row.schedule)),
  }));
  const pushRows = pushes.map(({ client, isOn, pause }) => ({
    client: linkClient('/schedules', client),
    job: pushJob.name,
    schedule: isOn ? 'when rows arrive' : 'off',
    'next run': '–',
    'last success': '–',
    state: renderPause(pause, now) ?? '–',
    actions: csrf !== null && renderButtons({ client, job: pushJob.name, pause }, csrf, false),
  }));

  return html`<h1>Schedules</h1>
<p>The schedules of this worker. A pause applies to all workers.
After it, one run makes up for all missed runs.</p>
${choice && renderFilter('/schedules', choice)}
${renderList('Jobs of each client', [...jobRows, ...pushRows])}`;
}

function renderDueTime(dueAt: Date | null, now: Date): Child {
  if (dueAt === null) return '–';
  return dueAt.getTime() - now.getTime() < 1_000 ? 'now' : renderAge(dueAt, now);
}

type ShownJob = ShownSchedules['jobs'][number];

/** Renders how the last run of a job ended, or that one is under way. */
function renderJobState({ running, lastOutcome, consecutiveFailures, dueAt }: ShownJob): Html {
  if (running) return badge('note', 'running');
  if (consecutiveFailures > 0) return badge('bad', `failed ${formatTimes(consecutiveFailures)}`);
  if (lastOutcome !== null) return badge('good', lastOutcome);
  return badge('note', dueAt === null ? 'not scheduled' : 'waiting');
}

/** Renders the pause of a job; null if it is not paused. */
function renderPause(pause: ShownPause, now: Date): Html | null {
  if (pause === null) return null;
  const scope = pause.forEveryClient ? 'for every client, ' : '';
  const detail = html`${scope}by ${pause.by}, ${renderAge(pause.since, now)}`;
  return html`${badge('warn', 'paused')} <small>${detail}</small>`;
}

/** Renders the buttons of a job: resume it, or pause it and run it. */
function renderButtons(
  { client, job, pause }: Pick<ShownJob, 'client' | 'job' | 'pause'>,
  csrf: string,
  mayRun: boolean,
): Html {
  const renderButton = (action: string, text: string, target = client) => {
    const label = `${text}: ${job} of ${target === '' ? 'every client' : target}`;
    const content = html`<input type="hidden" name="client" value="${target}">
<input type="hidden" name="job" value="${job}">
<button aria-label="${label}">${text}</button>`;
    return renderForm(`/schedules/${action}`, csrf, content);
  };

  const buttons = [];
  if (pause?.forEveryClient) buttons.push(renderButton('resume', 'Resume for all', ''));
  else if (pause !== null) buttons.push(renderButton('resume', 'Resume'));
  else {
    if (mayRun) buttons.push(renderButton('run', 'Run now'));
    buttons.push(renderButton('pause', 'Pause'));
  }

  return html`<div class="row-buttons">${buttons}</div>`;
}

/** Formats a schedule as in the environment. */
function describeSchedule(schedule: Schedule): string {
  if (schedule.kind === 'cron') return `${schedule.pattern} (UTC)`;
  if (schedule.kind !== 'every') return schedule.kind;

  const { everyMs, slowMs } = schedule;
  return `every ${writeSpan(everyMs)}${slowMs === undefined ? '' : ` to ${writeSpan(slowMs)}`}`;
}
