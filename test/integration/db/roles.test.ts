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

/**
 * Tries each statement as a role, in one session. Returns those that are not denied. Nothing is
 * changed.
 */
async function findAllowed(role: string, statements: readonly string[]): Promise<string[]> {
  expect(statements.length).toBeGreaterThan(0);
  const trx = await database.db.startTransaction().execute();
  try {
    await sql`
      create function pg_temp.find_allowed(tried_as text, statements text[])
      returns table (allowed text) language plpgsql as $$
      begin
        foreach allowed in array statements loop
          begin
            perform set_config('role', tried_as, true);
            execute allowed;
            return next;
          exception
            when insufficient_privilege then null;
            when others then return next;
          end;
          perform set_config('role', 'none', true);
        end loop;
      end $$`.execute(trx);
    const { rows } = await sql<{ allowed: string }>`
      select allowed
      from pg_temp.find_allowed(${role}, ${statements}::text[])`.execute(trx);
    return rows.map(({ allowed }) => allowed);
  } finally {
    await trx.rollback().execute();
  }
}

const listTables = async (schema: string) =>
  (
    await database.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = $1 order by 1`,
      [schema],
    )
  ).map(({ name }) => name);

const editedTables = ['stock_watch', 'service_products', 'carrier_links'].map(
  (name) => `fulfilment.${name}`,
);

describe.each(['fulfilment_reader', 'fulfilment_writer'] as const)('%s', (role) => {
  test('reads every table of fulfilment, and can change only those that it edits', async () => {
    const tables = await listTables('fulfilment');
    expect(tables.length).toBeGreaterThan(15);
    for (const table of role === 'fulfilment_reader' ? tables : [])
      await runAs(role, `select from ${table} limit 1`);
    const edited = role === 'fulfilment_reader' ? [] : editedTables;
    const changes = tables.flatMap((table) => [
      `truncate ${table}`,
      `drop table ${table}`,
      `alter table ${table} disable trigger all`,
      ...(edited.includes(table) ? [] : [`delete from ${table}`]),
    ]);
    expect(await findAllowed(role, changes)).toEqual([]);
  });

  test('reads no table of schema sync or of the queue', async () => {
    const tables = [...(await listTables('sync')), ...(await listTables('bullmq'))];
    expect(tables.length).toBeGreaterThan(20);
    const reads = tables.map((table) => `select from ${table} limit 1`);
    expect(await findAllowed(role, reads)).toEqual([]);
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
    const changes = columns.flatMap(({ table, column }) => [
      `update ${table} set ${column} = default`,
      ...(given[table]?.includes(column)
        ? []
        : [`insert into ${table} (${column}) values (default)`]),
    ]);
    expect(await findAllowed(role, changes)).toEqual([]);
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
    const calls = functions.filter(({ name }) => !open.includes(name)).map(({ call }) => call);
    expect(await findAllowed(role, calls)).toEqual([]);
  });

  test('creates nothing in our schemas', async () => {
    const creations = ['fulfilment', 'sync', 'bullmq'].map(
      (schema) => `create table ${schema}.own (id int)`,
    );
    expect(await findAllowed(role, creations)).toEqual([]);
  });
});

// With the search_path of a caller, such a function could call one that the caller wrote.
test('every security definer function, and each of the ERP, has a fixed search_path', async () => {
  const functions = await database.query<{ name: string }>(`
    select format('%I.%I', n.nspname, p.proname) as name
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('fulfilment', 'sync')
      and (p.prosecdef or p.prorettype = 'trigger'::regtype or n.nspname = 'fulfilment')
      and not coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false)`);
  expect(functions).toEqual([]);
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
