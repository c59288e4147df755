/**
 * Formats text for a terminal: tables, progress, outbox rows. Nothing here reads or writes a database.
 */

import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { toVisible } from '../../core/quote.ts';

/** The style of a cell on a terminal. Without a terminal, or if NO_COLOR is set, cells are plain text. */
export type Look = Parameters<typeof styleText>[0];

export interface TableOptions {
  /** Width of a line in characters. Default: the width of the terminal; unlimited without a terminal. */
  readonly width?: number | undefined;
  /** Returns the style of a cell, given its text and its heading; null: plain. */
  readonly look?: (text: string, heading: string) => Look | null;
}

const gap = 2;
/** A column is never narrower than `minWidth`, nor than its longest word of up to `maxWordWidth` characters. */
const minWidth = 6;
const maxWordWidth = 24;

type Cell = string | number;

/**
 * Formats rows as columns that are as wide as their longest cell. Numbers are aligned to the right. If the table is
 * wider than the terminal, long cells are broken into lines. If that does not fit either, each row becomes a list.
 */
export function formatTable(
  headings: readonly string[],
  cells: readonly (readonly Cell[])[],
  { width = process.stdout.isTTY ? process.stdout.columns : undefined, look = () => null }: TableOptions = {},
): string {
  const rows = cells.map((row) => row.map(toCell));
  const columns = headings.map((heading, index) => [heading, ...rows.map((row) => String(row[index] ?? ''))]);
  const widths = fitWidths(columns, width ?? Number.POSITIVE_INFINITY);
  if (widths === null) return formatLists(headings, rows, look);
  const formatRow = (cells: readonly Cell[], isHeading: boolean) => {
    const broken = cells.map((cell, index) => breakLines(String(cell), widths[index] ?? 0));
    const height = Math.max(...broken.map((lines) => lines.length));
    return Array.from({ length: height }, (_, line) =>
      broken
        .map((lines, index) => {
          const [text = '', size = 0] = [lines[line], widths[index]];
          const isLast = index === cells.length - 1;
          const blank = ' '.repeat(Math.max(0, size - stringWidth(text)));
          const padded = typeof cells[index] === 'number' ? blank + text : isLast ? text : text + blank;
          const style = isHeading ? 'bold' : look(String(cells[index]), headings[index] ?? '');
          return style === null || text === '' ? padded : styleText(style, padded);
        })
        .join(' '.repeat(gap))
        .trimEnd(),
    ).join('\n');
  };
  return [formatRow(headings, true), ...rows.map((row) => formatRow(row, false))].join('\n');
}

/** Prepares a cell for printing: joins its lines, and replaces control characters that a terminal would execute. */
const toCell = (cell: Cell): Cell => (typeof cell === 'number' ? cell : toVisible(cell.replaceAll('\n', ' ')));

/** Returns column widths that fit into a line of `width` characters; null if there are none. */
function fitWidths(columns: readonly (readonly string[])[], width: number): number[] | null {
  const widths = columns.map((cells) => Math.max(...cells.map((cell) => stringWidth(cell))));
  const minWidths = columns.map((cells) => {
    const longestWord = Math.max(...cells.flatMap((cell) => cell.split(' ')).map((word) => stringWidth(word)));
    return Math.max(minWidth, Math.min(maxWordWidth, longestWord));
  });
  const total = () => widths.reduce((sum, size) => sum + size + gap, -gap);
  while (total() > width) {
    const room = widths.map((size, index) => size - (minWidths[index] ?? 0));
    const index = room.indexOf(Math.max(...room));
    const take = Math.min(room[index] ?? 0, total() - width);
    if (take <= 0) return null;
    widths[index] = (widths[index] ?? 0) - Math.max(1, Math.min(take, Math.ceil((room[index] ?? 0) / 2)));
  }
  return widths;
}

/** Breaks a text into lines of at most `width` characters, between words. A word longer than that is split. */
function breakLines(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (let word of text.split(' ')) {
    if (line !== '' && stringWidth(line) + 1 + stringWidth(word) <= width) {
      line += ` ${word}`;
      continue;
    }
    if (line !== '') lines.push(line);
    while (word.length > width) {
      lines.push(word.slice(0, width));
      word = word.slice(width);
    }
    line = word;
  }
  return [...lines, line];
}

function formatLists(
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
  look: NonNullable<TableOptions['look']>,
): string {
  const size = Math.max(...headings.map((heading) => heading.length));
  return rows
    .map((row) =>
      headings
        .map((heading, index) => {
          const text = String(row[index] ?? '');
          const style = look(text, heading);
          return `${styleText('bold', heading.padEnd(size))}  ${style === null ? text : styleText(style, text)}`;
        })
        .join('\n'),
    )
    .join('\n\n');
}

const stateLooks: Readonly<Record<string, Look>> = {
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

/** Returns the style of a word that names a state; null if it has none. */
export const toStateLook = (text: string): Look | null => stateLooks[text] ?? null;
