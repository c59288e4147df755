import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { outboxKinds } from '../../../src/sync/push/kinds/registry.ts';

const read = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
const listNames = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);

const [, section = ''] = read('docs/erp.md').split('## Where each operation of the interface is reached');
const rows = section
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .map(([, named = '', by = '']) => ({ operations: listNames(named), reachedBy: listNames(by) }));

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
