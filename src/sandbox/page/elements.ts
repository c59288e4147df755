import type { FastifyRequest } from 'fastify';
import { type Child, Html, html } from '../../core/html.ts';
import { isFromHost } from '../refusal.ts';
import type { World } from '../world.ts';

/** A row of a table: its cells, or a row with an id, which lets the script keep it if it has not changed. */
export type Row = readonly Child[] | NamedRow;
export interface NamedRow {
  readonly id: string;
  readonly cells: readonly Child[];
}

/** Renders a table. Its rows become cards on a narrow screen. */
export function table(caption: string, headings: readonly string[], rows: readonly Row[]): Html {
  if (rows.length === 0) return html`<p class="none">None.</p>`;
  const head = headings.map((heading) => html`<th scope="col">${heading}</th>`);
  const body = rows.map((row) => {
    const { id, cells } = 'cells' in row ? row : { id: undefined, cells: row };
    const shown = cells.map((cell, index) => html`<td data-label="${headings[index]}"><div>${cell}</div></td>`);
    return html`<tr${id === undefined ? '' : html` id="${id}"`}>${shown}</tr>\n`;
  });
  return html`<table><caption class="unseen">${caption}</caption><thead><tr>${head}</tr></thead><tbody>
${body}</tbody></table>`;
}

/** Renders a part of the page that the reader can close. */
export function section(id: string, title: string, isOpen: boolean, content: Child): Html {
  return html`<details class="section" id="${id}"${new Html(isOpen ? ' open' : '')}><summary><h2>${title}</h2></summary>
${content}
</details>`;
}

/** The colour of a badge. */
export type Tone = 'good' | 'warn' | 'bad' | 'note';

/** Renders a state as a coloured word. */
export const badge = (tone: Tone, text: string): Html => html`<span class="badge ${tone}">${text}</span>`;

/** Renders a moment to the second, in UTC. */
export function moment(ms: number | null): Html {
  if (ms === null) return html`<span class="none">–</span>`;
  const text = new Date(ms).toISOString();
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')}</time>`;
}

/** Renders names with their values. */
export function facts(entries: readonly (readonly [string, Child])[]): Html {
  return html`<dl class="facts">${entries.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** An option of a choice: its value, and the text that is shown. */
export type Option = readonly [value: string | number, text: string];

/** Renders a choice with its label. */
export function choice(name: string, label: string, options: readonly Option[], chosen = ''): Html {
  const entries = options.map(
    ([value, text]) =>
      html`<option value="${value}"${String(value) === chosen ? new Html(' selected') : ''}>${text}</option>`,
  );
  return html`<label>${label} <select name="${name}">${entries}</select></label>`;
}

/** Renders a field with its label. */
export function field(
  name: string,
  label: string,
  attributes: Readonly<Record<string, string | number | true>> = {},
): Html {
  const given = Object.entries(attributes).map(([attribute, value]) =>
    value === true ? html` ${attribute}` : html` ${attribute}="${value}"`,
  );
  return html`<label>${label} <input name="${name}" autocomplete="off"${given}></label>`;
}

/** Renders a box to tick, with its label. */
export const tick = (name: string, label: Child): Html =>
  html`<label class="tick"><input type="checkbox" name="${name}" value="true"> ${label}</label>`;

/** Renders a hidden field. */
export const hidden = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;

/** Renders a form that calls a control. */
export const controlForm = (path: string, content: Child): Html =>
  html`<form method="post" action="/_sandbox/${path}">${content}</form>`;

/** Renders a whole page around its content. */
export function renderFrame(title: string, header: Child, body: Child): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/_sandbox/page.css">
<script src="/_sandbox/page.js" defer></script>
</head>
<body class="sandbox">
<a class="skip" href="#main">Skip to content</a>
<header><a class="name" href="/">Sandbox</a>${header}</header>
<main id="main" tabindex="-1">
${body}
</main>
</body>
</html>
`.text;
}

/** What a reader of the page has chosen. It is the query of the page's address. */
export interface View {
  readonly client: string;
  /** What to search for. */
  readonly q: string;
  /** Filters of the log of requests; empty for all. */
  readonly text: string;
  readonly operation: string;
  readonly status: string;
  /** The action that led to the page. */
  readonly said: string;
}

const maxLength = 200;

/** Reads the choices from an address of the page. Replaces an unknown client by the first one. */
export function readView(url: string, world: World): View {
  const query = new URLSearchParams(url.split('?', 2)[1]);
  const read = (name: string) => (query.get(name) ?? '').trim().slice(0, maxLength);
  const { clientNames } = world;
  const client = clientNames.find((name) => name === read('client')) ?? clientNames[0] ?? '';
  const [q, text, operation, status, said] = [read('q'), read('text'), read('operation'), read('status'), read('said')];
  return { client, q, text, operation, status, said };
}

/** Returns the address of the page for some choices. Choices that are left out are not made. */
export function writeAddress(view: Partial<View>): string {
  const query = new URLSearchParams(Object.entries(view).filter(([, value]) => value !== ''));
  return query.size === 0 ? '/' : `/?${query}`;
}

/** Returns the address of the page from which a form was sent, if it is a page of this sandbox. */
export function readReferrer(request: FastifyRequest): string {
  const { referer = '' } = request.headers;
  return isFromHost(referer, request.host) ? `/${new URL(referer).search}` : '/';
}
