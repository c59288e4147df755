/**
 * The overview: problems, streams, outbox, charts and gates. The server sends each part again when
 * it changes.
 */

import { badge, type Html, html, type Tone } from '../../core/html.ts';
import { formatSpan } from '../../core/time.ts';
import type { Overview } from '../../operate/health/overview.ts';
import { formatCount, type Problem } from '../../operate/health/problem.ts';
import type { OutboxStatus } from '../../operate/sql/outbox-status.ts';
import type { StreamStatus } from '../../operate/sql/stream-status.ts';
import { streams as allStreams } from '../../pull/streams/all-streams.ts';
import { renderCharts } from './charts.ts';
import { ago, linkClient, sparkline, table } from './view.ts';

/** Maximum number of problems on the page. The rest is counted. */
const problemsShown = 50;

/**
 * Renders the parts of the overview, by the ids of their elements, so that each can be replaced
 * alone.
 */
export function renderOverviewParts(overview: Overview): Readonly<Record<string, Html>> {
  return {
    headline: renderHeadline(overview),
    clock: renderClock(overview),
    problems: renderProblems(overview.problems),
    streams: renderStreams(overview),
    outbox: renderOutbox(overview.snapshot.outbox),
    charts: html`${renderCharts(overview.charts.slice(0, 1))}<p><a href="/charts">More charts</a></p>`,
    gates: renderGates(overview),
  };
}

/** Renders `/`. */
export function renderOverviewPage(overview: Overview): Html {
  const parts = renderOverviewParts(overview);
  return html`<div id="headline" role="status">${parts.headline}</div>
<p id="clock">${parts.clock}</p>
<section id="problems" aria-label="Problems">${parts.problems}</section>
<section id="streams" aria-label="Streams">${parts.streams}</section>
<section id="outbox" aria-label="Outbox">${parts.outbox}</section>
<section id="charts" aria-label="Charts">${parts.charts}</section>
<section id="gates" aria-label="Gates">${parts.gates}</section>`;
}

/** Renders the heading: whether a person must act, and whether the jobs run. */
function renderHeadline({ problems, snapshot, stale, isScheduled }: Overview): Html {
  if (snapshot.jobs.length === 0)
    return html`<h1 class="warn">No worker has started yet</h1><p>Jobs appear when the first worker starts.</p>`;
  const count = (wanted: Problem['severity']) =>
    problems.filter(({ severity }) => severity === wanted).length;
  const [bad, warned] = [count('bad'), count('warn')];
  const title =
    bad > 0
      ? `${formatCount(bad, 'problem')} ${bad === 1 ? 'needs' : 'need'} you`
      : warned > 0
        ? `${formatCount(warned, 'problem')}; nothing to do yet`
        : 'Healthy';
  const failing = snapshot.jobs.filter(
    (row) => row.lastError !== null && isScheduled(row.client, row.job),
  ).length;
  const late = stale.length === 0 ? '' : `${formatCount(stale.length, 'job')} late`;
  const jobs = [failing === 0 ? '' : `${formatCount(failing, 'job')} failing`, late]
    .filter(Boolean)
    .join(', ');
  const tone = bad > 0 ? 'bad' : warned > 0 ? 'warn' : 'good';
  return html`<h1 class="${tone}">${title}</h1><p>${jobs === '' ? 'Every job is on time' : jobs}.</p>`;
}

/** Seconds from which on the service's times are said to be ahead. */
const aheadSeconds = 86_400;

/**
 * Renders the database's time, and how far the service's shipments are ahead of it: its time may be
 * simulated.
 */
function renderClock({ snapshot: { now, streams } }: Overview): Html {
  const newestMs = streams
    .filter(({ stream }) => stream === 'shipments')
    .reduce((latest, { newestSourceAt }) => Math.max(latest, newestSourceAt?.getTime() ?? 0), 0);
  const ahead = (newestMs - now.getTime()) / 1_000;
  const note =
    ahead > aheadSeconds
      ? `; shipments of the service are ${formatSpan(ahead)} ahead, as in the demo, whose time runs 600 times as fast`
      : '';
  return html`${now.toISOString().slice(0, 19).replace('T', ' ')} UTC by the database's clock${note}`;
}

const severityLabels = { bad: 'Action needed', warn: 'Warning', note: 'Note' } as const;

function renderProblems(problems: readonly Problem[]): Html {
  if (problems.length === 0) return html`<h2>Problems</h2><p class="none">No problems.</p>`;
  const more = problems.length - problemsShown;
  return html`<h2>Problems</h2><ul class="problems">${problems.slice(0, problemsShown).map(renderProblem)}</ul>${more > 0 ? html`<p>And ${more} more. To see all: <code>fulfilment-sync status</code></p>` : ''}`;
}

/** What a link from a problem says, by the first part of its path. */
const pageLabels: Readonly<Partial<Record<string, string>>> = {
  outbox: 'Show the rows',
  runs: 'Show the runs',
  schedules: 'Show the schedules',
};

/** Renders the link from a problem to the page where it is looked into and acted on. */
function renderLink(page: string, subject: string): Html {
  const label = pageLabels[/\w+/.exec(page)?.[0] ?? ''] ?? 'Show more';
  return html` <a class="act" href="${page}" aria-label="${label} of ${subject}">${label}</a>`;
}

/** Renders a problem. What follows from it is folded under it. */
function renderProblem({ severity, subject, text, remedy, page, follows }: Problem): Html {
  const link = page === undefined ? '' : renderLink(page, subject);
  const advice = remedy === null ? link : html`<p class="remedy">→ ${remedy}${link}</p>`;
  const items = follows.map((other) => html`<li><b>${other.subject}</b>: ${other.text}</li>`);
  const folded =
    follows.length === 0
      ? ''
      : html`<details><summary>${follows.length} more that ${follows.length === 1 ? 'follows' : 'follow'} from it</summary><ul>${items}</ul></details>`;
  return html`<li>${badge(severity, severityLabels[severity])} <div><b>${subject}</b>: ${text}${advice}${folded}</div></li>\n`;
}

/** Renders the streams: a row for each client, a column for each stream. */
function renderStreams({ snapshot, stale, recent, isScheduled }: Overview): Html {
  const { streams, now } = snapshot;
  if (streams.length === 0)
    return html`<h2>Streams</h2><p class="none">No stream has been read yet.</p>`;
  const known: readonly string[] = allStreams.map(({ name }) => name);
  const byClient = Map.groupBy(
    streams.filter(({ stream }) => known.includes(stream)),
    ({ client }) => client,
  );
  const barsByStream = new Map(
    recent.map(({ client, stream, rows }) => [`${client}/${stream}`, rows]),
  );
  const lateJobs = new Map(stale.map((one) => [`${one.client}/${one.job}`, one]));
  const rows = [...byClient].map(([client, clientStreams]) => [
    linkClient('/charts', client),
    ...known.map((name) => {
      const row = clientStreams.find(({ stream }) => stream === name);
      if (row === undefined) return '–';
      const isScheduledHere = isScheduled(client, row.job);
      const [tone, state] = describeFreshness(
        row,
        isScheduledHere,
        lateJobs.get(`${client}/${row.job}`)?.because,
      );
      return html`${badge(tone, state)} ${ago(row.lastSuccessAt, now)}
<div>${sparkline(barsByStream.get(`${client}/${name}`) ?? [], `Rows written by the latest runs of ${client} ${name} that wrote any`)}</div>
<small>last change ${ago(row.lastChangeAt, now)}; ${row.changedLastDay} rows in 24 h${row.usualPerDay === null ? '' : `, usual ${Math.round(row.usualPerDay)}`}${describeReconciliation(row)}</small>`;
    }),
  ]);
  return html`<h2>Streams</h2>${table('Each stream of each client. A bar is the number of rows that a run wrote; runs that wrote none have no bar', ['client', ...known], rows)}`;
}

/** Returns the tone and the text of a stream's badge. */
function describeFreshness(
  row: StreamStatus,
  isScheduledHere: boolean,
  because: 'failing' | 'paused' | 'not run' | undefined,
): [Tone, string] {
  if (!isScheduledHere) return ['note', 'not scheduled here'];
  if (because === 'paused') return ['note', 'paused'];
  if (because !== undefined) return ['bad', because === 'failing' ? 'failing' : 'late'];
  if (row.firstLoad)
    return [
      'note',
      row.fetchedSoFar === null ? 'first load' : `first load: ${row.fetchedSoFar} read`,
    ];
  return ['good', 'fresh'];
}

/**
 * Says what the last reconciliation of a stream did, and how many of its resources are in
 * quarantine.
 */
function describeReconciliation({
  reconciledAt,
  missing,
  stale,
  extra,
  quarantined,
}: StreamStatus): string {
  const what = [
    [missing, 'missing'],
    [stale, 'outdated'],
    [extra, 'deleted at the service'],
  ] as const;
  const fixed = what.filter(([rows]) => (rows ?? 0) > 0).map(([rows, words]) => `${rows} ${words}`);
  const total = (missing ?? 0) + (stale ?? 0) + (extra ?? 0);
  const reconciliation =
    fixed.length === 0
      ? 'compared with the service: all rows agree'
      : `compared with the service: ${fixed.join(', ')} ${total === 1 ? 'row' : 'rows'} found and fixed`;
  return `${reconciledAt === null ? '' : `; ${reconciliation}`}${quarantined > 0 ? `; ${quarantined} in quarantine` : ''}`;
}

/** Renders the number of rows of each status. */
function renderOutbox(rows: readonly OutboxStatus[]): Html {
  const sum = (value: (row: OutboxStatus) => number) =>
    rows.reduce((total, row) => total + value(row), 0);
  const toDecide = sum((row) => row.toDecide);
  const stages = [
    ['dead', sum(({ dead }) => dead), 'refused or given up; stuck until you act'],
    [
      'unknown',
      sum(({ unknown }) => unknown),
      toDecide === 0 ? 'looked up by itself' : `${toDecide} stuck until you act`,
    ],
    ['pending', sum(({ pending }) => pending), 'sent when their turn comes'],
    ['sending', sum(({ sending }) => sending), 'under way'],
    ['done', sum(({ doneLastDay }) => doneLastDay), 'in 24 hours'],
  ] as const;
  const boxes = stages.map(
    ([status, number, note]) =>
      html`<li class="${(status === 'dead' && number > 0) || (status === 'unknown' && toDecide > 0) ? 'bad' : ''}"><a href="/outbox?status=${status}"><b>${number}</b> ${status}</a><small>${note}</small></li>`,
  );
  const clientRows = rows.map((row) => [
    row.client === null ? 'unknown clients' : linkClient('/outbox', row.client),
    row.dead,
    row.unknown,
    row.pending,
    row.sending,
    row.doneLastDay,
    formatSpan(row.oldestSeconds),
  ]);
  return html`<h2>Outbox</h2><ol class="funnel">${boxes}</ol>
${rows.length > 1 ? table('By client', ['client', 'dead', 'unknown', 'pending', 'sending', 'done 24 h', 'oldest'], clientRows) : ''}`;
}

/** Renders the gate of track-trace for each client. */
function renderGates({ snapshot: { gates, now } }: Overview): Html {
  if (gates.length === 0)
    return html`<h2>Track-trace</h2><p class="none">It has not been called yet.</p>`;
  const rows = gates.map(({ client, gate, nextAt, takenAt, taken, spent }) => [
    client,
    gate,
    nextAt > now
      ? html`${badge('note', 'closed')} opens ${ago(nextAt, now)}`
      : badge('good', 'open'),
    ago(takenAt, now),
    taken,
    spent,
  ]);
  const note = 'At most one call an hour, also if the worker of the last call was lost';
  return html`<h2>Track-trace</h2>${table(note, ['client', 'gate', 'state', 'last call', 'calls', 'lost calls'], rows)}`;
}
