/** The three charts of the last 24 hours. Each has a description in words. */

import { type Html, html } from '../../core/html.ts';
import type { Series, Trends } from '../../operate/sql/read-trends.ts';
import { chooseClient, formatDuration, renderFilter } from './view.ts';

/** How a chart is drawn. */
interface ChartStyle {
  readonly member: Exclude<keyof Trends, 'times'>;
  readonly title: string;
  /** `bars` are numbers, which are stacked. `lines` are seconds, which are compared. */
  readonly shape: 'bars' | 'lines';
  /** Classes of the colours, by series. */
  readonly colours: readonly string[];
}

const charts: readonly ChartStyle[] = [
  {
    member: 'pushes',
    title: 'Rows of the outbox that ended in 15 minutes, by status',
    shape: 'bars',
    colours: ['good', 'bad', 'note'],
  },
  { member: 'waits', title: 'Time from insert to done', shape: 'lines', colours: ['c1', 'c2'] },
  {
    member: 'rows',
    title: 'Rows written by polls in 15 minutes, by stream',
    shape: 'bars',
    colours: ['c1', 'c2', 'c3', 'c4', 'c5'],
  },
];

/** Renders `/charts`: the charts of one client, or of all together. */
export function renderChartsPage(
  trends: Trends,
  clients: readonly string[],
  chosen: string | undefined,
): Html {
  const choice = chooseClient(clients, chosen, 'all together');
  return html`<h1>The last 24 hours</h1>
<p>In steps of 15 minutes. The bold value is that of the step under way.</p>
${choice && renderFilter('/charts', choice)}
<div class="charts">${charts.map((style) => renderChart(style, trends))}</div>`;
}

const height = 100;

/** Renders a chart with its legend. Each name in the legend has the latest value beside it. */
function renderChart(
  { member, title, shape, colours }: ChartStyle,
  { times, [member]: series }: Trends,
): Html {
  const caption = html`<figcaption id="${member}">${title}</figcaption>`;
  if (series.every(({ values }) => values.every((value) => !value)))
    return html`<figure class="chart">${caption}<p class="none">Nothing yet.</p></figure>`;

  const stacks = shape === 'bars' ? stack(series) : series.map(({ values }) => values);
  const highest = stacks.flat().reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
  const toY = (value: number) => Math.round(height * (1 - value / (highest || 1)) * 10) / 10;

  const paths = stacks.map((values, index) => {
    const below = shape === 'bars' ? (stacks[index - 1] ?? []) : null;
    const path = below === null ? drawLine(values, toY) : drawBars(values, below, toY);
    return html`<path class="${shape} ${colours[index]}" d="${path}"
  vector-effect="non-scaling-stroke"/>`;
  });

  const latest = series.map(({ name, values }) => ({ name, now: format(values.at(-1), shape) }));
  const legend = latest.map(
    ({ name, now }, index) =>
      html`<li><i class="swatch ${colours[index]}"></i>${name} <b>${now}</b></li>`,
  );
  const now = latest.map((one) => `${one.name} now: ${one.now}`).join('; ');
  const words = `${title}, the last 24 hours. Highest: ${format(highest, shape)}. ${now}.`;
  const steps = times.length;
  const hovers = times.map((at, step) => {
    const found = series.map(({ name, values }) => `${name} ${format(values[step], shape)}`);
    const text = `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC: ${found.join(', ')}`;
    return html`<rect x="${step}" width="1" height="${height}"><title>${text}</title></rect>`;
  });

  return html`<figure class="chart">${caption}
<div class="plot"><span class="top">${format(highest, shape)}</span>
<svg role="img" aria-labelledby="${member} ${member}-words" preserveAspectRatio="none"
  viewBox="0 0 ${steps} ${height}"><desc id="${member}-words">${words}</desc>
<path class="grid" d="M0 0H${steps}M0 50H${steps}M0 100H${steps}"
  vector-effect="non-scaling-stroke"/>
${paths}${hovers}</svg></div>
<div class="axis"><span>24 hours ago</span><span>now</span></div>
<ul class="legend">${legend}</ul></figure>`;
}

type Values = Series['values'];

/** Adds each series to the sum of those before it. */
function stack(series: readonly Series[]): Values[] {
  const stacked: Values[] = [];
  for (const { values } of series)
    stacked.push(values.map((value, step) => (value ?? 0) + (stacked.at(-1)?.[step] ?? 0)));
  return stacked;
}

/** Formats a number, or seconds as a span. A number above 0 never shows as 0. */
function format(value: number | null | undefined, shape: ChartStyle['shape']): string {
  if (value === null || value === undefined) return '–';
  if (shape === 'bars') return String(Math.ceil(value));
  return formatDuration(value);
}

/** Draws a bar for each value, from the value below it in the stack. */
const drawBars = (values: Values, below: Values, toY: (value: number) => number): string =>
  values
    .map((value, step) => {
      const from = below[step] ?? 0;
      const isSeen = value !== null && value > from;
      return isSeen ? `M${step + 0.1} ${toY(from)}V${toY(value)}h0.8V${toY(from)}z` : '';
    })
    .join('');

/** Draws a step for each value, joined to its neighbours, and nothing where there is none. */
const drawLine = (values: Values, toY: (value: number) => number): string =>
  values
    .map((value, step) => {
      if (value === null) return '';
      const isJoined = step > 0 && values[step - 1] !== null;
      return `${isJoined ? 'V' : `M${step} `}${toY(value)}h1`;
    })
    .join('');
