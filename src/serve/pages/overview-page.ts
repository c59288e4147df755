/** The overview: problems, streams, outbox and gates. */

import { badge, type Child, type Html, html } from '../../core/html.ts';
import { formatSpan } from '../../core/time.ts';
import type { Overview } from '../../operate/health/overview.ts';
import { formatCount, type Problem } from '../../operate/health/problem.ts';
import type { LateJob } from '../../operate/health/state.ts';
import type { OutboxStatus } from '../../operate/sql/outbox-status.ts';
import type { StreamStatus } from '../../operate/sql/stream-status.ts';
import { streams as allStreams } from '../../pull/streams/all-streams.ts';
import { linkClient, renderAge, renderList } from './view.ts';

/** Maximum number of problems on the page. The rest is counted. */
const problemsShown = 50;

/** Renders `/`. */
export function renderOverviewPage(overview: Overview): Html {
  return html`<div id="headline" role="status" data-live>${renderHeadline(overview)}</div>
<p id="clock" data-live>${renderClock(overview)}</p>
<section id="problems" aria-label="Problems" data-live>
${renderProblems(overview.problems)}</section>
<section id="streams" aria-label="Streams" data-live>${renderStreams(overview)}</section>
<section id="outbox" aria-label="Outbox" data-live>
${renderOutbox(overview.snapshot.outbox)}</section>
<section id="gates" aria-label="Gates" data-live>${renderGates(overview)}</section>`;
}

/** Renders the heading: whether a person must act, and whether the jobs run. */
function renderHeadline({ problems, snapshot, stale, isScheduled }: Overview): Html {
  if (snapshot.jobs.length === 0)
    return html`<h1 class="warn">No worker has started yet</h1>
<p>Jobs appear when the first worker starts.</p>`;

  const failing = snapshot.jobs.filter(
    (row) => row.lastError !== null && isScheduled(row.client, row.job),
  );
  const jobs = [];
  if (failing.length > 0) jobs.push(`${formatCount(failing.length, 'job')} failing`);
  if (stale.length > 0) jobs.push(`${formatCount(stale.length, 'job')} late`);
  if (jobs.length === 0) jobs.push('Every job is on time');

  return html`${renderTitle(problems)}<p>${jobs.join(', ')}.</p>`;
}

/** Renders whether a person must act. */
function renderTitle(problems: readonly Problem[]): Html {
  const count = (wanted: Problem['severity']) =>
    problems.filter(({ severity }) => severity === wanted).length;

  const bad = count('bad');
  if (bad > 0) {
    const words = bad === 1 ? 'needs you' : 'need you';
    return html`<h1 class="bad">${formatCount(bad, 'problem')} ${words}</h1>`;
  }

  const warned = count('warn');
  if (warned > 0)
    return html`<h1 class="warn">${formatCount(warned, 'problem')}; nothing to do yet</h1>`;
  return html`<h1 class="good">Healthy</h1>`;
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
    `; shipments of the service are ${formatSpan(ahead)} ahead, ` +
    'as in the demo, whose time runs 60 times as fast';
  const time = now.toISOString().slice(0, 19).replace('T', ' ');
  return html`${time} UTC by the database's clock${ahead > aheadSeconds && note}`;
}

const severityLabels = { bad: 'Action needed', warn: 'Warning', note: 'Note' } as const;

function renderProblems(problems: readonly Problem[]): Html {
  if (problems.length === 0) return html`<h2>Problems</h2><p class="none">No problems.</p>`;

  const shown = problems.slice(0, problemsShown).map(renderProblem);
  const more = problems.length - problemsShown;
  const rest = html`<p>And ${more} more. To see all: <code>fulfilment-sync status</code></p>`;
  return html`<h2>Problems</h2><ul class="problems">${shown}</ul>${more > 0 && rest}`;
}

/** What a link from a problem says, by the first part of its path. */
const pageLabels: Readonly<Partial<Record<string, string>>> = {
  database: 'Say what it is',
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
  const advice =
    remedy === null ? link : html`<p class="remedy">→ ${markCommands(remedy)}${link}</p>`;
  const label = badge(severity, severityLabels[severity]);
  const folded = follows.length > 0 && renderFollowing(follows);
  return html`<li>${label} <div><b>${subject}</b>: ${text}${advice}${folded}</div></li>\n`;
}

/** Marks the commands in a text: they are monospaced. */
const markCommands = (text: string): Child =>
  text
    .split(/(fulfilment-sync(?: [\w<>./=-]+)+)/)
    .map((part, index) => (index % 2 === 0 ? part : html`<code>${part}</code>`));

function renderFollowing(follows: Problem['follows']): Html {
  const items = follows.map(({ subject, text }) => html`<li><b>${subject}</b>: ${text}</li>`);
  const verb = follows.length === 1 ? 'follows' : 'follow';
  return html`<details><summary>${follows.length} more that ${verb} from it</summary>
<ul>${items}</ul></details>`;
}

/** Renders the streams: a row for each client, a column for each stream. */
function renderStreams({ snapshot, stale, isScheduled }: Overview): Html {
  const { streams, now } = snapshot;
  if (streams.length === 0)
    return html`<h2>Streams</h2><p class="none">No stream has been read yet.</p>`;

  const known: readonly string[] = allStreams.map(({ name }) => name);
  const byClient = Map.groupBy(
    streams.filter(({ stream }) => known.includes(stream)),
    ({ client }) => client,
  );
  const renderCell = (row: StreamStatus | undefined) => {
    if (row === undefined) return '–';
    const { client, job } = row;
    const late = stale.find((one) => one.client === client && one.job === job);
    const state = isScheduled(client, job)
      ? renderFreshness(row, late?.because)
      : badge('note', 'not scheduled here');
    return renderStream(row, state, now);
  };
  const rows = [...byClient].map(([client, ofClient]) => {
    const cells = known.map((name) => [
      name,
      renderCell(ofClient.find(({ stream }) => stream === name)),
    ]);
    return { client: linkClient('/charts', client), ...Object.fromEntries(cells) };
  });

  return html`<h2>Streams</h2>${renderList('Each stream of each client', rows)}`;
}

/** Renders a stream of a client. */
function renderStream(row: StreamStatus, state: Html, now: Date): Html {
  const { lastSuccessAt, lastChangeAt } = row;
  return html`${state} ${renderAge(lastSuccessAt, now)}
<small>last change ${renderAge(lastChangeAt, now)}; ${describeRows(row)}</small>`;
}

/** Renders the badge of a stream that this worker polls. */
function renderFreshness(row: StreamStatus, because: LateJob['because'] | undefined): Html {
  if (because === 'paused') return badge('note', 'paused');
  if (because !== undefined) return badge('bad', because === 'failing' ? 'failing' : 'late');
  if (!row.firstLoad) return badge('good', 'fresh');
  return badge(
    'note',
    row.fetchedSoFar === null ? 'first load' : `first load: ${row.fetchedSoFar} read`,
  );
}

/** Describes how many rows changed, what the last reconciliation did, and the quarantine. */
function describeRows(row: StreamStatus): string {
  const { changedLastDay, usualPerDay, reconciledAt, quarantined } = row;
  const usual = usualPerDay === null ? '' : `, usual ${Math.round(usualPerDay)}`;
  const parts = [`${changedLastDay} rows in 24 h${usual}`];
  if (reconciledAt !== null) parts.push(`compared with the service: ${describeHealed(row)}`);
  if (quarantined > 0) parts.push(`${quarantined} in quarantine`);
  return parts.join('; ');
}

function describeHealed({ missing, stale, extra }: StreamStatus): string {
  const counts = [
    [missing ?? 0, 'missing'],
    [stale ?? 0, 'outdated'],
    [extra ?? 0, 'deleted at the service'],
  ] as const;
  const healed = counts.filter(([count]) => count > 0);
  if (healed.length === 0) return 'all rows agree';

  const total = healed.reduce((sum, [count]) => sum + count, 0);
  const words = healed.map(([count, word]) => `${count} ${word}`).join(', ');
  return `${words} ${total === 1 ? 'row' : 'rows'} found and fixed`;
}

/** Renders the number of rows of each status. */
function renderOutbox(rows: readonly OutboxStatus[]): Html {
  const sum = (value: (row: OutboxStatus) => number) =>
    rows.reduce((total, row) => total + value(row), 0);
  const toDecide = sum((row) => row.toDecide);
  const planned = sum((row) => row.planned);
  const boxes = [
    ['dead', sum((row) => row.dead), 'refused or given up; stuck until you act'],
    [
      'unknown',
      sum((row) => row.unknown),
      toDecide === 0 ? 'looked up by itself' : `${toDecide} stuck until you act`,
    ],
    [
      'pending',
      sum((row) => row.pending),
      `sent when their turn comes; ${planned} more planned for later`,
    ],
    ['sending', sum((row) => row.sending), 'under way'],
    ['done', sum((row) => row.doneLastDay), 'in 24 hours'],
  ] as const;
  const funnel = boxes.map(([status, count, note]) => {
    const isBad = count > 0 && note.includes('stuck');
    return html`<li class="${isBad ? 'bad' : ''}">
<a href="/outbox?status=${status}"><b>${count}</b> ${status}</a><small>${note}</small></li>`;
  });

  const clientRows = rows.map((row) => ({
    client: row.client === null ? 'unknown clients' : linkClient('/outbox', row.client),
    dead: row.dead,
    unknown: row.unknown,
    pending: row.pending,
    planned: row.planned,
    sending: row.sending,
    'done in 24 h': row.doneLastDay,
    'oldest waits for': formatSpan(row.oldestSeconds),
  }));

  return html`<h2>Outbox</h2><ol class="funnel">${funnel}</ol>
${rows.length > 1 && renderList('By client', clientRows)}`;
}

/** Renders the gate of track-trace for each client. */
function renderGates({ snapshot: { gates, now } }: Overview): Html {
  if (gates.length === 0)
    return html`<h2>Track-trace</h2><p class="none">It has not been called yet.</p>`;

  const rows = gates.map(({ client, gate, nextAt, takenAt, taken, spent }) => ({
    client,
    gate,
    'next call': nextAt > now ? renderAge(nextAt, now) : 'with the next run',
    'last call': renderAge(takenAt, now),
    calls: taken,
    'lost calls': spent,
  }));
  const note = 'At most one call an hour, also if the worker of the last call was lost';
  return html`<h2>Track-trace</h2>${renderList(note, rows)}`;
}
