import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { personalColumns } from '../../../src/erp/mirror/erasures.ts';
import { useDatabase } from '../../helpers/database.ts';
import { mirroredResources } from '../../helpers/schema/personal-columns.ts';

const database = useDatabase();
const read = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');

/** The erased columns of each table that docs/operations.md names. */
const erased = new Map(
  read('docs/operations.md')
    .slice(read('docs/operations.md').indexOf('## Personal data'))
    .split('\n')
    .flatMap((line) => {
      const [, columns = '', table = ''] = /^\| (`.*`) +\| `(\w+)` +\|$/.exec(line) ?? [];
      return table === '' ? [] : [[table, [...columns.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)] as const];
    }),
);
/** Columns of schema sync with documents, or with words of others. */
const erasedInSync: Readonly<Record<string, readonly string[]>> = {
  'sync.clients': ['hold_reason'],
  'sync.jobs': ['last_error', 'last_skip_reason', 'warnings'],
  'sync.outbox_attempts': ['error'],
  'sync.parcel_reads': ['last_problem'],
  'sync.push_holds': ['reason'],
  'sync.quarantine': ['document', 'reason'],
  'sync.rereads': ['last_reason'],
  'sync.rescans': ['error'],
  'sync.runs': ['error', 'warnings'],
};
/**
 * Columns that an erasure keeps, because they hold no personal data, or numbers that books need. Of the tables of
 * streams only those that we fill: the streams tell which of their fields are personal.
 */
const kept: Readonly<Record<string, string>> = JSON.parse(read('test/fixtures/kept-columns.json'));
const streamTables = mirroredResources.flatMap(({ tables: { parent, children } }) => [parent, ...children]);
const personalOf = (table: string): readonly string[] =>
  Object.keys(personalColumns[table as keyof typeof personalColumns] ?? {});
const keptFields = streamTables.flatMap(({ name, columns }) =>
  Object.keys(columns)
    .filter((column) => !personalOf(name).includes(column))
    .map((column) => `fulfilment.${name}.${column}`),
);

test('every column of every table is classified, once', async () => {
  const columns = await database.query<{ name: string }>(`
    select format('%s.%s.%s', c.table_schema, c.table_name, c.column_name) as name
    from information_schema.columns c
    join information_schema.tables t using (table_schema, table_name)
    where c.table_schema in ('fulfilment', 'sync') and t.table_type = 'BASE TABLE'`);
  const classified = [
    ...[...erased].flatMap(([table, names]) => names.map((name) => `fulfilment.${table}.${name}`)),
    ...Object.entries(erasedInSync).flatMap(([table, names]) => names.map((name) => `${table}.${name}`)),
    ...keptFields,
    ...Object.entries(kept).flatMap(([table, names]) => names.split(' ').map((name) => `${table}.${name}`)),
  ];
  expect(classified.toSorted()).toEqual(columns.map(({ name }) => name).toSorted());
});

test('the columns of orders that are erased are those that docs/operations.md names', () => {
  const named = [...erased].filter(([table]) => table in personalColumns);
  const masked = Object.entries(personalColumns).map(([table, columns]) => [table, Object.keys(columns).toSorted()]);
  expect(Object.fromEntries(named.map(([table, names]) => [table, names.toSorted()]))).toEqual(
    Object.fromEntries(masked),
  );
});
