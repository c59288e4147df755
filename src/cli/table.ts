/** Formats text for a terminal: tables and outbox rows. Nothing here reads or writes a database. */

import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { toVisible } from '../core/quote.ts';

const gap = '  ';

type Cell = string | number;

/**
 * Formats rows as columns that are as wide as their longest cell. Numbers are aligned to the right.
 * If the columns do not fit, each row is a list.
 * @param members those that are shown, which also name the columns; default: those of the first row
 * @param width characters of a line; by default those of the terminal
 */
export function formatTable<Row extends object>(
  rows: readonly Row[],
  members: readonly (keyof Row & string)[] = Object.keys(rows[0] ?? {}) as (keyof Row & string)[],
  width = process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY,
): string {
  const headings = members.map((member) =>
    member.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
  );
  const cells = rows.map((row) => members.map((member) => toCell(row[member])));

  const widths = headings.map((heading, index) =>
    cells.reduce(
      (widest, row) => Math.max(widest, stringWidth(String(row[index]))),
      stringWidth(heading),
    ),
  );
  if (widths.reduce((sum, size) => sum + size + gap.length, -gap.length) > width)
    return formatLists(headings, cells);

  const formatRow = (row: readonly Cell[], toStyle: typeof findStyle) => {
    const texts = row.map((cell, index) => {
      const padded = pad(cell, widths[index] ?? 0, index === row.length - 1);
      return applyStyle(toStyle(String(cell), headings[index] ?? ''), padded);
    });
    return texts.join(gap).trimEnd();
  };

  const head = formatRow(headings, () => 'bold');
  return [head, ...cells.map((row) => formatRow(row, findStyle))].join('\n');
}

/** Fills a cell with blanks: a number at its left, a text at its right unless it is the last. */
function pad(cell: Cell, width: number, isLast: boolean): string {
  const blank = ' '.repeat(width - stringWidth(String(cell)));
  if (typeof cell === 'number') return `${blank}${cell}`;
  return isLast ? cell : `${cell}${blank}`;
}

const applyStyle = (style: Style | null, text: string) =>
  style === null || text.trim() === '' ? text : styleText(style, text);

/**
 * Returns a value on one line. Null is `-`, and a date is to the second in UTC. Control characters
 * that a terminal would execute are shown by their codes.
 */
function toCell(value: unknown): Cell {
  if (value === null || value === '') return '-';
  if (value instanceof Date) return value.toISOString().slice(0, 19);
  return typeof value === 'number' ? value : toVisible(String(value).replaceAll('\n', ' '));
}

function formatLists(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const size = headings.reduce((longest, heading) => Math.max(longest, heading.length), 0);

  const formatLine = (heading: string, cell: Cell = '') => {
    const text = String(cell);
    const value = applyStyle(findStyle(text, heading), text);
    return `${styleText('bold', heading.padEnd(size))}  ${value}`;
  };
  const formatList = (row: readonly Cell[]) =>
    headings.map((heading, index) => formatLine(heading, row[index])).join('\n');

  return rows.map(formatList).join('\n\n');
}

type Style = Parameters<typeof styleText>[0];

/** The styles of words that name a state. */
const stateStyles: Readonly<Record<string, Style>> = {
  ok: 'green',
  done: 'green',
  running: 'cyan',
  paused: 'yellow',
  warn: 'yellow',
  failed: 'red',
  fail: 'red',
  abandoned: 'red',
  dead: 'red',
  unknown: 'red',
  parked: 'red',
};

/**
 * Returns the style of a word that names a state, and of numbers of rows that need a person; null:
 * plain.
 */
function findStyle(text: string, heading: string): Style | null {
  if (/dead|unknown/.test(heading)) return text === '0' ? null : 'red';
  if (heading !== 'state' && heading !== 'status') return null;
  return Object.hasOwn(stateStyles, text) ? (stateStyles[text] ?? null) : null;
}
