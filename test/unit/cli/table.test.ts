import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { formatTable } from '../../../src/cli/table.ts';

// The colours of the terminal that runs the tests must not matter.
beforeEach(() => vi.stubEnv('FORCE_COLOR', '0'));
afterEach(() => vi.unstubAllEnvs());

test('a table is a list for each row if its columns do not fit the terminal', () => {
  const rows = [{ id: 1, createdAt: null, because: 'x'.repeat(40), client: 'default' }];
  expect(formatTable(rows, ['id', 'createdAt', 'because'], 40)).toBe(
    `id          1\ncreated at  -\nbecause     ${'x'.repeat(40)}`,
  );
});

test('a column is as wide as its text looks, not as its number of characters', () => {
  const table = formatTable([
    { name: '日本', n: 1 },
    { name: 'abcd', n: 2 },
  ]);
  expect(table.split('\n').slice(1)).toEqual(['日本  1', 'abcd  2']);
});
