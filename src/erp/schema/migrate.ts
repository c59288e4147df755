/**
 * Migrations. One process migrates at a time, and a migration never keeps the ERP waiting for longer than a second.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import { isLockTimeout, readSqlState } from '../connection/transaction.ts';
import { type MigrationFile, readKnownMigrations, SchemaError } from './migration-files.ts';
import { findBlockers, reportIndexProgress, withMigrationLock } from './migration-locks.ts';
import { assertPostgresFits, findMissingMigrations } from './schema-fit.ts';

/** A receiver of progress, one line per call. */
export type ProgressReporter = (line: string) => void;

/** Time that one attempt waits for a table. During that time every other statement on the table waits behind it. */
const lockTimeout = '1s';
const maxAttempts = 600;

/**
 * Applies the missing migrations: each in its own transaction, or online if the file says so. If two processes migrate
 * at once, the second one waits and then finds nothing to do. If a table is in use, each attempt waits for one second
 * only, so that no other statement waits behind the migration for longer.
 * @param version version of this code, which is recorded with each migration
 * @param how `tell` receives progress; `files` defaults to those of migrations/
 * @returns the names applied by this call
 * @throws SchemaError if the database has a migration that this code does not know (`code_too_old`), or if a table stays
 *   in use (`tables_in_use`); the error of the migration itself if one fails
 */
export async function migrate<T>(
  db: Kysely<T>,
  version: string,
  how: { readonly tell?: ProgressReporter | undefined; readonly files?: readonly MigrationFile[] } = {},
): Promise<string[]> {
  const { tell = () => {}, files = await readKnownMigrations() } = how;
  await assertPostgresFits(db);
  await createTables(db);
  return withMigrationLock(db, tell, async () => {
    const missing = await findMissingMigrations(db, files);
    for (const file of missing) {
      const startedAt = performance.now();
      await (file.online ? applyOnline(db, file, version, tell) : applyInTransaction(db, file, version, tell));
      tell(`${file.name}: done in ${Math.round((performance.now() - startedAt) / 100) / 10} s`);
    }
    return missing.map(({ name }) => name);
  });
}

/** Creates the record of migrations, and the table that a migration locks. */
async function createTables<T>(db: Kysely<T>): Promise<void> {
  for (let attempt = 1; ; attempt++)
    try {
      await sql`create schema if not exists sync`.execute(db);
      await sql`
        create table if not exists sync.migrations (
          name text primary key,
          applied_by text not null,
          applied_at timestamptz not null default now()
        )`.execute(db);
      // The comment comes with the table: later it would wait for the lock of another migration.
      await sql`
        do $$ begin
          if to_regclass('sync.migration_lock') is null then
            create table sync.migration_lock ();
            comment on table sync.migration_lock is 'Has no columns. A migration locks it, so that no two run at once';
          end if;
        end $$`.execute(db);
      return;
    } catch (error) {
      // IF NOT EXISTS still fails if two sessions create at the same moment. The next attempt finds what the other
      // created.
      if (attempt === 5 || !['23505', '42P06', '42P07', '42710'].includes(readSqlState(error))) throw error;
    }
}

/** Records a migration as applied. */
async function recordMigration<T>(db: Kysely<T>, name: string, version: string): Promise<void> {
  await sql`insert into sync.migrations (name, applied_by) values (${name}, ${version})`.execute(db);
}

/** Splits an online migration into statements. Each ends with a semicolon at the end of a line. */
const splitStatements = (text: string) =>
  text
    .replaceAll(/^--.*$/gm, '')
    .split(/;$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');

/** Applies a migration in one transaction. Repeats the attempt while a table is in use. */
async function applyInTransaction<T>(
  db: Kysely<T>,
  { name, text }: MigrationFile,
  version: string,
  tell: ProgressReporter,
) {
  tell(`${name} …`);
  for (let attempt = 1; ; attempt++)
    try {
      await db.transaction().execute(async (trx) => {
        await sql`select set_config('lock_timeout', ${lockTimeout}, true)`.execute(trx);
        await sql.raw(text).execute(trx);
        await recordMigration(trx, name, version);
      });
      return;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      const blockers = await findBlockers(db);
      const inUse = `${name}: a table that it changes is in use${blockers === '' ? '' : ` by ${blockers}`}`;
      if (attempt === maxAttempts)
        throw new SchemaError(
          'tables_in_use',
          `${inUse}; this migration was not applied. End those sessions and run migrate again`,
        );
      if (attempt % 5 === 1) tell(`${inUse}; trying again`);
      await pause(pauses.tableInUse.firstMs);
    }
}

/**
 * Applies a migration statement by statement while others read and write. Waits for transactions that began earlier.
 */
async function applyOnline<T>(db: Kysely<T>, { name, text }: MigrationFile, version: string, tell: ProgressReporter) {
  tell(`${name}: builds indexes online; it waits for transactions that began earlier …`);
  const progress = reportIndexProgress(db, (line) => tell(`${name}: ${line}`));
  try {
    await db.connection().execute(async (connection) => {
      await sql`set lock_timeout = 0`.execute(connection);
      try {
        for (const statement of splitStatements(text)) await sql.raw(statement).execute(connection);
        await recordMigration(connection, name, version);
      } finally {
        await sql`reset lock_timeout`.execute(connection);
      }
    });
  } finally {
    await progress.stop();
  }
}
