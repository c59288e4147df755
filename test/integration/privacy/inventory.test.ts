import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { findPersonalColumns, personalColumns } from '../../../src/pull/sql/erasures.ts';
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
      return table === ''
        ? []
        : [[table, [...columns.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)] as const];
    }),
);
/** Columns of schema sync with documents, or with words of others. */
const erasedInSync: Readonly<Record<string, readonly string[]>> = {
  'sync.clients': ['hold_reason'],
  'sync.jobs': ['last_error', 'last_skip_reason', 'warnings'],
  'sync.outbox_attempts': ['error'],
  'sync.push_holds': ['reason'],
  'sync.quarantine': ['document', 'reason'],
  'sync.rescans': ['error'],
  'sync.runs': ['error', 'warnings'],
  'sync.waiting_reads': ['words'],
};
/**
 * Columns that an erasure keeps, because they hold no personal data, or numbers that books need. Of
 * the tables of streams only those that we fill: the streams tell which of their fields are
 * personal.
 */
const kept: Readonly<Record<string, string>> = JSON.parse(read('test/fixtures/kept-columns.json'));
/** Columns of views with texts that are codes, names of settings, numbers of the ERP, or states. */
const viewTexts =
  'client external_order_number external_reference reference sku kind status state condition items reason ' +
  'order_type order_type_name shipping_method shipping_method_name carrier_code carrier_name return_reason ' +
  'return_reason_name return_reason_code reason_code warehouse_code expected_in processed_in restock_in currency ' +
  'lot_number serial_numbers package_number package_numbers package_statuses current_track_trace_status ' +
  'current_track_trace_exception_level waits_for tracking_state problem_code received_in slip_reference slip_status';
const streamTables = mirroredResources.flatMap(({ tables: { parent, children } }) => [
  parent,
  ...children,
]);
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
    ...Object.entries(erasedInSync).flatMap(([table, names]) =>
      names.map((name) => `${table}.${name}`),
    ),
    ...keptFields,
    ...Object.entries(kept).flatMap(([table, names]) =>
      names.split(' ').map((name) => `${table}.${name}`),
    ),
  ];
  expect(classified.toSorted()).toEqual(columns.map(({ name }) => name).toSorted());
});

test('the columns of orders that are erased are those that docs/operations.md names', () => {
  const named = [...erased].filter(([table]) => table in personalColumns);
  const masked = Object.entries(personalColumns).map(([table, columns]) => [
    table,
    Object.keys(columns).toSorted(),
  ]);
  expect(Object.fromEntries(named.map(([table, names]) => [table, names.toSorted()]))).toEqual(
    Object.fromEntries(masked),
  );
});

test('every text of every view is classified as the columns that it comes from, or by name', async () => {
  const columns = await database.query<{ view: string; name: string; tables: string[] }>(`
    select v.relname as view, a.attname as name,
      (select array_agg(distinct t.relname::text)
       from pg_rewrite r
       join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
       join pg_class t on t.oid = d.refobjid and t.relkind in ('r', 'v') and t.oid <> v.oid
       where r.ev_class = v.oid) as tables
    from pg_class v
    join pg_attribute a on a.attrelid = v.oid and a.attnum > 0
    where v.relkind = 'v' and v.relnamespace = 'fulfilment'::regnamespace
      and a.atttypid::regtype::text in ('text', 'text[]', 'jsonb')
    order by 1, 2`);
  const harmless = new Set(viewTexts.split(' '));
  const wrong = columns.filter(({ view, name, tables }) => {
    if (findPersonalColumns(view).includes(name)) return false;
    return !harmless.has(name) || tables.some((table) => findPersonalColumns(table).includes(name));
  });
  expect(wrong.map(({ view, name }) => `${view}.${name}`)).toEqual([]);
});
