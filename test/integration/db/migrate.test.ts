import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { formatMigrations, migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase } from '../../../src/db/connect.ts';
import { migrate } from '../../../src/db/migrate.ts';
import { type MigrationFile, readMigrations } from '../../../src/db/migration-files.ts';
import { assertSchemaFits, readMissingMigrations } from '../../../src/db/schema-fit.ts';
import { checkDatabase } from '../../../src/operate/doctor/checks.ts';
import { useDatabase } from '../../helpers/database.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase({ migrated: false });
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'migrations-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** Writes files into a folder of migrations and reads the folder. */
async function write(files: Readonly<Record<string, string>>): Promise<MigrationFile[]> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return readMigrations(pathToFileURL(`${folder}/`));
}

/** Begins to migrate, and collects what it tells. */
function startMigrating(files: MigrationFile[]) {
  const lines: string[] = [];
  const tell = (line: string) => lines.push(line);
  return { migrated: migrate(database.open(), '1.2.3', { files, tell }), lines };
}

const first = {
  '0001_shops.sql': 'create schema shop;\ncreate table shop.shops (id int primary key);',
  '0002_stock.sql':
    'create table shop.stock (shop int references shop.shops);\ninsert into shop.shops values (1);',
};
const online = `-- online
-- Shops are found by their name.
drop index concurrently if exists shop.by_name;
create index concurrently by_name on shop.shops (name);
`;

test('roles of the ERP read every view and write where the database takes EXECUTE from public', async () => {
  const revoke = 'alter default privileges revoke execute on functions from public';
  await database.query(revoke);
  try {
    await migrate(database.open(), '1.2.3');
    const views = await database.query<{ name: string }>(
      "select format('%I.%I', schemaname, viewname) as name from pg_views where schemaname = 'fulfilment'",
    );
    expect(views.length).toBeGreaterThan(10);

    await database.db.transaction().execute(async (trx) => {
      await sql`set local role fulfilment_reader`.execute(trx);
      for (const { name } of views) await sql`select from ${sql.raw(name)}`.execute(trx);
      await sql`set local role fulfilment_writer`.execute(trx);
      await sql`
        insert into fulfilment.outbox (kind, reference)
        values ('order.cancel', 'A')`.execute(trx);
      await sql`select from fulfilment.order_state('A')`.execute(trx);
    });
  } finally {
    await database.query(revoke.replace('revoke', 'grant').replace('from', 'to'));
  }
});

test('several processes migrate at once, and each migration is applied by one of them', async () => {
  const files = await write(first);
  await expect(assertSchemaFits(database.db, files)).rejects.toMatchObject({
    code: 'schema_missing',
    remedy: 'run: fulfilment-sync migrate',
  });
  const applied = await Promise.all(
    [1, 2, 3].map(() => migrate(database.open(), '1.2.3', { files })),
  );
  expect(applied.flat().sort()).toEqual(['0001_shops', '0002_stock']);
  await expect(assertSchemaFits(database.db, files)).resolves.toBeUndefined();
  expect(await migrate(database.db, '1.2.3', { files })).toEqual([]);
});

test('a migration that fails leaves nothing, and the one before it stays', async () => {
  const files = await write({
    ...first,
    '0002_stock.sql': 'create table shop.stock ();\nselect 1 / 0;',
  });
  await expect(migrate(database.db, '1.2.3', { files })).rejects.toThrow('division by zero');
  expect(await database.query(`select to_regclass('shop.stock') as stock`)).toEqual([
    { stock: null },
  ]);
  await expect(assertSchemaFits(database.db, files)).rejects.toMatchObject({
    code: 'schema_behind',
    message: 'The database lacks 0002_stock',
  });
});

test('code that does not know an applied migration refuses to run and to migrate', async () => {
  const files = await write(first);
  await migrate(database.db, '1.2.3', { files });
  const older = files.slice(0, 1);
  const refusal = {
    code: 'code_too_old',
    message: expect.stringContaining('0002_stock'),
    remedy: 'upgrade fulfilment-sync',
  };
  await expect(assertSchemaFits(database.db, older)).rejects.toMatchObject(refusal);
  await expect(migrate(database.db, '1.2.2', { files: older })).rejects.toMatchObject(refusal);
});

test('statements are printed in order: in a transaction, or online', async () => {
  const files = await write({ ...first, '0003_names.sql': online });
  await migrate(database.db, '1.2.3', { files: files.slice(0, 1) });
  const text = formatMigrations(await readMissingMigrations(database.db, files));
  expect(text).toMatch(
    /^-- 0002_stock\. One transaction\..*\nbegin;\ncreate table shop\.stock .*\n.*\ncommit;$/m,
  );
  expect(text).toMatch(/^-- 0003_names\. Online: .*\n-- online\n/m);
  expect(text).not.toContain('0001_shops');
  expect(formatMigrations([])).toMatch(/^-- The database is up to date/);
});

describe('a database in use', () => {
  /** Creates a table with rows and a transaction that uses it. */
  const useShops = async (statement: string) => {
    const files = await write({
      '0001_shops.sql':
        'create schema fulfilment;\ncreate table fulfilment.shops (name text);\n' +
        'create index by_name on fulfilment.shops (length(name));',
    });
    await migrate(database.db, '1.2.3', { files });
    const user = await database.open(1).startTransaction().execute();
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(user);
    await sql.raw(statement).execute(user);
    return user;
  };

  test('gets its indexes during writes; an index that was left half-built is built again', async () => {
    const writer = await useShops(`insert into fulfilment.shops values ('a')`);
    await database.query(
      `update pg_index set indisvalid = false where indexrelid = 'fulfilment.by_name'::regclass`,
    );
    const files = await write({ '0002_names.sql': online.replaceAll('shop.', 'fulfilment.') });
    const { migrated, lines } = startMigrating(files);
    await waitFor('the migration to wait for the writer', async () => {
      const [row] = await database.query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%index concurrently%by_name%'
           and datname = current_database()`,
      );
      return row !== undefined;
    });
    // Other writers do not wait for the migration.
    await database.query(`insert into fulfilment.shops values ('b')`);
    await writer.commit().execute();
    expect(await migrated).toEqual(['0002_names']);
    expect(
      await database.query(`select indisvalid as valid, pg_get_indexdef(indexrelid) as index from pg_index
        where indexrelid = 'fulfilment.by_name'::regclass`),
    ).toEqual([{ valid: true, index: expect.stringContaining('(name)') }]);
    expect(lines).toEqual([
      expect.stringContaining('0002_names: builds indexes'),
      expect.stringMatching(/^0002_names: done in/),
    ]);
  });

  test('that blocks a migration is tried again, and the blocking process is named', async () => {
    const reader = await useShops('select from fulfilment.shops');
    const files = await write({
      '0002_city.sql': 'alter table fulfilment.shops add column city text',
    });
    const { migrated, lines } = startMigrating(files);
    await waitFor('the reader to be named', async () => lines.length === 2);
    expect(lines[1]).toMatch(
      /^0002_city: a table that it changes is in use by process \d+ \(.*test further.*\); trying again$/,
    );
    await reader.rollback().execute();
    expect(await migrated).toEqual(['0002_city']);
  });
});

test('the command migrates an empty database, with the queue and the rules of payloads', async () => {
  expect(await migrateDatabase(database.url, silentLogger)).toContain('0001_foundation');
  await expect(assertSchemaFits(database.db)).resolves.toBeUndefined();
  expect(
    await database.query(`select to_regclass('bullmq.job') is not null or exists (
    select from pg_namespace where nspname = 'bullmq') as queue, exists (select from sync.outbox_kinds) as kinds`),
  ).toEqual([{ queue: true, kinds: true }]);
  expect(await migrateDatabase(database.url, silentLogger)).toEqual([]);
});

test('a role that may not create schemas learns which right it needs', async () => {
  await database.query(`do $$ begin
    if not exists (select from pg_roles where rolname = 'may-not-create') then
      create role "may-not-create" login password 'test';
    end if; end $$`);
  const url = new URL(database.url);
  Object.assign(url, { username: 'may-not-create', password: 'test' });
  const name = url.pathname.slice(1);

  await expect(migrateDatabase(url.href, silentLogger)).rejects.toMatchObject({
    code: 'rights_missing',
    message: `This role may not create schemas in the database ${name}`,
    remedy: expect.stringContaining(`grant create on database ${name} to "may-not-create"`),
  });
});

test('a database that is not UTF8 is refused by migrate, worker and doctor before anything is made', async () => {
  const name = `${new URL(database.url).pathname.slice(1)}_latin1`;
  await database.query(
    `create database ${name} template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'`,
  );
  const url = new URL(database.url);
  url.pathname = name;
  const { db, close } = connectDatabase(url.href, silentLogger, { name: 'test', max: 1 });
  try {
    const refusal = {
      code: 'database_encoding',
      message: expect.stringContaining('LATIN1'),
    };
    await expect(migrateDatabase(url.href, silentLogger)).rejects.toMatchObject(refusal);
    // The worker and all commands begin with this check.
    await expect(assertSchemaFits(db)).rejects.toMatchObject(refusal);
    const made = sql`select nspname from pg_namespace where nspname in ('fulfilment', 'sync', 'bullmq')`;
    expect((await made.execute(db)).rows).toEqual([]);
    expect((await checkDatabase(db)).filter(({ state }) => state === 'fail')).toEqual([
      expect.objectContaining({
        check: 'encoding',
        remedy: expect.stringContaining("encoding 'UTF8'"),
      }),
    ]);
  } finally {
    await close();
    await database.query(`drop database ${name}`);
  }
});
