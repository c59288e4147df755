import { type Kysely, sql } from 'kysely';
import { isOlder } from '../../core/version.ts';
import { type MigrationFile, readMigrations, SchemaError } from './migration-files.ts';

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
    `The database was migrated to ${tooNew.name}, which needs version ${tooNew.oldestCode} or newer;` +
      ` this is ${version}: upgrade it`,
  );
}

const oldestPostgres = 140_000;

/** @throws SchemaError `postgres_too_old` */
export async function assertPostgresFits<T>(db: Kysely<T>): Promise<void> {
  const { rows } = await sql<{ number: number; text: string }>`
    select current_setting('server_version_num')::int as number, current_setting('server_version') as text`.execute(db);
  if ((rows[0]?.number ?? 0) >= oldestPostgres) return;
  throw new SchemaError('postgres_too_old', `DATABASE_URL: Postgres ${rows[0]?.text} is too old; use 14 or newer`);
}

/** Migrations that the database has, in order. */
export async function appliedMigrations<T>(db: Kysely<T>): Promise<{ name: string; oldestCode: string }[]> {
  const { rows } = await sql<{ name: string; oldestCode: string }>`
    select name, oldest_code as "oldestCode"
    from sync.migrations
    order by name`.execute(db);
  return rows;
}

/** Those of them that this code does not know. */
export function unknownTo(files: readonly MigrationFile[], applied: readonly { name: string; oldestCode: string }[]) {
  const known = new Set(files.map(({ name }) => name));
  return applied.filter(({ name }) => !known.has(name));
}
