import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

/** Runs a statement as a role of the ERP, and takes back what it did. */
async function as(role: 'fulfilment_reader' | 'fulfilment_writer', statement: string): Promise<unknown> {
  return database.db.transaction().execute(async (trx) => {
    await sql`set local role ${sql.id(role)}`.execute(trx);
    return sql.raw(statement).execute(trx);
  });
}

const relations = async (schema: string) =>
  (
    await database.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = $1 order by 1`,
      [schema],
    )
  ).map(({ name }) => name);

const denied = /permission denied|must be owner/;

describe('fulfilment_reader', () => {
  test('reads every table of fulfilment, and can change none', async () => {
    const tables = await relations('fulfilment');
    expect(tables.length).toBeGreaterThan(15);
    for (const table of tables) {
      await as('fulfilment_reader', `select from ${table} limit 1`);
      for (const statement of [
        `insert into ${table} default values`,
        `update ${table} set client = client`,
        `delete from ${table}`,
        `truncate ${table}`,
        `drop table ${table}`,
        `alter table ${table} disable trigger all`,
      ])
        await expect(as('fulfilment_reader', statement), statement).rejects.toThrow(denied);
    }
  });

  test.each(['select fulfilment.outbox_replace(1, $$ {} $$)', 'select fulfilment.outbox_cancel(1)'])(
    'may not %s',
    async (statement) => {
      await expect(as('fulfilment_reader', statement)).rejects.toThrow(denied);
    },
  );
});

describe('fulfilment_writer', () => {
  test('changes nothing but what it is there for', async () => {
    for (const table of await relations('fulfilment')) {
      const isWatch = table === 'fulfilment.stock_watch';
      for (const statement of [`update ${table} set client = client`, `truncate ${table}`, `drop table ${table}`])
        await expect(as('fulfilment_writer', statement), statement).rejects.toThrow(denied);
      if (!isWatch) await expect(as('fulfilment_writer', `delete from ${table}`), table).rejects.toThrow(denied);
      if (!isWatch && table !== 'fulfilment.outbox')
        await expect(as('fulfilment_writer', `insert into ${table} default values`), table).rejects.toThrow(denied);
    }
  });
});

describe.each(['fulfilment_reader', 'fulfilment_writer'] as const)('%s', (role) => {
  test('sees nothing of our own state, nor of the queue', async () => {
    const own = [...(await relations('sync')), ...(await relations('bullmq'))];
    expect(own.length).toBeGreaterThan(20);
    for (const table of own) await expect(as(role, `select from ${table} limit 1`), table).rejects.toThrow(denied);
  });

  test('inserts no value but into the columns that are given to it, and updates none', async () => {
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
            'fulfilment.outbox': ['client', 'kind', 'reference', 'payload'],
            'fulfilment.stock_watch': ['client', 'sku'],
          };
    for (const { table, column } of columns) {
      await expect(as(role, `update ${table} set ${column} = default`), `${table}.${column}`).rejects.toThrow(denied);
      if (given[table]?.includes(column)) continue;
      await expect(as(role, `insert into ${table} (${column}) values (default)`), `${table}.${column}`).rejects.toThrow(
        denied,
      );
    }
  });

  test('calls no function of ours but what it is there for', async () => {
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
      ...(role === 'fulfilment_writer' ? ['outbox_replace', 'outbox_cancel'] : []),
    ];
    for (const { call, name } of functions.filter((one) => !open.includes(one.name)))
      await expect(as(role, call), name).rejects.toThrow(denied);
  });

  test('makes nothing in our schemas, nor any function that runs as someone else', async () => {
    for (const schema of ['fulfilment', 'sync', 'bullmq'])
      await expect(as(role, `create table ${schema}.own (id int)`), schema).rejects.toThrow(denied);
    const definers = await database.query<{ name: string; config: string[] | null }>(
      `select p.proname as name, p.proconfig as config from pg_proc p join pg_namespace n on n.oid = p.pronamespace
       where n.nspname in ('fulfilment', 'sync') and p.prosecdef`,
    );
    expect(definers.length).toBeGreaterThan(0);
    // One without it could be made to call a function of the caller's own.
    for (const { name, config } of definers)
      expect([name, config?.some((setting) => setting.startsWith('search_path='))]).toEqual([name, true]);
  });
});
