/**
 * Templates of HTML, and the elements that the pages of the worker and of the sandbox share. Every
 * value is escaped, unless a template made it.
 */

import { toVisible } from './quote.ts';

/** Markup that is safe to send, because `html` made it. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A value of a template. Null, undefined and false become nothing. */
export type Child = Html | string | number | null | undefined | false | readonly Child[];

/** Makes markup of a template. Escapes every value that is not markup already. */
export function html(strings: TemplateStringsArray, ...values: readonly Child[]): Html {
  return new Html(
    strings
      .map((part, index) => part + (index < values.length ? renderChild(values[index]) : ''))
      .join(''),
  );
}

function renderChild(value: Child): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Html) return value.text;
  if (typeof value === 'string' || typeof value === 'number') return escapeText(String(value));
  return value.map(renderChild).join('');
}

/**
 * Escapes a text for the content of an element, or for an attribute in double quotes. Hidden
 * characters are shown by their codes, but the white space that people type in forms stays.
 */
function escapeText(text: string): string {
  return toVisible(text, '\n\r\t')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

/** The colour of a badge. */
export type Tone = 'good' | 'warn' | 'bad' | 'note';

/** Renders a state as a coloured word. */
export const badge = (tone: Tone, text: string): Html =>
  html`<span class="badge ${tone}">${text}</span>`;

/** Returns true if a cell holds a number, or the dash of a number that is not known. */
const isNumeric = (cell: Child) => typeof cell === 'number' || cell === '–';

/** Renders a table, with numbers at the right. Its rows become cards on a narrow screen. */
export function renderTable(
  caption: Html,
  headings: readonly string[],
  rows: readonly (readonly Child[])[],
): Html {
  const isNumber = headings.map((_, index) => rows.every((cells) => isNumeric(cells[index])));
  const toClass = (index: number) => isNumber[index] && html` class="num"`;
  const renderCell = (cell: Child, index: number) =>
    html`<td data-label="${headings[index]}"${toClass(index)}><div>${cell}</div></td>`;

  const head = headings.map(
    (heading, index) => html`<th scope="col"${toClass(index)}>${heading}</th>`,
  );
  const body = rows.map((cells) => html`<tr>${cells.map(renderCell)}</tr>\n`);

  return html`<table>${caption}<thead><tr>${head}</tr></thead><tbody>
${body}</tbody></table>`;
}
