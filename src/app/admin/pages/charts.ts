/**
 * The charts of the last 24 hours and 30 days. Each has a table with its numbers, for who cannot see it.
 */

import { type Html, html } from '../../../core/html.ts';
import { formatSpan } from '../../../core/time.ts';
import type { ChartedSpan, Series, Trends } from '../../health/trends.ts';
import { type ChartStyle, renderChart } from './chart.ts';
import { choice, table } from './view.ts';

/** Formats a number with at most one digit after the point. */
const formatNumber = (value: number) => String(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));

/** Formats seconds; short times in milliseconds. */
const formatSeconds = (value: number) =>
  value > 0 && value < 1 ? `${Math.round(value * 1_000)} ms` : formatSpan(value);

const streamColours = ['c1', 'c2', 'c3', 'c4', 'c5'];

/** The charts, and which series each of them draws. */
const charts: readonly (ChartStyle & {
  readonly member: keyof Trends & ('rows' | 'pushes' | 'waits' | 'oldestPending' | 'streamAges');
})[] = [
  { member: 'rows', title: 'Rows written, by stream', shape: 'bars', format: formatNumber, colours: streamColours },
  {
    member: 'pushes',
    title: 'Pushes per minute, by outcome',
    shape: 'bars',
    format: formatNumber,
    colours: ['good', 'note', 'warn', 'bad'],
  },
  { member: 'waits', title: 'Time from insert to done', shape: 'lines', format: formatSeconds, colours: ['c1', 'c2'] },
  {
    member: 'oldestPending',
    title: 'Age of the oldest pending row',
    shape: 'lines',
    format: formatSeconds,
    colours: ['c1'],
  },
  {
    member: 'streamAges',
    title: 'Time since the last complete poll',
    shape: 'lines',
    format: formatSeconds,
    colours: streamColours,
  },
];

/** Renders the charts of all spans. */
export function renderCharts(spans: readonly ChartedSpan[]): Html {
  return html`${spans.map(renderSpan)}`;
}

function renderSpan({ title, drawn, listed }: ChartedSpan, index: number): Html {
  const drawings = charts.map(({ member, ...style }) =>
    renderChart(style, { id: `chart-${index}-${member}`, span: title, series: drawn[member] }),
  );
  return html`<h2>The last ${title}</h2><div class="charts">${drawings}</div>
<details><summary>The last ${title} in numbers</summary>${renderNumbers(title, listed)}</details>`;
}

/** Renders the numbers of a span as one table, the latest first. */
function renderNumbers(title: string, listed: Trends): Html {
  const columns = charts.flatMap(({ member, title: chart, format }) =>
    listed[member].map((series) => ({ heading: `${chart}: ${series.name}`, series, format })),
  );
  const rows = listed.times
    .map((time, step) => [
      html`<time datetime="${time.toISOString()}">${time
        .toISOString()
        .slice(0, listed.stepMinutes < 1_440 ? 16 : 10)
        .replace('T', ' ')}</time>`,
      ...columns.map(({ series, format }) => formatValue(series, step, format)),
    ])
    .reverse();
  return html`<div class="wide" tabindex="0" role="region" aria-label="The last ${title} in numbers">${table(
    'Latest first, times in UTC. A row covers the time until the row above it',
    ['from', ...columns.map(({ heading }) => heading)],
    rows,
  )}</div>`;
}

const formatValue = ({ values }: Series, step: number, format: ChartStyle['format']) => {
  const value = values[step];
  return value === null || value === undefined ? '–' : format(value);
};

/** Renders `/charts`: the charts of one client, or of all together. */
export function renderChartsPage(
  spans: readonly ChartedSpan[],
  clients: readonly string[],
  chosen: string | undefined,
): Html {
  return html`<h1>Charts</h1>
<p>Made once a minute. Rows count those that polls wrote.</p>
<form class="filter" method="get" action="/charts">${choice('client', 'Client', clients, chosen, 'all together')} <button>Show</button></form>
${renderCharts(spans)}`;
}
