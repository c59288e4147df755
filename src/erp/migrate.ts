import { readdir, readFile } from 'node:fs/promises';
import { type Kysely, sql } from 'kysely';
import { type Migration, type MigrationProvider, Migrator } from 'kysely/migration';
import { CodedError } from '../core/errors.ts';
import { migrationsFolder } from '../core/installation.ts';
import { isOlder } from '../core/version.ts';

const fileForm = /^(\d{4}_[a-z0-9_]+)\.sql$/;
const oldestCodeForm = /^-- oldest code: (\d+\.\d+\.\d+)$/m;

/** The database's schema and this code do not fit each other; the message says what to do. */
export class SchemaError extends CodedError {}

interface MigrationFile {
  readonly name: string;
  readonly text: string;
  /** The oldest version of this code that can work with the schema after this migration. */
  readonly oldestCode: string;
}

async function readMigrations(): Promise<MigrationFile[]> {
  const names = (await readdir(migrationsFolder)).filter((file) => file.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (file) => {
      const text = await readFile(new URL(file, migrationsFolder), 'utf8');
      const [name, oldestCode] = [fileForm.exec(file)?.[1], oldestCodeForm.exec(text)?.[1]];
      if (name === undefined || oldestCode === undefined) {
        throw new SchemaError(
          'migration_malformed',
          `${file}: is not named NNNN_name.sql or lacks "-- oldest code: x.y.z"`,
        );
      }
      return { name, text, oldestCode };
    }),
  );
}

/**
 * Applies what is missing, in one transaction under an advisory lock: two at once are fine, the second finds nothing to do.
 * @param version version of this code, x.y.z
 * @returns the names applied by this call
 * @throws SchemaError where a newer schema does not work with this code; the migration's own error where one fails
 */
export async function migrate<T>(db: Kysely<T>, version: string): Promise<string[]> {
  const files = await readMigrations();
  await assertPostgresFits(db);
  await createRecord(db);
  if (unknownTo(files, await appliedMigrations(db)).length > 0) {
    // A newer release was here. Nothing for us to add; whether we may work with it is the only question.
    await assertSchemaFits(db, version);
    return [];
  }
  const migrator = new Migrator({ db, provider: providerOf(files, version), migrationTableSchema: 'sync' });
  const { error, results } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
  return (results ?? []).map(({ migrationName }) => migrationName);
}

/** Our own record beside kysely's: it says which code each migration still works with. */
async function createRecord<T>(db: Kysely<T>): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // IF NOT EXISTS alone fails when two sessions create at once.
    await sql`select pg_advisory_xact_lock(hashtext('fulfilment-sync migrate'))`.execute(trx);
    await sql`create schema if not exists sync`.execute(trx);
    await sql`
      create table if not exists sync.migrations (
        name text primary key,
        oldest_code text not null,
        applied_by text not null,
        applied_at timestamptz not null default now()
      )`.execute(trx);
  });
}

function providerOf(files: readonly MigrationFile[], version: string): MigrationProvider {
  const migrationOf = ({ name, text, oldestCode }: MigrationFile): Migration => ({
    up: async (db) => {
      await sql.raw(text).execute(db);
      await sql`
        insert into sync.migrations (name, oldest_code, applied_by) values (${name}, ${oldestCode}, ${version})
      `.execute(db);
    },
  });
  return { getMigrations: async () => Object.fromEntries(files.map((file) => [file.name, migrationOf(file)])) };
}

/**
 * Checks that this code may work with the database as it is.
 * @throws SchemaError `schema_missing` or `schema_behind` (run migrate), or `code_too_old` (upgrade this worker)
 */
export async function assertSchemaFits<T>(db: Kysely<T>, version: string): Promise<void> {
  await assertPostgresFits(db);
  const found = await sql<{ found: boolean }>`select to_regclass('sync.migrations') is not null as found`.execute(db);
  if (!found.rows[0]?.found) {
    throw new SchemaError('schema_missing', 'The database has no schema yet; run: fulfilment-sync migrate');
  }
  const [files, applied] = await Promise.all([readMigrations(), appliedMigrations(db)]);
  const names = new Set(applied.map(({ name }) => name));
  const missing = files.filter(({ name }) => !names.has(name));
  if (missing.length > 0) {
    const list = missing.map(({ name }) => name).join(', ');
    throw new SchemaError('schema_behind', `The database lacks ${list}; run: fulfilment-sync migrate`);
  }
  assertNotTooOld(applied, version);
}

/** Whether a newer version has migrated the database: it is not as this one would make it. */
export async function isMigratedByNewer<T>(db: Kysely<T>): Promise<boolean> {
  return unknownTo(await readMigrations(), await appliedMigrations(db)).length > 0;
}

/**
 * Checks, before a run begins, that no migration came by meanwhile that this code cannot work with.
 * @throws SchemaError `code_too_old`
 */
export async function assertCodeFits<T>(db: Kysely<T>, version: string): Promise<void> {
  assertNotTooOld(await appliedMigrations(db), version);
}

function assertNotTooOld(applied: readonly { name: string; oldestCode: string }[], version: string): void {
  const tooNew = applied.find(({ oldestCode }) => isOlder(version, oldestCode));
  if (tooNew === undefined) return;
  throw new SchemaError(
    'code_too_old',
    `The database was migrated to ${tooNew.name}, which needs version ${tooNew.oldestCode} or newer; this is ${version}: upgrade it`,
  );
}

const oldestPostgres = 140_000;

/** @throws SchemaError `postgres_too_old` */
async function assertPostgresFits<T>(db: Kysely<T>): Promise<void> {
  const { rows } = await sql<{ number: number; text: string }>`
    select current_setting('server_version_num')::int as number, current_setting('server_version') as text`.execute(db);
  if ((rows[0]?.number ?? 0) >= oldestPostgres) return;
  throw new SchemaError('postgres_too_old', `DATABASE_URL: Postgres ${rows[0]?.text} is too old; use 14 or newer`);
}

async function appliedMigrations<T>(db: Kysely<T>): Promise<{ name: string; oldestCode: string }[]> {
  const { rows } = await sql<{ name: string; oldestCode: string }>`
    select name, oldest_code as "oldestCode" from sync.migrations order by name`.execute(db);
  return rows;
}

function unknownTo(files: readonly MigrationFile[], applied: readonly { name: string; oldestCode: string }[]) {
  const known = new Set(files.map(({ name }) => name));
  return applied.filter(({ name }) => !known.has(name));
}
