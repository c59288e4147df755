/**
 * The page of the runs. It shows what `sync.runs` has, newest first.
 */

import { jobNames } from '../../../../config/jobs.ts';
import { type Html, html } from '../../../core/html.ts';
import { formatSpan } from '../../../core/time.ts';
import type { ListedRun, RunFilter } from '../../../erp/reports/run-list.ts';
import { badge, choice, moment, type Tone, table } from './view.ts';

/** Names that a run can have: jobs, and commands whose runs are recorded. */
export const runJobs = [...jobNames, 'replay', 'refetch'] as const;
export const runStatuses = ['running', 'done', 'failed', 'stopped', 'abandoned'] as const;

const tones: Readonly<Record<string, Tone>> = { done: 'good', running: 'note', failed: 'bad', abandoned: 'warn' };

/** Renders `/runs`. */
export function renderRunsPage(
  runs: readonly ListedRun[],
  filter: RunFilter,
  clients: readonly string[],
  pageSize: number,
): Html {
  const rows = runs.map((run) => [
    run.id,
    run.client,
    run.job,
    badge(tones[run.status] ?? 'note', run.status),
    moment(run.startedAt),
    run.finishedAt === null ? '–' : formatSpan((run.finishedAt.getTime() - run.startedAt.getTime()) / 1_000),
    `${run.fetched} in ${run.pages} pages`,
    `${run.created} / ${run.updated} / ${run.removed}`,
    run.quarantined,
    html`${run.error}${run.warnings.map((warning) => html`<p>${warning}</p>`)}<small>${run.trigger}, ${run.worker}</small>`,
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
  for (const [name, value] of Object.entries({ client, job, status })) if (value !== undefined) query.set(name, value);
  return `/runs?${query}`;
}
