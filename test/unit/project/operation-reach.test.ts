import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { outboxKinds } from '../../../src/sync/push/kinds/registry.ts';
import { findMissingTests } from '../../helpers/links.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
const listNames = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);

const [, section = ''] = read('docs/erp.md').split('## Where to find each operation of the interface');
const rows = section
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .map(([, named = '', by = '', tests = '']) => ({
    operations: listNames(named),
    reachedBy: listNames(by),
    test: /^`(test\/[\w/.-]+)` › "(.+)"$/.exec(tests),
  }));

test('docs/erp.md says of every operation where an ERP reaches it', () => {
  const named = rows.flatMap((row) => row.operations);
  expect(named.toSorted()).toEqual(Object.keys(operations).toSorted());
});

test('what reaches an operation is a table, a kind, a command or another operation', () => {
  const schema = read('test/schema.sql');
  const kinds = new Set(outboxKinds.map(({ name }) => name));
  const isKnown = (name: string) =>
    Object.hasOwn(operations, name) ||
    kinds.has(name) ||
    schema.includes(`create table fulfilment.${name} (`) ||
    ['doctor', 'include', 'WAREHOUSE_OPERATIONS_FILE'].includes(name) ||
    name.startsWith('refetch ');
  expect(rows.flatMap(({ reachedBy }) => reachedBy).filter((name) => !isKnown(name))).toEqual([]);
});

test('every operation names a test that exists', () => {
  const named = rows.map((row) => ({ file: row.test?.[1] ?? '', title: row.test?.[2] ?? '' }));
  expect(findMissingTests(root, named)).toEqual([]);
});
