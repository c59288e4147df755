import { readdir, readFile } from 'node:fs/promises';
import { CodedError } from '../core/errors.ts';
import { migrationsFolder } from '../core/installation.ts';

const fileForm = /^(\d{4}_[a-z0-9_]+)\.sql$/;
const onlineForm = /^-- online$/m;

/**
 * An error of the schema: it does not fit this code, or cannot be migrated. The message says what
 * to do.
 */
export class SchemaError extends CodedError {}

/** One file of migrations/. */
export interface MigrationFile {
  readonly name: string;
  readonly text: string;
  /**
   * True if each statement runs by itself, outside a transaction, as `create index concurrently`
   * requires. If the run is interrupted, the file is run again from its beginning, so each
   * statement must be repeatable.
   */
  readonly online: boolean;
}

/**
 * Reads the migrations of a folder, in order.
 * @throws SchemaError `migration_malformed`
 */
export async function readMigrations(folder: URL): Promise<MigrationFile[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort();
  return Promise.all(files.map((file) => readMigration(folder, file)));
}

async function readMigration(folder: URL, file: string): Promise<MigrationFile> {
  const name = fileForm.exec(file)?.[1];
  if (name === undefined)
    throw new SchemaError('migration_malformed', `${file}: is not named NNNN_name.sql`);

  const text = await readFile(new URL(file, folder), 'utf8');
  return { name, text, online: onlineForm.test(text) };
}

let known: Promise<readonly MigrationFile[]> | undefined;

/**
 * Returns the migrations that this code knows. Reads them once: an upgrade in place replaces the
 * files while a process still runs the code before.
 */
export function readKnownMigrations(): Promise<readonly MigrationFile[]> {
  known ??= readMigrations(migrationsFolder);
  return known;
}
