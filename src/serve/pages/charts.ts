/**
 * The charts of the last 24 hours and 30 days. Each has a description in words, for who cannot see
 * it.
 */

import { type Html, html } from '../../core/html.ts';
import { formatSpan } from '../../core/time.ts';
import type { Series, Trends } from '../../operate/health/trends.ts';
import { renderChoice } from './view.ts';

/**
 * Formats a number with one or two digits, unless it is larger. A number above 0 never shows as 0.
 */
function formatNumber(value: number): string {
  if (value < 1) return String(Number(value.toPrecision(1)));
  return String(value < 10 ? round(value) : Math.round(value));
}

/** Formats seconds; short times in milliseconds. */
const formatSeconds = (value: number) =>
  value > 0 && value < 1 ? `${Math.round(value * 1_000)} ms` : formatSpan(value);

const streamColours = ['c1', 'c2', 'c3', 'c4', 'c5'];

/** The charts, and which series each of them draws. */
const charts: readonly (ChartStyle & {
  readonly member: keyof Trends & ('rows' | 'pushes' | 'waits' | 'oldestPending' | 'streamAges');
})[] = [
  { member: 'rows', title: 'Rows written, by stream', shape: 'bars', colours: streamColours },
  {
    member: 'pushes',
    title: 'Pushes per minute, by outcome',
    shape: 'bars',
    colours: ['good', 'note', 'warn', 'bad'],
  },
  { member: 'waits', title: 'Time from insert to done', shape: 'lines', colours: ['c1', 'c2'] },
  {
    member: 'oldestPending',
    title: 'Age of the oldest pending row',
    shape: 'lines',
    colours: ['c1'],
  },
  {
    member: 'streamAges',
    title: 'Time since the last complete poll',
    shape: 'lines',
    colours: streamColours,
  },
];

/**
 * Renders the charts of all spans. A longer span is left out while it would show no more than the
 * one before.
 */
export function renderCharts(spans: readonly Trends[]): Html {
  const toMinutes = ({ times, stepMinutes }: Trends) => times.length * stepMinutes;
  const shown = spans.filter((trends, index) => {
    const before = spans[index - 1];
    return before === undefined || countSteps(trends) * trends.stepMinutes > toMinutes(before);
  });
  return html`${shown.map(renderSpan)}`;
}

/**
 * Returns the number of steps from the first figure until now: fewer than the span has, if the
 * system is younger.
 */
function countSteps(trends: Trends): number {
  const count = trends.times.length;
  const firsts = charts
    .flatMap(({ member }) => trends[member].map(({ values }) => values.findIndex(Boolean)))
    .filter((first) => first >= 0);
  return count - firsts.reduce((least, first) => Math.min(least, first), count);
}

/** Minimum number of steps that are drawn. */
const minSteps = 8;

function renderSpan(trends: Trends, index: number): Html {
  const { span, stepMinutes } = trends;
  const count = trends.times.length;
  const drawn = Math.min(count, Math.max(minSteps, countSteps(trends)));
  const drawnSpan = drawn === count ? span : formatSpan(drawn * stepMinutes * 60);
  const cut = ({ name, values }: Series): Series => ({ name, values: values.slice(count - drawn) });

  const drawings = charts.map(({ member, ...style }) => {
    const id = `chart-${index}-${member}`;
    return renderChart(style, { id, span: drawnSpan, series: trends[member].map(cut) });
  });
  return html`<h2>The last ${span}</h2><div class="charts">${drawings}</div>`;
}

/** Renders `/charts`: the charts of one client, or of all together. */
export function renderChartsPage(
  spans: readonly Trends[],
  clients: readonly string[],
  chosen: string | undefined,
): Html {
  const label = { text: 'Client', all: 'all together' };
  return html`<h1>Charts</h1>
<p>Made once a minute. Rows count those that polls wrote.</p>
<form class="filter" method="get" action="/charts">
${renderChoice('client', label, clients, chosen)} <button>Show</button></form>
${renderCharts(spans)}`;
}

/** How a chart is drawn. */
interface ChartStyle {
  readonly title: string;
  /**
   * `bars` are numbers, which are stacked: their sum counts. `lines` are times, which are compared
   * with each other.
   */
  readonly shape: 'bars' | 'lines';
  /** Classes of the colours, by series. */
  readonly colours: readonly string[];
}

/** The data of a chart. */
interface ChartData {
  /** Beginning of the ids of its elements. */
  readonly id: string;
  /** What the chart covers, such as `24 hours`. */
  readonly span: string;
  readonly series: readonly Series[];
}

const height = 100;
const barWidth = 0.8;

/** Renders a chart with its legend. Each name in the legend has the latest value beside it. */
function renderChart({ title, shape, colours }: ChartStyle, { id, span, series }: ChartData): Html {
  const format = shape === 'bars' ? formatNumber : formatSeconds;
  const latest = series.map(({ name, values }) => ({ name, value: formatLatest(values, format) }));
  const steps = series[0]?.values.length ?? 0;
  const highest = findHighest(series, shape);

  const paths = drawSeries(series, shape, highest).map((path, index) => {
    const look = `${shape} ${colours[index]}`;
    return (
      path !== '' && html`<path class="${look}" d="${path}" vector-effect="non-scaling-stroke"/>`
    );
  });
  const grid = `M0 0H${steps}M0 50H${steps}M0 100H${steps}`;
  const legend = latest.map(
    ({ name, value }, index) =>
      html`<li><i class="swatch ${colours[index]}"></i>${name} <b>${value}</b></li>`,
  );
  const now = latest.map(({ name, value }) => `${name} now: ${value}`).join('; ');
  const words = `${title}, the last ${span}. Highest: ${format(highest)}. ${now}.`;

  return html`<figure class="chart"><figcaption id="${id}">${title}</figcaption>
<div class="plot"><span class="top">${format(highest)}</span>
<svg role="img" aria-labelledby="${id}-title ${id}-words" preserveAspectRatio="none"
  viewBox="0 0 ${Math.max(1, steps)} ${height}">
<title id="${id}-title">${title}</title><desc id="${id}-words">${words}</desc>
<path class="grid" d="${grid}" vector-effect="non-scaling-stroke"/>${paths}</svg></div>
<div class="axis"><span>${span} ago</span><span>now</span></div>
<ul class="legend">${legend}</ul></figure>`;
}

/** Finds the largest value that is drawn: of bars, which are stacked, the sum counts. */
function findHighest(series: readonly Series[], shape: ChartStyle['shape']): number {
  const add = (sum: number, value: number) => sum + value;
  const takeHigher = (one: number, other: number) => Math.max(one, other);
  const join = shape === 'bars' ? add : takeHigher;
  const steps = series[0]?.values ?? [];
  return steps
    .map((_, step) => series.map(({ values }) => values[step] ?? 0).reduce(join, 0))
    .reduce(takeHigher, 0);
}

/** Draws each series as the path of an SVG; empty if there is nothing to draw. */
function drawSeries(
  series: readonly Series[],
  shape: ChartStyle['shape'],
  highest: number,
): string[] {
  const toY = (value: number) => round(height - (highest === 0 ? 0 : (value / highest) * height));
  if (shape === 'lines') return series.map(({ values }) => drawLine(values, toY));

  return series.map(({ values }, index) => {
    const sumBelow = (step: number) =>
      series.slice(0, index).reduce((sum, { values: all }) => sum + (all[step] ?? 0), 0);
    return drawBars(values, sumBelow, toY);
  });
}

/** Rounds to one digit after the point. In a path, more cannot be seen. */
const round = (value: number) => Math.round(value * 10) / 10;

/** Returns the last value of a series in words. */
const formatLatest = (values: Series['values'], format: (value: number) => string) => {
  const last = values.at(-1);
  return last === null || last === undefined ? '–' : format(last);
};

/** Draws a bar for each value that is not 0, on top of what is below it. */
function drawBars(
  values: Series['values'],
  sumBelow: (step: number) => number,
  toY: (value: number) => number,
): string {
  return values
    .map((value, step) => {
      if (value === null || value === 0) return '';
      const from = toY(sumBelow(step));
      const to = toY(sumBelow(step) + value);
      return `M${step + 0.1} ${from}V${to}h${barWidth}V${from}z`;
    })
    .join('');
}

/** Draws a line through the values. It is interrupted where there is none. */
function drawLine(values: Series['values'], toY: (value: number) => number): string {
  return values
    .map((value, step) => {
      if (value === null) return '';
      const begins = step === 0 || values[step - 1] === null;
      const ends = step === values.length - 1 || values[step + 1] === null;
      // A value without neighbours is drawn as a short line, or it would not be seen.
      if (begins && ends) return `M${step} ${toY(value)}h1`;
      return `${begins ? 'M' : 'L'}${step + 0.5} ${toY(value)}`;
    })
    .join('');
}
