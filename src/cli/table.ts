/** Formats text for a terminal: tables and outbox rows. Nothing here reads or writes a database. */

import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { toVisible } from '../core/quote.ts';

const gap = '  ';

/** The value of a cell. Null is shown as `-`, a date to the second in UTC. */
type Value = string | number | Date | null;
type Cell = string | number;

/** The columns of a table: what each shows of a row, by heading. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => Value>>;

/**
 * Formats rows as columns that are as wide as their longest cell. Numbers are aligned to the right.
 * If the columns do not fit, each row is a list.
 * @param width characters of a line; by default those of the terminal
 */
export function formatTable<Row>(
  rows: readonly Row[],
  columns: Columns<Row>,
  width = process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY,
): string {
  const headings = Object.keys(columns);
  const cells = rows.map((row) => Object.values(columns).map((show) => toCell(show(row))));
  const widths = headings.map((heading, index) =>
    cells.reduce(
      (widest, row) => Math.max(widest, stringWidth(String(row[index]))),
      stringWidth(heading),
    ),
  );
  if (widths.reduce((sum, size) => sum + size + gap.length, -gap.length) > width)
    return formatLists(headings, cells);
  const formatRow = (row: readonly Cell[], isHeading: boolean) => {
    const texts = row.map((cell, index) => {
      const text = String(cell);
      const blank = ' '.repeat((widths[index] ?? 0) - stringWidth(text));
      const padded =
        typeof cell === 'number' ? blank + text : index === row.length - 1 ? text : text + blank;
      const style = isHeading ? 'bold' : findStyle(text, headings[index] ?? '');
      return style === null || text === '' ? padded : styleText(style, padded);
    });
    return texts.join(gap).trimEnd();
  };
  return [formatRow(headings, true), ...cells.map((row) => formatRow(row, false))].join('\n');
}

/** Joins the lines of a text, and replaces control characters that a terminal would execute. */
function toCell(value: Value): Cell {
  if (value === null) return '-';
  if (value instanceof Date) return value.toISOString().slice(0, 19);
  return typeof value === 'number' ? value : toVisible(value.replaceAll('\n', ' '));
}

function formatLists(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const size = headings.reduce((longest, heading) => Math.max(longest, heading.length), 0);
  const formatLine = (heading: string, cell: Cell = '') => {
    const style = findStyle(String(cell), heading);
    return `${styleText('bold', heading.padEnd(size))}  ${style === null ? cell : styleText(style, String(cell))}`;
  };
  return rows
    .map((row) => headings.map((heading, index) => formatLine(heading, row[index])).join('\n'))
    .join('\n\n');
}

const green = ['ok', 'done'];
const yellow = ['paused', 'warn'];
const red = ['failed', 'fail', 'abandoned', 'dead', 'unknown', 'parked'];

/**
 * Returns the style of a word that names a state, and of numbers of rows that need a person; null:
 * plain.
 */
function findStyle(text: string, heading: string): Parameters<typeof styleText>[0] | null {
  if (/dead|unknown/.test(heading)) return text === '0' ? null : 'red';
  if (heading !== 'state' && heading !== 'status') return null;
  if (text === 'running') return 'cyan';
  return green.includes(text)
    ? 'green'
    : yellow.includes(text)
      ? 'yellow'
      : red.includes(text)
        ? 'red'
        : null;
}
