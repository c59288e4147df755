import { streams as allStreams } from '../../../../jobs/registry.ts';
import { formatSpan } from '../../../core/time.ts';
import type { OutboxStatus } from '../../../erp/reports/outbox-status.ts';
import type { StreamStatus } from '../../../erp/reports/stream-status.ts';
import type { Overview } from '../../health/overview.ts';
import type { Problem } from '../../health/problem.ts';
import { type Html, html } from './html.ts';
import { ago, badge, sparkline, type Tone, table } from './view.ts';

/** Problems shown at once; the rest is counted. */
const problemsShown = 50;

/** The parts of the overview by their ids, so that each can be renewed by itself. */
export function overviewParts(overview: Overview): Readonly<Record<string, Html>> {
  return {
    headline: headline(overview),
    clock: clock(overview),
    problems: problemList(overview.problems),
    streams: streamMatrix(overview),
    outbox: outboxFunnel(overview.snapshot.outbox),
    gates: gateTable(overview),
  };
}

/** `/`: is everything fresh, what is stuck, why, and what to do. */
export function overviewPage(overview: Overview): Html {
  const parts = overviewParts(overview);
  return html`<div id="headline" role="status">${parts.headline}</div>
<p id="clock">${parts.clock}</p>
<section id="problems" aria-label="What needs attention">${parts.problems}</section>
<section id="streams" aria-label="Streams">${parts.streams}</section>
<section id="outbox" aria-label="Outbox">${parts.outbox}</section>
<section id="gates" aria-label="Gates">${parts.gates}</section>`;
}

function headline({ problems, snapshot, stale }: Overview): Html {
  const bad = problems.filter(({ severity }) => severity === 'bad').length;
  const late = stale.length === 0 ? 'Every job is as fresh as its schedule asks' : `${count(stale.length, 'job')} late`;
  if (snapshot.jobs.length === 0)
    return html`<h1 class="warn">No worker was here yet</h1><p>Jobs appear with the first start of a worker.</p>`;
  const warned = problems.filter(({ severity }) => severity === 'warn').length;
  const title =
    bad > 0
      ? `${count(bad, 'thing')} to mend`
      : stale.length > 0
        ? late
        : warned > 0
          ? `All is fresh; ${count(warned, 'thing')} to look at`
          : 'All is fresh';
  const tone = bad + stale.length > 0 ? 'bad' : warned > 0 ? 'warn' : 'good';
  return html`<h1 class="${tone}">${title}</h1><p>${late}.</p>`;
}

const clock = ({ snapshot: { now } }: Overview): Html =>
  html`${now.toISOString().slice(0, 19).replace('T', ' ')} UTC by the database's clock`;

const count = (number: number, what: string) => `${number} ${what}${number === 1 ? '' : 's'}`;

const words = { bad: 'mend', warn: 'look', note: 'note' } as const;

function problemList(problems: readonly Problem[]): Html {
  if (problems.length === 0) return html`<h2>Attention</h2><p class="none">Nothing needs attention.</p>`;
  const items = problems
    .slice(0, problemsShown)
    .map(
      ({ severity, subject, text, remedy, page }) =>
        html`<li>${badge(severity, words[severity])} <div><b>${subject}</b>: ${text}${page === undefined ? '' : html` <a href="${page}" aria-label="See ${subject}">See</a>`}${remedy === null ? '' : html`<br><span class="remedy">→ ${remedy}</span>`}</div></li>\n`,
    );
  const more = problems.length - problemsShown;
  return html`<h2>Attention</h2><ul class="problems">${items}</ul>${more > 0 ? html`<p>and ${more} more: <code>fulfilment-sync status</code> names all</p>` : ''}`;
}

/** A row for each client, a column for each stream. */
function streamMatrix({ snapshot, stale, recent, isScheduled }: Overview): Html {
  const { streams, now } = snapshot;
  if (streams.length === 0) return html`<h2>Streams</h2><p class="none">No stream was read yet.</p>`;
  const known: readonly string[] = allStreams.map(({ name }) => name);
  const byClient = Map.groupBy(
    streams.filter(({ stream }) => known.includes(stream)),
    ({ client }) => client,
  );
  const bars = new Map(recent.map(({ client, stream, rows }) => [`${client}/${stream}`, rows]));
  const late = new Map(stale.map((one) => [`${one.client}/${one.job}`, one]));
  const rows = [...byClient].map(([client, own]) => [
    html`<b>${client}</b>`,
    ...known.map((name) => {
      const row = own.find(({ stream }) => stream === name);
      if (row === undefined) return '–';
      const scheduled = isScheduled(client, row.job);
      const [tone, state] = freshnessOf(row, scheduled, late.get(`${client}/${row.job}`)?.because);
      return html`${badge(tone, state)} ${ago(row.lastSuccessAt, now)}
<div>${sparkline(bars.get(`${client}/${name}`) ?? [], `Rows written by the latest runs of ${client} ${name} that wrote any`)}</div>
<small>last change ${ago(row.lastChangeAt, now)}; ${row.changedLastDay} rows in 24 h${row.usualPerDay === null ? '' : `, usual ${Math.round(row.usualPerDay)}`}${proofOf(row)}</small>`;
    }),
  ]);
  return html`<h2>Streams</h2>${table('Freshness of each stream of each client; a bar is what one run wrote, of its latest runs that wrote anything', ['client', ...known], rows)}`;
}

function freshnessOf(
  row: StreamStatus,
  scheduled: boolean,
  because: 'failing' | 'paused' | 'not run' | undefined,
): [Tone, string] {
  if (!scheduled) return ['note', 'not run by this worker'];
  if (because === 'paused') return ['note', 'paused'];
  if (because !== undefined) return ['bad', because === 'failing' ? 'failing' : 'late'];
  if (row.firstLoad) return ['note', row.fetchedSoFar === null ? 'first load' : `first load: ${row.fetchedSoFar} read`];
  return ['good', 'fresh'];
}

function proofOf({ reconciledAt, missing, stale, extra, quarantined }: StreamStatus): string {
  const proof = reconciledAt === null ? '' : `; reconciled: ${missing} missing, ${stale} stale, ${extra} extra`;
  return `${proof}${quarantined > 0 ? `; ${quarantined} in quarantine` : ''}`;
}

function outboxFunnel(rows: readonly OutboxStatus[]): Html {
  const sum = (value: (row: OutboxStatus) => number) => rows.reduce((total, row) => total + value(row), 0);
  const stages = [
    ['dead', sum(({ dead }) => dead), 'refused, or given up: each waits for you'],
    [
      'unknown',
      sum(({ unknown }) => unknown),
      `${sum(({ toDecide }) => toDecide)} wait for you, the rest is looked up`,
    ],
    ['pending', sum(({ pending }) => pending), 'sent when their turn comes'],
    ['sending', sum(({ sending }) => sending), 'under way'],
    ['done', sum(({ doneLastDay }) => doneLastDay), 'in 24 hours'],
  ] as const;
  const boxes = stages.map(
    ([status, number, note]) =>
      html`<li class="${number > 0 && (status === 'dead' || status === 'unknown') ? 'bad' : ''}"><a href="/outbox?status=${status}"><b>${number}</b> ${status}</a><small>${note}</small></li>`,
  );
  const ofClients = rows.map((row) => [
    html`<a href="/outbox?client=${encodeURIComponent(row.client)}">${row.client}</a>`,
    row.dead,
    row.unknown,
    row.pending,
    row.sending,
    row.doneLastDay,
    formatSpan(row.oldestSeconds),
  ]);
  return html`<h2>Outbox</h2><ol class="funnel">${boxes}</ol>
${rows.length > 1 ? table('By client', ['client', 'dead', 'unknown', 'pending', 'sending', 'done 24 h', 'oldest'], ofClients) : ''}`;
}

function gateTable({ snapshot: { gates, now } }: Overview): Html {
  if (gates.length === 0) return html`<h2>Track-trace</h2><p class="none">It was never asked for yet.</p>`;
  const rows = gates.map(({ client, gate, nextAt, takenAt, taken, spent }) => [
    client,
    gate,
    nextAt > now ? html`${badge('note', 'closed')} opens ${ago(nextAt, now)}` : badge('good', 'open'),
    ago(takenAt, now),
    taken,
    spent,
  ]);
  const note = 'Asked at most once an hour; a call whose worker was lost has spent its hour';
  return html`<h2>Track-trace</h2>${table(note, ['client', 'gate', 'state', 'last asked', 'asked', 'spent'], rows)}`;
}
