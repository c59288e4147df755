import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { formatTable } from '../../../src/cli/table.ts';

// The colours of the terminal that runs the tests must not matter.
beforeEach(() => vi.stubEnv('FORCE_COLOR', '0'));
afterEach(() => vi.unstubAllEnvs());

test('a table is a list for each row if its columns do not fit the terminal', () => {
  const rows = [{ id: 1, reference: 'SO-1001' }];
  const columns = {
    id: (row: { id: number }) => row.id,
    reference: (row: { reference: string }) => row.reference,
    because: () => 'x'.repeat(40),
  };
  expect(formatTable(rows, columns as never, 40)).toBe(
    `id         1\nreference  SO-1001\nbecause    ${'x'.repeat(40)}`,
  );
});

test('control characters of terminals are shown by their code', () => {
  const table = formatTable(['\u001b]0;title\u0007\r\u202eover\nnext'], {
    reference: (text) => text,
  });
  expect(table).toContain('\\u{1b}]0;title\\u{7}\\u{d}\\u{202e}over next');
});

test('a column is as wide as its text looks, not as its number of characters', () => {
  const rows: [string, number][] = [
    ['日本', 1],
    ['abcd', 2],
  ];
  const table = formatTable(rows, { name: ([name]) => name, n: ([, number]) => number });
  expect(table.split('\n').slice(1)).toEqual(['日本  1', 'abcd  2']);
});
