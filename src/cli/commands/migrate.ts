import { setTimeout as wait } from 'node:timers/promises';
import type { Command } from 'commander';
import { readConfig } from '../../../config/env.ts';
import { operations as builtIn, type Operations } from '../../../config/operations.ts';
import { pauses } from '../../core/backoff.ts';
import { describeError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { hourMs } from '../../core/time.ts';
import { version } from '../../core/version.ts';
import { connectDatabase, toDirectUrl } from '../../db/connect.ts';
import { isUnreachable } from '../../db/is-unreachable.ts';
import { migrate, type ProgressReporter } from '../../db/migrate.ts';
import { type MigrationFile, readKnownMigrations } from '../../db/migration-files.ts';
import { readMissingMigrations } from '../../db/schema-fit.ts';
import { openLogger } from '../../operate/logging/create-logger.ts';
import { listStoredKinds } from '../../push/kinds/registry.ts';
import { storeOutboxKinds } from '../../push/sql/kinds.ts';
import { migrateQueue } from '../../schedule/backend.ts';
import { openQueuePool } from '../../schedule/open-queue.ts';
import { addCommand, exitWith, parseWholeNumber, print } from '../command-line.ts';

/**
 * Time limit of a migration. It is long, because an index on a large table that is given up must
 * start again.
 */
const migrationTimeoutMs = 6 * hourMs;

/**
 * Migrates the ERP database: the schemas fulfilment and sync, and the schema of the queue. The
 * queue's schema is made even if REDIS_URL is set, so that REDIS_URL can be set and unset later
 * without another migration.
 */
export async function migrateDatabase(
  databaseUrl: string,
  log: Logger,
  tell?: ProgressReporter,
  operations: Operations = builtIn,
): Promise<string[]> {
  // One connection holds the lock, one migrates, and one reads the progress.
  const { db, close } = connectDatabase(databaseUrl, log, {
    name: 'migrate',
    max: 3,
    queryTimeoutMs: migrationTimeoutMs,
  });
  const pool = openQueuePool(databaseUrl, log);

  try {
    const applied = await migrate(db, version, { tell });
    await storeOutboxKinds(db, listStoredKinds(operations));
    await migrateQueue(pool);
    return applied;
  } finally {
    await Promise.all([close(), pool.end()]);
  }
}

/**
 * Calls `work` until the database answers, at most for `waitMs`. Says once that it waits, and why.
 */
async function waitForDatabase<T>(
  work: () => Promise<T>,
  waitMs: number,
  tell: ProgressReporter,
): Promise<T> {
  const deadlineMs = performance.now() + waitMs;
  let hasTold = false;

  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isUnreachable(error) || performance.now() >= deadlineMs) throw error;

      if (!hasTold)
        tell(`Waiting up to ${waitMs / 1_000} s for the database: ${describeError(error)}`);
      hasTold = true;
      await wait(pauses.unreachableDatabase.firstMs);
    }
  }
}

interface MigrateOptions {
  /** Seconds to wait for a database that cannot be reached. */
  readonly wait?: number;
  /** Prints the statements instead of running them. */
  readonly sql?: boolean;
}

/**
 * Returns the statements of migrations for people to read, with comments on how `migrate` runs
 * them.
 */
export function formatMigrations(files: readonly MigrationFile[]): string {
  if (files.length === 0)
    return '-- The database is up to date: migrate would change nothing in fulfilment and sync.\n';

  const parts = files.map(({ name, online, text }) => {
    const how = online
      ? 'Online: each statement by itself, while others read and write.'
      : 'One transaction. It waits 1 second for a table in use, then tries again.';
    const body = online ? text.trim() : `begin;\n${text.trim()}\ncommit;`;
    return `-- ${name}. ${how}\n${body}\n`;
  });

  return [
    `-- What migrate of version ${version} would run. Nothing was changed. ` +
      'Run migrate, not this text: migrate also records',
    '-- each migration in sync.migrations and what it made in sync.schema_parts, ' +
      'stores the rules of payloads, ' +
      'and creates or upgrades the schema of the queue (bullmq).',
    '',
    ...parts,
  ].join('\n');
}

/** Migrates the database of the settings, and prints what was applied. */
async function migrateCommand(options: MigrateOptions = {}): Promise<number> {
  const config = readConfig({ database: true, clients: false });
  const log = await openLogger(config);

  if (options.sql) {
    const { db, close } = connectDatabase(toDirectUrl(config), log, { name: 'migrate', max: 1 });
    const missing = await readMissingMigrations(db, await readKnownMigrations()).finally(close);
    print(formatMigrations(missing).trimEnd());
    return 0;
  }

  const work = () => migrateDatabase(toDirectUrl(config), log, print, config.operations);
  const applied = await waitForDatabase(work, (options.wait ?? 0) * 1_000, print);
  print(applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`);
  return 0;
}

/** Adds `migrate`, which creates or upgrades the schemas. */
export function addMigrateCommand(cli: Command): void {
  addCommand(cli, {
    name: 'migrate',
    description: 'create or upgrade the schemas in the ERP database',
    examples: '--wait 60',
  })
    .option(
      '--wait <seconds>',
      'time to wait for a database that is starting (0)',
      parseWholeNumber,
    )
    .option('--sql', 'print what would run, and change nothing')
    .action(exitWith(migrateCommand));
}
