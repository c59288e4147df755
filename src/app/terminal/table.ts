/**
 * Texts for a terminal: tables, progress, outbox rows. Nothing here reads or writes a database.
 */

import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { toVisible } from '../../core/quote.ts';

/** A look of a cell on a terminal; where there is none, or NO_COLOR is set, it is plain text. */
export type Look = Parameters<typeof styleText>[0];

export interface TableOptions {
  /** Characters of a line; unbounded unless standard output is a terminal. */
  readonly width?: number | undefined;
  /** Look of a cell by its text and heading; null: plain. */
  readonly look?: (text: string, heading: string) => Look | null;
}

const gap = 2;
/** A column is made no narrower than this, or than its longest word. */
const leastWidth = 6;
const mostWord = 24;

type Cell = string | number;

/**
 * Lays rows out in columns as wide as their longest cell, numbers to the right. Where that is wider than the terminal,
 * long cells are broken into lines; where even that does not fit, each row is written as a list.
 */
export function formatTable(
  headings: readonly string[],
  given: readonly (readonly Cell[])[],
  { width = process.stdout.isTTY ? process.stdout.columns : undefined, look = () => null }: TableOptions = {},
): string {
  const rows = given.map((row) => row.map(toCell));
  const columns = headings.map((heading, index) => [heading, ...rows.map((row) => String(row[index] ?? ''))]);
  const widths = fitWidths(columns, width ?? Number.POSITIVE_INFINITY);
  if (widths === null) return asLists(headings, rows, look);
  const layOut = (cells: readonly Cell[], isHeading: boolean) => {
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
  return [layOut(headings, true), ...rows.map((row) => layOut(row, false))].join('\n');
}

/** A cell as it is printed: on one line, without characters that a terminal would carry out. */
const toCell = (cell: Cell): Cell => (typeof cell === 'number' ? cell : toVisible(cell.replaceAll('\n', ' ')));

/** Widths of the columns that fit into a line; null where the longest words alone do not. */
function fitWidths(columns: readonly (readonly string[])[], width: number): number[] | null {
  const widths = columns.map((cells) => Math.max(...cells.map((cell) => stringWidth(cell))));
  const least = columns.map((cells) => {
    const longestWord = Math.max(...cells.flatMap((cell) => cell.split(' ')).map((word) => stringWidth(word)));
    return Math.max(leastWidth, Math.min(mostWord, longestWord));
  });
  const total = () => widths.reduce((sum, size) => sum + size + gap, -gap);
  while (total() > width) {
    const room = widths.map((size, index) => size - (least[index] ?? 0));
    const index = room.indexOf(Math.max(...room));
    const take = Math.min(room[index] ?? 0, total() - width);
    if (take <= 0) return null;
    widths[index] = (widths[index] ?? 0) - Math.max(1, Math.min(take, Math.ceil((room[index] ?? 0) / 2)));
  }
  return widths;
}

/** A text in lines of at most `width`, broken between words, and within one that is longer. */
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

function asLists(
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

/** The look of a word that names a state. */
export const lookOfState = (text: string): Look | null => stateLooks[text] ?? null;
