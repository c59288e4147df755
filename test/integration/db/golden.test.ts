import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { authorizations } from '../../../src/pull/streams/authorizations.ts';
import { useDatabase } from '../../helpers/database.ts';
import { dumpSchema } from '../../helpers/schema/schema-dump.ts';
import { isServerOlder } from '../../helpers/schema/server-version.ts';

const database = useDatabase();

test('the migrations make the schema in test/schema.sql', async ({ skip }) => {
  skip(
    await isServerOlder(database, 16),
    'Postgres before 16 writes the columns of views in other words',
  );
  await expect(await dumpSchema(database)).toMatchFileSnapshot('../../schema.sql');
});

test('the columns in src/db/generated are those of schema fulfilment', async () => {
  const columns = await database.query<{ relation: string; types: Record<string, string> }>(`
    select c.relname as relation, json_object_agg(a.attname,
      format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
      order by a.attname) as types
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'fulfilment'::regnamespace and c.relkind in ('r', 'v')
    group by c.relname
    order by c.relname`);
  const text = JSON.stringify(
    Object.fromEntries(columns.map(({ relation, types }) => [relation, types])),
    null,
    2,
  );
  await expect(`${text}\n`).toMatchFileSnapshot('../../../src/db/generated/columns.json');
});

test('the fields of each stream are the columns of its tables', async () => {
  const own = [
    'id',
    'raw',
    'client',
    'read_no',
    'first_seen_at',
    'changed_at',
    'unlisted_since',
    'ordered_quantity',
  ];
  const columns = await database.query<{ table: string; column: string; type: string }>(`
    select c.relname as table, a.attname as column,
      replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz') as type
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'fulfilment'::regnamespace`);
  for (const table of [...streams, authorizations].flatMap(({ tables }) => [
    tables.parent,
    ...tables.children,
  ])) {
    const stored = columns.filter((row) => row.table === table.name && !own.includes(row.column));
    const { id: _id, raw: _raw, ...declared } = table.columns;
    expect([
      table.name,
      Object.fromEntries(stored.map(({ column, type }) => [column, type])),
    ]).toEqual([table.name, declared]);
  }
});

test('every table, view and column of schema fulfilment has a comment', async () => {
  const uncommented = await database.query(`
    select c.relname, a.attname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where n.nspname = 'fulfilment' and c.relkind in ('r', 'v')
      and (col_description(c.oid, a.attnum) is null or obj_description(c.oid) is null)`);
  expect(uncommented).toEqual([]);
});

test('the row types in src/db/generated/tables.ts are those of the migrated database', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fulfilment-sync-rows-'));
  const outFile = join(folder, 'rows.ts');
  const cli = join(
    dirname(createRequire(import.meta.url).resolve('kysely-codegen/package.json')),
    'dist/cli/bin.js',
  );
  const options = {
    dialect: 'postgres',
    url: database.url,
    'out-file': outFile,
    'date-parser': 'string',
    'include-pattern': '(fulfilment|sync).*',
    'type-mapping': '{"int8":"number"}',
  };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  try {
    await promisify(execFile)(process.execPath, [cli, ...flags]);
    await expect(await readFile(outFile, 'utf8')).toMatchFileSnapshot(
      '../../../src/db/generated/tables.ts',
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});
