import { type Kysely, sql } from 'kysely';
import { isOlder } from '../../core/version.ts';
import { type MigrationFile, readMigrations, SchemaError } from './migration-files.ts';

/**
 * Checks that this code works with the schema of the database.
 * @throws SchemaError `schema_missing` or `schema_behind` (run migrate), or `code_too_old` (upgrade this worker)
 */
export async function assertSchemaFits<T>(db: Kysely<T>, version: string): Promise<void> {
  await assertPostgresFits(db);
  const found = await sql<{ found: boolean }>`select to_regclass('sync.migrations') is not null as found`.execute(db);
  if (!found.rows[0]?.found) {
    throw new SchemaError('schema_missing', 'The database has no schema yet; run: fulfilment-sync migrate');
  }
  const [files, applied] = await Promise.all([readMigrations(), readAppliedMigrations(db)]);
  const names = new Set(applied.map(({ name }) => name));
  const missing = files.filter(({ name }) => !names.has(name));
  if (missing.length > 0) {
    const list = missing.map(({ name }) => name).join(', ');
    throw new SchemaError('schema_behind', `The database lacks ${list}; run: fulfilment-sync migrate`);
  }
  assertNotTooOld(applied, version);
}

/**
 * Returns whether a newer version has migrated the database. Its schema then differs from what this version creates.
 */
export async function isMigratedByNewer<T>(db: Kysely<T>): Promise<boolean> {
  return findUnknownMigrations(await readMigrations(), await readAppliedMigrations(db)).length > 0;
}

/**
 * Checks, before a run begins, that this code still works with the schema: a newer version may have migrated it.
 * @returns the newest migration of the database
 * @throws SchemaError `code_too_old`
 */
export async function assertCodeFits<T>(db: Kysely<T>, version: string): Promise<string> {
  const applied = await readAppliedMigrations(db);
  assertNotTooOld(applied, version);
  return applied.at(-1)?.name ?? '';
}

function assertNotTooOld(applied: readonly { name: string; oldestCode: string }[], version: string): void {
  const tooNew = applied.find(({ oldestCode }) => isOlder(version, oldestCode));
  if (tooNew === undefined) return;
  throw new SchemaError(
    'code_too_old',
    `The database was migrated to ${tooNew.name}, which needs version ${tooNew.oldestCode} or newer;` +
      ` this is ${version}: upgrade fulfilment-sync`,
  );
}

const oldestPostgres = 140_000;

/**
 * Checks the version of Postgres.
 * @throws SchemaError `postgres_too_old`
 */
export async function assertPostgresFits<T>(db: Kysely<T>): Promise<void> {
  const { rows } = await sql<{ number: number; text: string }>`
    select current_setting('server_version_num')::int as number, current_setting('server_version') as text`.execute(db);
  if ((rows[0]?.number ?? 0) >= oldestPostgres) return;
  throw new SchemaError('postgres_too_old', `DATABASE_URL: Postgres ${rows[0]?.text} is too old; use 14 or newer`);
}

/** Reads the migrations that the database has, in order. */
export async function readAppliedMigrations<T>(db: Kysely<T>): Promise<{ name: string; oldestCode: string }[]> {
  const { rows } = await sql<{ name: string; oldestCode: string }>`
    select name, oldest_code as "oldestCode"
    from sync.migrations
    order by name`.execute(db);
  return rows;
}

/** Returns the applied migrations that this code does not know. */
export function findUnknownMigrations(
  files: readonly MigrationFile[],
  applied: readonly { name: string; oldestCode: string }[],
) {
  const known = new Set(files.map(({ name }) => name));
  return applied.filter(({ name }) => !known.has(name));
}
