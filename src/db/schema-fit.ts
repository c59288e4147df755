import { type Kysely, sql } from 'kysely';
import { type MigrationFile, readKnownMigrations, SchemaError } from './migration-files.ts';

/**
 * Checks that the database has exactly the migrations that this code knows.
 * @throws SchemaError `schema_missing` or `schema_behind` (run migrate), or `code_too_old` (upgrade
 *   this program)
 */
export async function assertSchemaFits<T>(
  db: Kysely<T>,
  files?: readonly MigrationFile[],
): Promise<void> {
  const known = files ?? (await readKnownMigrations());
  const missing = await readMissingMigrations(db, known);
  if (missing.length === 0) return;

  const remedy = 'run: fulfilment-sync migrate';
  if (missing.length === known.length)
    throw new SchemaError('schema_missing', 'The database has no schema yet', { remedy });

  const list = missing.map(({ name }) => name).join(', ');
  throw new SchemaError('schema_behind', `The database lacks ${list}`, { remedy });
}

/**
 * Returns the migrations that `migrate` would apply, in order. Changes nothing.
 * @throws SchemaError `code_too_old`, `postgres_unsupported`, `postgres_too_old` or
 *   `database_encoding`
 */
export async function readMissingMigrations<T>(
  db: Kysely<T>,
  files: readonly MigrationFile[],
): Promise<readonly MigrationFile[]> {
  await assertPostgresFits(db);

  const { rows } = await sql<{ found: boolean }>`
    select to_regclass('sync.migrations') is not null as found`.execute(db);
  return rows[0]?.found ? findMissingMigrations(db, files) : files;
}

/**
 * Checks, before a run begins, that no migration was applied that this code does not know.
 * @throws SchemaError `code_too_old`
 */
export async function assertCodeFits<T>(db: Kysely<T>): Promise<void> {
  await findMissingMigrations(db, await readKnownMigrations());
}

/**
 * Compares the applied migrations with those of this code, and returns the missing ones.
 * @throws SchemaError `code_too_old` if a migration was applied that this code does not know
 */
export async function findMissingMigrations<T>(
  db: Kysely<T>,
  files: readonly MigrationFile[],
): Promise<readonly MigrationFile[]> {
  const { rows } = await sql<{ name: string }>`
    select name
    from sync.migrations
    order by name`.execute(db);

  const known = new Set(files.map(({ name }) => name));
  const unknown = rows.find(({ name }) => !known.has(name));
  if (unknown !== undefined)
    throw new SchemaError(
      'code_too_old',
      `The database has the migration ${unknown.name}, which this program does not know`,
      { remedy: 'upgrade fulfilment-sync' },
    );

  const applied = new Set(rows.map(({ name }) => name));
  return files.filter(({ name }) => !applied.has(name));
}

const oldestPostgres = 140_000;

/** What to do about a database whose encoding cannot store every name and address. */
export const encodingRemedy =
  "use another database: create database … template template0 encoding 'UTF8'";

/**
 * Returns the name of a database that speaks the protocol of Postgres but does not keep its
 * promises, such as the order of sequences, locks that skip rows, and notifications. Null: it is
 * Postgres.
 * @param version what `version()` of the server returns
 */
export function findOtherProduct(version: string): string | null {
  if (version.startsWith('CockroachDB')) return 'CockroachDB';
  if (/-YB-|YugabyteDB/.test(version)) return 'YugabyteDB';
  return null;
}

/**
 * Checks that the server is Postgres.
 * @throws SchemaError `postgres_unsupported`
 */
export async function assertPostgres<T>(db: Kysely<T>): Promise<void> {
  const { rows } = await sql<{ version: string }>`
    select version() as version`.execute(db);

  const product = findOtherProduct(rows[0]?.version ?? '');
  if (product !== null)
    throw new SchemaError(
      'postgres_unsupported',
      `DATABASE_URL: ${product} is not supported, because it orders and locks rows differently`,
      { remedy: 'use PostgreSQL 14 or newer (docs/which-postgres.md)' },
    );
}

/**
 * Checks the version of Postgres and the encoding of the database.
 * @throws SchemaError `postgres_unsupported`, `postgres_too_old` or `database_encoding`
 */
export async function assertPostgresFits<T>(db: Kysely<T>): Promise<void> {
  await assertPostgres(db);

  const { rows } = await sql<{ number: number; text: string; encoding: string }>`
    select current_setting('server_version_num')::int as number,
      current_setting('server_version') as text,
      current_setting('server_encoding') as encoding`.execute(db);

  const { number = 0, text = '', encoding = '' } = rows[0] ?? {};
  if (number < oldestPostgres)
    throw new SchemaError('postgres_too_old', `DATABASE_URL: Postgres ${text} is too old`, {
      remedy: 'use 14 or newer',
    });

  if (encoding !== 'UTF8')
    throw new SchemaError(
      'database_encoding',
      `DATABASE_URL: the encoding of the database is ${encoding}, ` +
        'which cannot store every name',
      { remedy: encodingRemedy },
    );
}
