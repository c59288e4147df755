import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

/** Runs a statement as a role of the ERP. */
async function runAs(
  role: 'fulfilment_reader' | 'fulfilment_writer',
  statement: string,
): Promise<unknown> {
  return database.db.transaction().execute(async (trx) => {
    await sql`set local role ${sql.id(role)}`.execute(trx);
    return sql.raw(statement).execute(trx);
  });
}

const listTables = async (schema: string) =>
  (
    await database.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = $1 order by 1`,
      [schema],
    )
  ).map(({ name }) => name);

/** A column that the table has. */
const ownColumn = (table: string) => (table === 'fulfilment.consumers' ? 'name' : 'client');

const denied = /permission denied|must be owner/;

describe('fulfilment_reader', () => {
  test('reads every table of fulfilment, and can change none', async () => {
    const tables = await listTables('fulfilment');
    expect(tables.length).toBeGreaterThan(15);
    for (const table of tables) {
      await runAs('fulfilment_reader', `select from ${table} limit 1`);
      for (const statement of [
        `insert into ${table} default values`,
        `update ${table} set ${ownColumn(table)} = default`,
        `delete from ${table}`,
        `truncate ${table}`,
        `drop table ${table}`,
        `alter table ${table} disable trigger all`,
      ])
        await expect(runAs('fulfilment_reader', statement), statement).rejects.toThrow(denied);
    }
  });

  test.each([
    'select fulfilment.outbox_replace(1, $$ {} $$)',
    'select fulfilment.outbox_cancel(1)',
  ])('may not %s', async (statement) => {
    await expect(runAs('fulfilment_reader', statement)).rejects.toThrow(denied);
  });
});

describe('fulfilment_writer', () => {
  test('inserts only into outbox and the tables that it edits, and deletes only from these', async () => {
    for (const table of await listTables('fulfilment')) {
      const isOwn = /stock_watch|service_products|carrier_links/.test(table);
      for (const statement of [
        `update ${table} set ${ownColumn(table)} = default`,
        `truncate ${table}`,
        `drop table ${table}`,
      ])
        await expect(runAs('fulfilment_writer', statement), statement).rejects.toThrow(denied);
      if (!isOwn)
        await expect(runAs('fulfilment_writer', `delete from ${table}`), table).rejects.toThrow(
          denied,
        );
      if (!isOwn && table !== 'fulfilment.outbox')
        await expect(
          runAs('fulfilment_writer', `insert into ${table} default values`),
          table,
        ).rejects.toThrow(denied);
    }
  });
});

describe.each(['fulfilment_reader', 'fulfilment_writer'] as const)('%s', (role) => {
  test('reads no table of schema sync or of the queue', async () => {
    const tables = [...(await listTables('sync')), ...(await listTables('bullmq'))];
    expect(tables.length).toBeGreaterThan(20);
    for (const table of tables)
      await expect(runAs(role, `select from ${table} limit 1`), table).rejects.toThrow(denied);
  });

  test('inserts only into columns that are granted to it, and updates none', async () => {
    const columns = await database.query<{ table: string; column: string }>(
      `select format('%I.%I', table_schema, table_name) as table, quote_ident(column_name) as column
       from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
       where table_schema = 'fulfilment' and table_type = 'BASE TABLE'`,
    );
    expect(columns.length).toBeGreaterThan(200);
    const given: Record<string, readonly string[]> =
      role === 'fulfilment_reader'
        ? {}
        : {
            'fulfilment.outbox': ['client', 'kind', 'not_before', 'payload', 'reference'],
            'fulfilment.stock_watch': ['client', 'sku'],
            'fulfilment.service_products': ['client', 'sku', 'is_pattern'],
            'fulfilment.carrier_links': ['client', 'shipping_method', 'url'],
          };
    for (const { table, column } of columns) {
      await expect(
        runAs(role, `update ${table} set ${column} = default`),
        `${table}.${column}`,
      ).rejects.toThrow(denied);
      if (given[table]?.includes(column)) continue;
      await expect(
        runAs(role, `insert into ${table} (${column}) values (default)`),
        `${table}.${column}`,
      ).rejects.toThrow(denied);
    }
  });

  test('calls only the functions that are granted to it', async () => {
    const functions = await database.query<{ call: string; name: string }>(
      `select p.proname as name, format('%s %I.%I(%s)', case p.prokind when 'p' then 'call' else 'select' end, n.nspname, p.proname,
         (select string_agg('null::' || format_type(t, null), ', ') from unnest(p.proargtypes) t)) as call
       from pg_proc p join pg_namespace n on n.oid = p.pronamespace
       where n.nspname in ('fulfilment', 'sync', 'bullmq') and p.prokind in ('f', 'p') and p.prorettype <> 'trigger'::regtype`,
    );
    expect(functions.length).toBeGreaterThan(4);
    const open = [
      'changes_since',
      'outbox_schema',
      'order_history',
      'order_state',
      ...(role === 'fulfilment_writer'
        ? ['outbox_replace', 'outbox_cancel', 'start_consumer', 'consume_changes', 'drop_consumer']
        : []),
    ];
    for (const { call, name } of functions.filter((one) => !open.includes(one.name)))
      await expect(runAs(role, call), name).rejects.toThrow(denied);
  });

  test('creates nothing in our schemas; every security definer function sets search_path', async () => {
    for (const schema of ['fulfilment', 'sync', 'bullmq'])
      await expect(runAs(role, `create table ${schema}.own (id int)`), schema).rejects.toThrow(
        denied,
      );
    const definers = await database.query<{ name: string; config: string[] | null }>(
      `select p.proname as name, p.proconfig as config from pg_proc p join pg_namespace n on n.oid = p.pronamespace
       where n.nspname in ('fulfilment', 'sync') and p.prosecdef`,
    );
    expect(definers.length).toBeGreaterThan(0);
    // Without search_path, a caller could make the function call a function that the caller wrote.
    for (const { name, config } of definers)
      expect([name, config?.some((setting) => setting.startsWith('search_path='))]).toEqual([
        name,
        true,
      ]);
  });
});

describe('a search_path of the caller', () => {
  test('does not change what a limit of the outbox means', async () => {
    await database.query(`
      create schema impostor;
      create function impostor.length(text) returns integer language sql as 'select 1';
      create function impostor.octet_length(text) returns integer language sql as 'select 1';
      grant usage on schema impostor to fulfilment_writer`);
    const insert = (reference: string, payload: string) => `
      set local search_path = impostor, pg_catalog;
      insert into fulfilment.outbox (kind, reference, payload) values ('order.create', ${reference}, ${payload})`;
    await expect(runAs('fulfilment_writer', insert(`repeat('x', 201)`, `'{}'`))).rejects.toThrow(
      'at most 200',
    );
    await expect(
      runAs('fulfilment_writer', insert(`'A'`, `jsonb_build_object('a', repeat('x', 17000000))`)),
    ).rejects.toThrow('16 MB');
  });

  test('reaches no trigger function, and none that a role of the ERP may call', async () => {
    const functions = await database.query<{ name: string }>(`
      select format('%I.%I', n.nspname, p.proname) as name
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname in ('fulfilment', 'sync')
        and (p.prorettype = 'trigger'::regtype or n.nspname = 'fulfilment')
        and not coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false)`);
    expect(functions).toEqual([]);
  });
});

/** Returns every grant in schema fulfilment to the roles of the ERP, in words. */
const listGrants = async () =>
  (
    await database.query<{ words: string }>(`
      with granted as (
        select oid::regclass::text as object, relacl as acl from pg_class
        where relnamespace = 'fulfilment'::regnamespace
        union all
        select attrelid::regclass || '.' || attname, attacl from pg_attribute
        where attrelid in (select oid from pg_class where relnamespace = 'fulfilment'::regnamespace)
        union all
        select oid::regprocedure::text, proacl from pg_proc
        where pronamespace = 'fulfilment'::regnamespace)
      select concat_ws(' ', object, a.grantee::regrole, a.privilege_type) as words
      from granted, aclexplode(acl) a
      where a.grantee::regrole::text in ('fulfilment_reader', 'fulfilment_writer')
      order by 1`)
  ).map(({ words }) => words);

test('docs/programs/roles.sql grants what the migrations grant', async () => {
  const granted = await listGrants();
  expect(granted.length).toBeGreaterThan(50);
  const file = readFileSync(new URL('../../../docs/programs/roles.sql', import.meta.url), 'utf8');
  const roles = 'fulfilment_reader, fulfilment_writer';
  await database.query(`
    revoke all on all tables in schema fulfilment from ${roles};
    revoke all on all functions in schema fulfilment from ${roles};
    revoke insert (client, kind, reference, payload, not_before) on fulfilment.outbox from ${roles}`);
  expect((await listGrants()).length).toBeLessThan(granted.length / 2);

  await database.query(file.replaceAll(/^create role .*$/gm, ''));
  expect(await listGrants()).toEqual(granted);
});
