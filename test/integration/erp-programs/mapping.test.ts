import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { outboxKinds } from '../../../src/sync/push/kinds/registry.ts';
import { toPayloadSchema } from '../../../src/sync/push/payload/payload.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

const page = readFileSync(new URL('../../../docs/erp.md', import.meta.url), 'utf8');
const [, mapping = ''] = /^## Mapping to your ERP\n(.*?)^## /ms.exec(page) ?? [];
/** Models of Odoo that begin as our kinds do. */
const odooModels: ReadonlySet<string> = new Set(['product.product', 'product.template']);

test('every table, column and kind that the mapping of docs/erp.md names exists', async () => {
  const columns = await database.query<{ table: string; column: string }>(
    `select table_name as table, column_name as column from information_schema.columns where table_schema = 'fulfilment'`,
  );
  const functions = await database.query<{ name: string }>(
    `select proname as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'fulfilment'`,
  );
  const tables = new Set(columns.map(({ table }) => table));
  const known = new Set([
    ...columns.map(({ table, column }) => `${table}.${column}`),
    ...[...tables, ...functions.map(({ name }) => name)].map((name) => `fulfilment.${name}`),
    ...outboxKinds.map(({ name }) => name),
  ]);
  const kindGroups = new Set(outboxKinds.map(({ name }) => name.split('.')[0]));
  const names = [...mapping.matchAll(/`([^`\n]+)`/g)]
    .map(([, name = '']) => name)
    .filter((name) => !odooModels.has(name));
  const ours = names.filter((name) => {
    const [first = '', second] = name.split('.');
    return (
      second !== undefined &&
      !name.includes(' ') &&
      (tables.has(first) || kindGroups.has(first) || first === 'fulfilment')
    );
  });
  expect(ours.length).toBeGreaterThan(20);
  expect(ours.filter((name) => !known.has(name))).toEqual([]);
});

test('the members that the mapping names for a kind are members of its payload', () => {
  const rows = mapping.split('\n').flatMap((line) => {
    const [, members = ''] = /^- .*?: (.*)/.exec(line) ?? [];
    const kinds = members.split('; ', 2).join();
    const named = outboxKinds.filter(({ name }) => kinds.includes(`\`${name}\``));
    return named.length === 0 ? [] : [{ named, members }];
  });
  expect(rows.length).toBeGreaterThan(5);
  for (const { named, members } of rows) {
    const schemas = JSON.stringify(named.map((kind) => toPayloadSchema(kind)));
    const names = [...members.matchAll(/`([a-zA-Z]+)`/g)].map(([, name = '']) => name);
    expect([named[0]?.name, names.filter((name) => !schemas.includes(`"${name}":`))]).toEqual([named[0]?.name, []]);
  }
});
