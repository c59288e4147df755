/**
 * Migrations, and checks that the schema and this code fit each other. One process migrates at a time, and a migration
 * never keeps the ERP waiting for longer than a second.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import { type MigrationProvider, Migrator } from 'kysely/migration';
import { isLockTimeout, readSqlState } from '../connection/transaction.ts';
import { type MigrationFile, readMigrations, SchemaError } from './migration-files.ts';
import { findBlockers, reportIndexProgress, withMigrationLock } from './migration-locks.ts';
import { assertPostgresFits, assertSchemaFits, findUnknownMigrations, readAppliedMigrations } from './schema-fit.ts';

/** A receiver of progress, one line per call. */
export type ProgressReporter = (line: string) => void;

/** Time that one attempt waits for a table. During that time every other statement on the table waits behind it. */
const lockTimeout = '1s';
const retryPauseMs = 2_000;
const maxAttempts = 600;

/**
 * Applies the missing migrations: each in its own transaction, or online if the file says so. If two processes migrate
 * at once, the second one waits and then finds nothing to do. If a table is in use, each attempt waits for one second
 * only, so that no other statement waits behind the migration for longer.
 * @param version version of this code, x.y.z
 * @param how `tell` receives progress; `files` defaults to those of migrations/
 * @returns the names applied by this call
 * @throws SchemaError if a newer schema does not work with this code, or if a table stays in use (`tables_in_use`); the
 *   error of the migration itself if one fails
 */
export async function migrate<T>(
  db: Kysely<T>,
  version: string,
  how: { readonly tell?: ProgressReporter | undefined; readonly files?: readonly MigrationFile[] } = {},
): Promise<string[]> {
  const { tell = () => {}, files = await readMigrations() } = how;
  await assertPostgresFits(db);
  await createTables(db);
  return withMigrationLock(db, tell, async () => {
    const applied = await readAppliedMigrations(db);
    if (findUnknownMigrations(files, applied).length > 0) {
      // A newer release has migrated the database. This code adds nothing; it only checks that it works with the
      // schema.
      await assertSchemaFits(db, version);
      return [];
    }
    const done = new Set(applied.map(({ name }) => name));
    const missing = files.filter(({ name }) => !done.has(name));
    const provider = toProvider(files, version);
    for (const file of missing) {
      const startedAt = performance.now();
      if (file.online) {
        await applyOnline(db, provider, file, tell);
        await recordMigration(db, file, version);
      } else await applyInTransaction(db, provider, file, tell);
      tell(`${file.name}: done in ${Math.round((performance.now() - startedAt) / 100) / 10} s`);
    }
    return missing.map(({ name }) => name);
  });
}

/**
 * Returns the migrations that `migrate` would apply, in order. Changes nothing.
 * @throws SchemaError if the schema is newer and does not work with this code
 */
export async function readMissingMigrations<T>(db: Kysely<T>, version: string): Promise<MigrationFile[]> {
  await assertPostgresFits(db);
  const files = await readMigrations();
  const { rows } = await sql<{ found: boolean }>`
    select to_regclass('sync.migrations') is not null as found`.execute(db);
  if (!rows[0]?.found) return files;
  const applied = await readAppliedMigrations(db);
  if (findUnknownMigrations(files, applied).length > 0) {
    await assertSchemaFits(db, version);
    return [];
  }
  const done = new Set(applied.map(({ name }) => name));
  return files.filter(({ name }) => !done.has(name));
}

/** Creates our tables of migrations. Beside kysely's record, they say which code each migration still works with. */
async function createTables<T>(db: Kysely<T>): Promise<void> {
  for (let attempt = 1; ; attempt++)
    try {
      await sql`create schema if not exists sync`.execute(db);
      await sql`
        create table if not exists sync.migrations (
          name text primary key,
          oldest_code text not null,
          applied_by text not null,
          applied_at timestamptz not null default now()
        )`.execute(db);
      await sql`
        do $$ begin
          if to_regclass('sync.migration_lock') is null then
            create table sync.migration_lock ();
            comment on table sync.migration_lock is
              'Has no columns. A migration locks it, so that no two run at once.';
          end if;
        end $$`.execute(db);
      return;
    } catch (error) {
      // IF NOT EXISTS still fails if two sessions create at the same moment. The next attempt finds what the other
      // created.
      if (attempt === 5 || !['23505', '42P06', '42P07', '42710'].includes(readSqlState(error))) throw error;
    }
}

/** Records a migration as applied, with the oldest code that works with it. */
async function recordMigration<T>(
  db: Kysely<T>,
  { name, oldestCode }: Pick<MigrationFile, 'name' | 'oldestCode'>,
  version: string,
): Promise<void> {
  await sql`
    insert into sync.migrations (name, oldest_code, applied_by)
    values (${name}, ${oldestCode}, ${version})
    on conflict do nothing`.execute(db);
}

function toProvider(files: readonly MigrationFile[], version: string): MigrationProvider {
  const toUp =
    ({ name, text, oldestCode, online }: MigrationFile) =>
    async (db: Kysely<unknown>) => {
      for (const statement of online ? splitStatements(text) : [text]) await sql.raw(statement).execute(db);
      // An online migration is recorded after kysely has recorded it. In the reverse order, an interruption between the
      // two would make kysely repeat it later together with the next migration, in a transaction.
      if (!online) await recordMigration(db, { name, oldestCode }, version);
    };
  return { getMigrations: async () => Object.fromEntries(files.map((file) => [file.name, { up: toUp(file) }])) };
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
  provider: MigrationProvider,
  { name }: MigrationFile,
  tell: ProgressReporter,
) {
  tell(`${name} …`);
  for (let attempt = 1; ; attempt++)
    try {
      await db.transaction().execute(async (trx) => {
        await sql`select set_config('lock_timeout', ${lockTimeout}, true)`.execute(trx);
        await runMigrator(new Migrator({ db: trx, provider, migrationTableSchema: 'sync' }), name);
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
      await pause(retryPauseMs);
    }
}

/**
 * Applies a migration statement by statement while others read and write. Waits for transactions that began earlier.
 */
async function applyOnline<T>(
  db: Kysely<T>,
  provider: MigrationProvider,
  { name }: MigrationFile,
  tell: ProgressReporter,
) {
  tell(`${name}: builds indexes online; it waits for transactions that began earlier …`);
  const progress = reportIndexProgress(db, (line) => tell(`${name}: ${line}`));
  try {
    await db.connection().execute(async (connection) => {
      await sql`set lock_timeout = 0`.execute(connection);
      const migrator = new Migrator({ db: connection, provider, migrationTableSchema: 'sync' });
      await runMigrator(migrator, name, true).finally(() => sql`reset lock_timeout`.execute(connection));
    });
  } finally {
    await progress.stop();
  }
}

async function runMigrator(migrator: Migrator, name: string, disableTransactions = false): Promise<void> {
  const { error } = await migrator.migrateTo(name, disableTransactions ? { disableTransactions } : {});
  if (error !== undefined) throw error;
}
