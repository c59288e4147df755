/**
 * The frame of the pages, and the elements that they share. All HTML is made on the server, and
 * every value is escaped.
 */

import { type Child, type Html, html, renderTable } from '../../core/html.ts';
import { formatSpan } from '../../core/time.ts';

/**
 * Removes quoted words from markup. They come from the service or a payload, and may name the
 * recipient of an order.
 */
export const maskQuotes = (markup: string): string => markup.replaceAll(/«[^»<"]*»?/g, '«…»');

/** The parts of a page around its content. */
interface Frame {
  readonly title: string;
  /** Path of the page, to mark it in the navigation. */
  readonly path: string;
  /** True if the browser has a session, which it can end. */
  readonly loggedIn: boolean;
  /** Message about the action that led here. */
  readonly message: string | undefined;
  /** Seconds after which the script asks for the page again; null: never. */
  readonly refreshSeconds: number | null;
  /** True if a browser without script loads the page again, too. */
  readonly isReloaded: boolean;
  /** Token of the forms for logout and search. */
  readonly csrf: string;
  /** True if the reader may see no personal data. */
  readonly isViewer: boolean;
}

const navigation = [
  ['/', 'Overview'],
  ['/charts', 'Charts'],
  ['/orders', 'Orders'],
  ['/outbox', 'Outbox'],
  ['/runs', 'Runs'],
  ['/schedules', 'Schedules'],
  ['/quarantine', 'Quarantine'],
  ['/audit', 'Audit'],
  ['/queues', 'Queues'],
] as const;

/** Renders a whole page. */
export function renderPage(frame: Frame, body: Child): string {
  const { title, path, loggedIn, message, csrf, isViewer } = frame;
  const label = isViewer
    ? 'Order, shipment or tracking code'
    : 'E-mail, Order, shipment or tracking code';
  const search = html`${openSearchForm('search', 'Find an order', isViewer ? null : csrf)}
<input type="search" name="q" aria-label="${label}" placeholder="Number" required
  maxlength="200"> <button class="quiet">Find</button></form>`;
  const logout = renderForm('/logout', csrf, html`<button class="quiet">Log out</button>`);
  const said = html`<p class="said" role="status">${message}</p>`;

  const content = html`<a class="skip" href="#main">Skip to content</a>
<header><a class="name" href="/">fulfilment-sync</a>
${renderNavigation(path)}${search}${loggedIn && logout}</header>
<main id="main" tabindex="-1">
<p class="why" id="stale" role="alert" hidden>Not connected: the values below are old.
Reload the page.</p>
${message !== undefined && said}
${body}
</main>`;
  return renderDocument(title, content, { refresh: renderRefresh(frame) });
}

function renderNavigation(path: string): Html {
  const current = path === '/order' ? '/orders' : path;
  const isCurrent = (place: string) =>
    place === '/' ? current === '/' : current.startsWith(place);
  const links = navigation.map(([place, name]) => {
    const mark = isCurrent(place) && html` aria-current="page"`;
    return html`<li><a href="${place}"${mark}>${name}</a></li>`;
  });
  return html`<nav aria-label="Pages"><ul>${links}</ul></nav>`;
}

/** Seconds after which a browser without script loads a page again, unless it is followed. */
const reloadSeconds = 10;

/** Renders what keeps a page up to date: the script, or loading it again. */
function renderRefresh({ refreshSeconds, isReloaded }: Frame): Html {
  if (refreshSeconds === null) return html``;
  const seconds = refreshSeconds < 5 ? refreshSeconds : reloadSeconds;
  const reload = html`<noscript><meta http-equiv="refresh" content="${seconds}"></noscript>`;
  return html`<script src="/assets/page.js" data-seconds="${refreshSeconds}" defer></script>
${isReloaded && reload}`;
}

/** Renders what is known of one thing. A fact that is null is left out. */
export function renderFacts(facts: readonly (readonly [name: string, value: Child])[]): Html {
  const entries = facts
    .filter(([, value]) => value !== null)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`);
  return html`<dl class="facts">${entries}</dl>`;
}

/** Renders a box that has to be ticked. */
export const renderConfirmation = (text: string): Html =>
  html`<label class="sure"><input type="checkbox" name="sure" required> ${text}</label>`;

/** Renders the token of a form that changes something. */
const renderCsrfField = (csrf: string): Html =>
  html`<input type="hidden" name="_csrf" value="${csrf}">`;

/** Renders a form that changes something. */
export const renderForm = (action: string, csrf: string, content: Child): Html =>
  html`<form method="post" action="${action}">${renderCsrfField(csrf)}
${content}</form>`;

/**
 * Opens a form that searches orders. That of an operator is a POST, because an e-mail address must
 * not be in a URL.
 * @param csrf the token of the form; null for a viewer, whose search finds no personal data
 */
export function openSearchForm(look: string, label: string, csrf: string | null): Html {
  const method = csrf === null ? 'get' : 'post';
  const token = csrf !== null && renderCsrfField(csrf);
  return html`<form class="${look}" method="${method}" action="/orders" role="search"
  aria-label="${label}">${token}`;
}

/** Renders a page without navigation: the login, or an error. */
export const renderBarePage = (title: string, body: Child): string =>
  renderDocument(title, html`<main id="main">\n${body}\n</main>`, { look: html` class="bare"` });

function renderDocument(
  title: string,
  body: Html,
  { refresh, look }: { refresh?: Html; look?: Html },
): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · fulfilment-sync</title>
<link rel="icon" href="/assets/icon.svg">
<link rel="stylesheet" href="/assets/page.css">
${refresh}
</head>
<body${look}>
${body}
</body>
</html>
`.text;
}

/** Renders how long ago a time is (`3m ago`), with the time itself as its title. */
export function renderAge(at: Date | null, now: Date): Html {
  if (at === null) return html`<span class="none">never</span>`;
  const seconds = (now.getTime() - at.getTime()) / 1_000;
  const time = at.toISOString();
  return html`<time datetime="${time}" title="${time}">${describeAge(seconds)}</time>`;
}

function describeAge(seconds: number): string {
  if (Math.abs(seconds) < 1) return 'just now';
  return seconds < 0 ? `in ${formatSpan(-seconds)}` : `${formatSpan(seconds)} ago`;
}

/** Renders a time to the second. */
export function renderTime(at: Date | string | null): Html {
  if (at === null) return html`<span class="none">–</span>`;
  const text = typeof at === 'string' ? at : at.toISOString();
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')}</time>`;
}

/**
 * Renders a table with a caption, or a sentence if it has no rows. It is kept up to date.
 * @param rows the cells of each row by their headings
 */
export function renderList(
  caption: string,
  rows: readonly Readonly<Record<string, Child>>[],
  ifEmpty = 'None.',
): Html {
  const [first] = rows;
  if (first === undefined) return html`<div data-live><p class="none">${ifEmpty}</p></div>`;

  const cells = rows.map((row) => Object.values(row));
  const table = renderTable(html`<caption>${caption}</caption>`, Object.keys(first), cells);
  return html`<div data-live>${table}</div>`;
}

/** Says that only some rows are shown, if they are as many as a list holds. */
export const renderCut = (rows: readonly unknown[], limit: number, more: Child = ''): Child =>
  rows.length === limit && html`<p>Only the first ${limit} are shown. ${more}</p>`;

/** Renders the name of a client as a link to what a page shows of it alone. */
export const linkClient = (page: string, client: string): Html =>
  html`<a href="${page}?client=${encodeURIComponent(client)}">${client}</a>`;

/** Returns the path of the page of an order. */
export const toOrderPath = (client: string, number: string): string =>
  `/order?${new URLSearchParams({ client, number })}`;

/** A link to another view of the same page. */
export interface Tab {
  readonly title: Child;
  readonly path: string;
  readonly isCurrent: boolean;
}

/** Renders links to views of a page. The current one is marked. */
export function renderTabs(label: string, tabs: readonly Tab[]): Html {
  const links = tabs.map(({ title, path, isCurrent }) => {
    const mark = isCurrent && html` aria-current="page"`;
    return html`<li><a href="${path}"${mark}>${title}</a></li>`;
  });
  return html`<nav class="tabs" aria-label="${label}"><ul>${links}</ul></nav>`;
}

/** Renders a link to a row of the outbox. */
export const linkRow = (id: number): Html => html`<a href="/outbox/${id}">row ${id}</a>`;

/** Renders links to rows of the outbox. */
export const linkRows = (ids: readonly number[]): Child =>
  ids.map((id, index) => html`${index === 0 ? '' : ', '}${linkRow(id)}`);

/**
 * Renders a field of a filter form.
 * @param label the field, and what no choice means: 'all' unless it is named
 */
export function renderChoice(
  name: string,
  label: string | { readonly text: string; readonly all: string },
  options: readonly string[],
  chosen: string | null | undefined,
): Html {
  const { text, all } = typeof label === 'string' ? { text: label, all: 'all' } : label;
  const entries = options.map(
    (option) => html`<option${option === chosen && html` selected`}>${option}</option>`,
  );
  return html`<label>${text} <select name="${name}"><option value="">${all}</option>
${entries}</select></label>`;
}

/** Renders the choice of a client, if there are several. */
export const chooseClient = (
  clients: readonly string[],
  chosen: string | null | undefined,
  all = 'all',
) => clients.length > 1 && renderChoice('client', { text: 'Client', all }, clients, chosen);

/** Formats a span; below a second in milliseconds, so that it is not 0. */
export const formatDuration = (seconds: number): string =>
  seconds > 0 && seconds < 1 ? `${Math.round(seconds * 1_000)} ms` : formatSpan(seconds);

/** Renders the form of a list that shows a part of it. */
export const renderFilter = (path: string, fields: Child): Html =>
  html`<form class="filter" method="get" action="${path}">${fields} <button>Show</button></form>`;
