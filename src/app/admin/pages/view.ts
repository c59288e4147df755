/**
 * The pages, as HTML made on the server. Every value is escaped.
 */

import { formatSpan } from '../../../core/time.ts';
import { type Child, Html, html } from './html.ts';

/** What the pages of the admin server are made of. */
export interface Frame {
  readonly title: string;
  /** Path of the page, to mark it in the navigation. */
  readonly path: string;
  /** Whether one is logged in, and so can log out. */
  readonly loggedIn: boolean;
  /** What came of the form that led here. */
  readonly said?: string | undefined;
  /** Asks the server for news and shows them. */
  readonly live?: boolean;
  /** Token that a form of this page carries. */
  readonly csrf?: string;
}

const places = [
  ['/', 'Overview'],
  ['/outbox', 'Outbox'],
  ['/runs', 'Runs'],
  ['/schedules', 'Schedules'],
  ['/quarantine', 'Quarantine'],
  ['/audit', 'Audit'],
  ['/queues', 'Queues'],
] as const;

const head = (title: string, live: boolean): Html => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · fulfilment-sync</title>
<link rel="icon" href="/assets/icon.svg">
<link rel="stylesheet" href="/assets/page.css">
${live ? html`<script src="/assets/page.js" defer></script><noscript><meta http-equiv="refresh" content="10"></noscript>` : ''}
</head>`;

/** A whole page. */
export function page({ title, path, loggedIn, said, live, csrf }: Frame, body: Child): string {
  const isHere = (place: string) => (place === '/' ? path === '/' : path.startsWith(place));
  const links = places.map(
    ([place, name]) =>
      html`<li><a href="${place}"${isHere(place) ? new Html(' aria-current="page"') : ''}>${name}</a></li>`,
  );
  const logout =
    loggedIn && csrf !== undefined
      ? html`<form method="post" action="/logout"><input type="hidden" name="_csrf" value="${csrf}"><button class="quiet">Log out</button></form>`
      : '';
  return html`${head(title, live === true)}
<body>
<a class="skip" href="#main">Skip to content</a>
<header><a class="name" href="/">fulfilment-sync</a><nav aria-label="Pages"><ul>${links}</ul></nav>${logout}</header>
<main id="main" tabindex="-1">
${said === undefined ? '' : html`<p class="said" role="status">${said}</p>`}
${body}
</main>
</body>
</html>
`.text;
}

/** A page for people who are not let in yet, or for whom something went wrong. */
export function barePage(title: string, body: Child): string {
  return html`${head(title, false)}
<body class="bare"><main id="main">
${body}
</main></body>
</html>
`.text;
}

/** `3m ago`, with the moment itself for who points at it. */
export function ago(at: Date | null, now: Date): Html {
  if (at === null) return html`<span class="none">never</span>`;
  const seconds = (now.getTime() - at.getTime()) / 1_000;
  const words = seconds < 0 ? `in ${formatSpan(-seconds)}` : `${formatSpan(seconds)} ago`;
  return html`<time datetime="${at.toISOString()}" title="${at.toISOString()}">${words}</time>`;
}

/** A moment to the second. */
export function moment(at: Date | string | null): Html {
  if (at === null) return html`<span class="none">–</span>`;
  const text = typeof at === 'string' ? at : at.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')}</time>`;
}

export type Tone = 'good' | 'warn' | 'bad' | 'note';

/** A state in a word, coloured. */
export const badge = (tone: Tone, text: string): Html => html`<span class="badge ${tone}">${text}</span>`;

/** A table whose rows become cards on a narrow screen. */
export function table(caption: string, headings: readonly string[], rows: readonly (readonly Child[])[]): Html {
  const head = headings.map((heading) => html`<th scope="col">${heading}</th>`);
  const body = rows.map(
    (cells) =>
      html`<tr>${cells.map((cell, index) => html`<td data-label="${headings[index]}"><div>${cell}</div></td>`)}</tr>\n`,
  );
  return html`<table><caption>${caption}</caption><thead><tr>${head}</tr></thead><tbody>
${body}</tbody></table>`;
}

/** A choice of a filter form. */
export function choice(
  name: string,
  label: string,
  options: readonly string[],
  chosen: string | undefined,
  all = 'all',
): Html {
  const entries = options.map(
    (option) => html`<option${option === chosen ? new Html(' selected') : ''}>${option}</option>`,
  );
  return html`<label>${label} <select name="${name}"><option value="">${all}</option>${entries}</select></label>`;
}

const barWidth = 4;
const sparkHeight = 20;

/** Bars of numbers, oldest first; the highest fills the height, and by square roots the others are seen beside it. */
export function sparkline(values: readonly number[], what: string): Html {
  if (values.length === 0) return html`<span class="none">no rows yet</span>`;
  const most = Math.max(1, ...values);
  const bars = values.map((value, index) => {
    const height = value === 0 ? 1 : Math.max(2, Math.round(Math.sqrt(value / most) * sparkHeight));
    return html`<rect x="${index * (barWidth + 1)}" y="${sparkHeight - height}" width="${barWidth}" height="${height}"/>`;
  });
  const label = `${what}: ${values.join(', ')}`;
  return html`<svg class="spark" role="img" aria-label="${label}" width="${values.length * (barWidth + 1)}" height="${sparkHeight}" viewBox="0 0 ${values.length * (barWidth + 1)} ${sparkHeight}"><title>${label}</title>${bars}</svg>`;
}
