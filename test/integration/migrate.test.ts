import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { migrateDatabase } from '../../src/app/commands/migrate.ts';
import { silentLogger } from '../../src/app/logging/logger.ts';
import { migrate } from '../../src/erp/migrate.ts';
import { readMigrations } from '../../src/erp/migration-files.ts';
import { assertSchemaFits } from '../../src/erp/schema-fit.ts';
import { useDatabase } from '../helpers/database.ts';
import { waitFor } from '../helpers/wait.ts';

describe('an empty database', () => {
  const database = useDatabase({ migrated: false });

  test('is refused with what to do, then migrated by two at once, each migration applied by one of them', async () => {
    await expect(assertSchemaFits(database.db, '0.1.0')).rejects.toMatchObject({
      code: 'schema_missing',
      message: expect.stringContaining('fulfilment-sync migrate'),
    });
    const applied = await Promise.all([1, 2, 3].map(() => migrateDatabase(database.url, silentLogger)));
    const names = applied.flat();
    expect(names.length).toBeGreaterThan(0);
    expect(new Set(names).size).toBe(names.length);
    await expect(assertSchemaFits(database.db, '0.1.0')).resolves.toBeUndefined();
    expect(await migrateDatabase(database.url, silentLogger)).toEqual([]);
  });
});

describe('a database in use', () => {
  const database = useDatabase();

  /** Takes the last migration back, as if it had never run. */
  const takeBack = async () => {
    await database.query(
      `drop index fulfilment.orders_by_day, fulfilment.return_items_by_day, fulfilment.shipments_by_arrival`,
    );
    await database.query(`delete from sync.migrations where name = '0020_days'`);
    await database.query(`delete from sync.kysely_migration where name = '0020_days'`);
  };
  const indexes = () =>
    database.query<{ name: string; valid: boolean }>(
      `select indexrelid::regclass::text as name, indisvalid as valid from pg_index
       where indexrelid::regclass::text ~ '_by_(day|arrival)$' order by 1`,
    );
  const whole = [
    { name: 'fulfilment.orders_by_day', valid: true },
    { name: 'fulfilment.return_items_by_day', valid: true },
    { name: 'fulfilment.shipments_by_arrival', valid: true },
  ];

  test('gets its indexes while somebody writes; what a migration left half-built is built anew', async () => {
    await takeBack();
    await database.query('create index orders_by_day on fulfilment.orders (client)');
    await database.query(
      `update pg_index set indisvalid = false where indexrelid = 'fulfilment.orders_by_day'::regclass`,
    );
    const writer = await database.open(1).startTransaction().execute();
    await sql`insert into fulfilment.shipments (client, id, raw, read_no) values ('default', 1, '{}', 1)`.execute(
      writer,
    );
    const told: string[] = [];
    const migrated = migrateDatabase(database.url, silentLogger, (line) => told.push(line));
    await waitFor('the migration to wait for the writer', async () => {
      const [row] = await database.query(
        `select from pg_stat_activity where wait_event = 'virtualxid' and datname = current_database()`,
      );
      return row !== undefined;
    });
    // Nobody waits behind it.
    await database.query(`insert into fulfilment.shipments (client, id, raw, read_no) values ('default', 2, '{}', 1)`);
    await writer.commit().execute();
    expect(await migrated).toEqual(['0020_days']);
    expect(await indexes()).toEqual(whole);
    expect(told).toEqual([
      expect.stringContaining('0020_days: builds indexes'),
      expect.stringMatching(/^0020_days: done in/),
    ]);
  });

  test('is waited for in short attempts, and the one who keeps the migration from a table is named', async () => {
    const text = 'alter table sync.runs add column tried integer';
    const files = [...(await readMigrations()), { name: '9998_try', text, oldestCode: '0.1.0', online: false }];
    const reader = await database.open(1).startTransaction().execute();
    await sql`select from sync.runs`.execute(reader);
    const told: string[] = [];
    const migrated = migrate(database.open(), '0.1.0', { files, tell: (line) => told.push(line) });
    await waitFor('the reader to be named', async () => told.length === 2);
    expect(told[1]).toMatch(
      /^9998_try: a table that it changes is in use by process \d+ \(.*test further.*\); trying again$/,
    );
    await reader.rollback().execute();
    expect(await migrated).toEqual(['9998_try']);
  });
});

describe('a migrated database', () => {
  const database = useDatabase();
  const record = (oldestCode: string) =>
    database.query(`insert into sync.migrations (name, oldest_code, applied_by) values ('9999_future', $1, '9.0.0')`, [
      oldestCode,
    ]);

  test('of a newer release lets code in that it still works with, and changes nothing', async () => {
    await record('0.1.0');
    await expect(assertSchemaFits(database.db, '0.1.0')).resolves.toBeUndefined();
    expect(await migrate(database.db, '0.1.0')).toEqual([]);
  });

  test('of a newer release refuses code that is too old, to run and to migrate', async () => {
    await record('0.10.0');
    await expect(assertSchemaFits(database.db, '0.9.0')).rejects.toMatchObject({ code: 'code_too_old' });
    await expect(migrate(database.db, '0.9.0')).rejects.toMatchObject({ code: 'code_too_old' });
    await expect(assertSchemaFits(database.db, '0.10.0')).resolves.toBeUndefined();
  });

  test('that lacks a migration is refused by name', async () => {
    await database.query(`delete from sync.migrations where name = '0003_orders'`);
    await expect(assertSchemaFits(database.db, '0.1.0')).rejects.toMatchObject({
      code: 'schema_behind',
      message: expect.stringContaining('0003_orders'),
    });
  });
});
