import { describe, expect, test } from 'vitest';
import { migrateDatabase } from '../../src/app/commands/migrate.ts';
import { silentLogger } from '../../src/app/logging/logger.ts';
import { assertSchemaFits, migrate } from '../../src/erp/migrate.ts';
import { useDatabase } from '../helpers/database.ts';

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
