import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { migrateDatabase } from '../../../src/app/commands/migrate.ts';
import { silentLogger } from '../../../src/app/logging/logger.ts';
import { migrate } from '../../../src/erp/schema/migrate.ts';
import { readMigrations } from '../../../src/erp/schema/migration-files.ts';
import { assertSchemaFits } from '../../../src/erp/schema/schema-fit.ts';
import { useDatabase } from '../../helpers/database.ts';
import { waitFor } from '../../helpers/wait.ts';

describe('an empty database', () => {
  const database = useDatabase({ migrated: false });

  test('is refused, then migrated by several at once, each migration applied by one of them', async () => {
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

  /** Returns the existing migrations and one more. */
  const readMigrationsAnd = async (more: { name: string; text: string; online: boolean }) => [
    ...(await readMigrations()),
    { oldestCode: '0.1.0', ...more },
  ];

  test('gets its indexes during writes; an index that was left half-built is built again', async () => {
    await database.query('create index half_built on fulfilment.shipments (client)');
    await database.query(`update pg_index set indisvalid = false where indexrelid = 'fulfilment.half_built'::regclass`);
    const text = `-- oldest code: 0.1.0
      drop index concurrently if exists fulfilment.half_built;
      create index concurrently half_built on fulfilment.shipments (status);`;
    const files = await readMigrationsAnd({ name: '9998_online', text, online: true });
    const writer = await database.open(1).startTransaction().execute();
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(writer);
    const insert = sql`insert into fulfilment.shipments (client, id, raw, read_no) values ('default', 1, '{}', 1)`;
    await insert.execute(writer);
    const lines: string[] = [];
    const migrated = migrate(database.open(), '0.1.0', { files, tell: (line) => lines.push(line) });
    await waitFor('the migration to wait for the writer', async () => {
      const [row] = await database.query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%index concurrently%half_built%'
           and datname = current_database()`,
      );
      return row !== undefined;
    });
    // Other writers do not wait for the migration.
    await database.query(`insert into fulfilment.shipments (client, id, raw, read_no) values ('default', 2, '{}', 1)`);
    await writer.commit().execute();
    expect(await migrated).toEqual(['9998_online']);
    expect(
      await database.query(
        `select indisvalid as valid from pg_index where indexrelid = 'fulfilment.half_built'::regclass`,
      ),
    ).toEqual([{ valid: true }]);
    expect(lines).toEqual([
      expect.stringContaining('9998_online: builds indexes'),
      expect.stringMatching(/^9998_online: done in/),
    ]);
  });

  test('that blocks a migration is tried again, and the blocking process is named', async () => {
    const text = 'alter table sync.runs add column tried integer';
    const files = await readMigrationsAnd({ name: '9998_try', text, online: false });
    const reader = await database.open(1).startTransaction().execute();
    await sql`select from sync.runs`.execute(reader);
    const lines: string[] = [];
    const migrated = migrate(database.open(), '0.1.0', { files, tell: (line) => lines.push(line) });
    await waitFor('the reader to be named', async () => lines.length === 2);
    expect(lines[1]).toMatch(
      /^9998_try: a table that it changes is in use by process \d+ \(.*test further.*\); trying again$/,
    );
    await reader.rollback().execute();
    expect(await migrated).toEqual(['9998_try']);
  });
});

describe('a database of an older release', () => {
  const database = useDatabase({ migrated: false });

  test('gets the documents of labels and attachments that were made before', async () => {
    const files = await readMigrations();
    await migrate(database.db, '0.1.0', { files: files.filter(({ name }) => name < '0029') });
    await database.query(`
      insert into fulfilment.outbox (kind, reference, status, next_attempt_at, finished_at, payload, result) values
        ('return_label.create', 'SO-1', 'done', null, '2026-01-01', '{"shipmentId": 7}', '{"fileName": "label.pdf"}'),
        ('return_label.create', 'SO-2', 'done', null, now(), '{}', '{}'),
        ('order_attachment.create', 'SO-1', 'done', null, now(), '{"filename": "a.pdf"}', '{"orderAttachmentId": 9}'),
        ('order.create', 'SO-1', 'done', null, now(), '{}', '{"orderId": 1}')`);
    await migrate(database.db, '0.1.0', { files });
    expect(
      await database.query(
        'select id, kind, shipment_id, order_attachment_id, file_name from fulfilment.documents order by id',
      ),
    ).toEqual([
      { id: 1, kind: 'return_label', shipment_id: 7, order_attachment_id: null, file_name: 'label.pdf' },
      { id: 3, kind: 'order_attachment', shipment_id: null, order_attachment_id: 9, file_name: 'a.pdf' },
    ]);
    expect(await database.query(`select id from fulfilment.changes where entity = 'documents'`)).toHaveLength(2);
  });
});

describe('a migrated database', () => {
  const database = useDatabase();
  const recordFutureMigration = (oldestCode: string) =>
    database.query(`insert into sync.migrations (name, oldest_code, applied_by) values ('9999_future', $1, '9.0.0')`, [
      oldestCode,
    ]);

  test('of a newer release accepts code that it still supports, and is not changed', async () => {
    await recordFutureMigration('0.1.0');
    await expect(assertSchemaFits(database.db, '0.1.0')).resolves.toBeUndefined();
    expect(await migrate(database.db, '0.1.0')).toEqual([]);
  });

  test('of a newer release refuses code that is too old, to run and to migrate', async () => {
    await recordFutureMigration('0.10.0');
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
