import { type Child, Html, html, renderTable } from '../../core/html.ts';

/** Renders a table whose caption only screen readers get. */
export const table = (
  caption: string,
  headings: readonly string[],
  rows: readonly (readonly Child[])[],
): Html =>
  rows.length === 0
    ? html`<p class="none">None.</p>`
    : renderTable(html`<caption class="unseen">${caption}</caption>`, headings, rows);

/** Renders a part of the page that the reader can close. */
export function section(id: string, title: string, isOpen: boolean, content: Child): Html {
  const open = new Html(isOpen ? ' open' : '');
  return html`<details class="section" id="${id}"${open}><summary><h2>${title}</h2></summary>
${content}
</details>`;
}

/** Writes a moment to the second, in UTC. */
export const writeMoment = (ms: number): string =>
  new Date(ms).toISOString().slice(0, 19).replace('T', ' ');

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

/** Renders a hidden field. */
export const hidden = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;

/** Renders a form that calls a control. */
export const controlForm = (path: string, content: Child): Html =>
  html`<form method="post" action="/_sandbox/${path}">${content}</form>`;

/** What a reader of the page has chosen. It is the query of the page's address. */
export interface View {
  readonly client: string;
  /** The text to search for; empty for none. */
  readonly q: string;
  /** The action that led to the page. */
  readonly said: string;
}

/** Returns the address of the page for some choices. Choices that are left out are not made. */
export function writeAddress(view: Partial<View>): string {
  const query = new URLSearchParams(Object.entries(view).filter(([, value]) => value !== ''));
  return query.size === 0 ? '/' : `/?${query}`;
}
