import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { formatTable } from '../../../src/app/terminal/table.ts';

const headings = ['id', 'reference', 'because'];
const rows = [
  [1, 'SO-1001', 'the payload cannot be sent: orderType: there is no NOPE'],
  [12, 'SO-2', 'x'.repeat(40)],
] as const;
const formatLines = (width?: number) => formatTable(headings, rows, { width }).split('\n');

// The colours of the terminal that runs the tests must not matter.
beforeEach(() => vi.stubEnv('FORCE_COLOR', '0'));
afterEach(() => vi.unstubAllEnvs());

describe('a table', () => {
  test('is a list for each row if its columns do not fit the terminal', () =>
    expect(formatLines(60).slice(0, 4)).toEqual([
      'id         1',
      'reference  SO-1001',
      `because    ${rows[0][2]}`,
      '',
    ]));
});

test('control characters of terminals are shown by their code', () => {
  const table = formatTable(['reference'], [['\u001b]0;title\u0007\r\u202eover\nnext']]);
  expect(table).toContain('\\u{1b}]0;title\\u{7}\\u{d}\\u{202e}over next');
});

test('a column is as wide as its text looks, not as its number of characters', () => {
  const rows = formatTable(
    ['name', 'n'],
    [
      ['日本', 1],
      ['abcd', 2],
    ],
    { look: () => null },
  ).split('\n');
  expect(rows.slice(1)).toEqual(['日本  1', 'abcd  2']);
});
