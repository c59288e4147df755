import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { outboxKinds } from '../../../src/sync/push/kinds/registry.ts';

const read = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
const listNames = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);

const [, section = ''] = read('docs/erp.md').split('## Where each operation of the interface is reached');
const reached = section
  .replaceAll('\n  ', ' ')
  .split('\n- ')
  .slice(1)
  .map((line) => line.split(': '))
  .map(([named = '', by = '']) => ({ operations: listNames(named), reachedBy: listNames(by) }));

const [, notServed = ''] = /^## Not served\n(.*?)^## /ms.exec(read('docs/assumptions.md')) ?? [];

test('docs/erp.md says where an ERP reaches each operation, or docs/assumptions.md why not', () => {
  const cells = notServed.split('\n').map((line) => line.split('|')[1] ?? '');
  const notCalled = listNames(cells.join()).filter((name) => Object.hasOwn(operations, name));
  const named = [
    ...reached.flatMap((row) => row.operations),
    ...notCalled.filter((name) => name !== 'v2.shipment.search'),
  ];
  expect(named.toSorted()).toEqual(Object.keys(operations).toSorted());
});

test('what reaches an operation is a table, a kind, a command or another operation', () => {
  const schema = read('test/schema.sql');
  const kinds = new Set(outboxKinds.map(({ name }) => name));
  const isKnown = (name: string) =>
    Object.hasOwn(operations, name) ||
    kinds.has(name) ||
    schema.includes(`create table fulfilment.${name} (`) ||
    ['doctor', 'WAREHOUSE_OPERATIONS_FILE'].includes(name) ||
    name.startsWith('refetch ');
  expect(reached.flatMap(({ reachedBy }) => reachedBy).filter((name) => !isKnown(name))).toEqual([]);
});
