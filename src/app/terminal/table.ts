/** Formats text for a terminal: tables, progress, outbox rows. Nothing here reads or writes a database. */

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

const gap = '  ';

type Cell = string | number;

/** Formats rows as columns that are as wide as their longest cell. Numbers are aligned to the right. */
export function formatTable(
  headings: readonly string[],
  cells: readonly (readonly Cell[])[],
  { width = process.stdout.isTTY ? process.stdout.columns : undefined, look = () => null }: TableOptions = {},
): string {
  const rows = cells.map((row) => row.map(toCell));
  const columns = headings.map((heading, index) => [heading, ...rows.map((row) => String(row[index] ?? ''))]);
  const widths = columns.map((texts) => Math.max(...texts.map((text) => stringWidth(text))));
  const total = widths.reduce((sum, size) => sum + size + gap.length, -gap.length);
  if (total > (width ?? Number.POSITIVE_INFINITY)) return formatLists(headings, rows, look);
  const formatRow = (row: readonly Cell[], isHeading: boolean) => {
    const texts = row.map((cell, index) => {
      const text = String(cell);
      const blank = ' '.repeat((widths[index] ?? 0) - stringWidth(text));
      const padded = typeof cell === 'number' ? blank + text : index === row.length - 1 ? text : text + blank;
      const style = isHeading ? 'bold' : look(text, headings[index] ?? '');
      return style === null || text === '' ? padded : styleText(style, padded);
    });
    return texts.join(gap).trimEnd();
  };
  return [formatRow(headings, true), ...rows.map((row) => formatRow(row, false))].join('\n');
}

/** Prepares a cell for printing: joins its lines, and replaces control characters that a terminal would execute. */
const toCell = (cell: Cell): Cell => (typeof cell === 'number' ? cell : toVisible(cell.replaceAll('\n', ' ')));

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
