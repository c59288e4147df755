import { readdir, readFile } from 'node:fs/promises';
import { CodedError } from '../../core/errors.ts';
import { migrationsFolder } from '../../core/installation.ts';

const fileForm = /^(\d{4}_[a-z0-9_]+)\.sql$/;
const oldestCodeForm = /^-- oldest code: (\d+\.\d+\.\d+)$/m;
const onlineForm = /^-- online$/m;

/** An error of the schema: it does not fit this code, or cannot be migrated. The message says what to do. */
export class SchemaError extends CodedError {}

/** One file of migrations/. */
export interface MigrationFile {
  readonly name: string;
  readonly text: string;
  /** The oldest version of this code that can work with the schema after this migration. */
  readonly oldestCode: string;
  /**
   * True if each statement runs by itself, outside a transaction, as `create index concurrently` requires. If the run
   * is interrupted, the file is run again from its beginning, so each statement must be repeatable.
   */
  readonly online: boolean;
}

/**
 * Reads the files of migrations/, in order.
 * @throws SchemaError `migration_malformed`
 */
export async function readMigrations(): Promise<MigrationFile[]> {
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
      return { name, text, oldestCode, online: onlineForm.test(text) };
    }),
  );
}
