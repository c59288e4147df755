/**
 * Applies migrations. One process migrates at a time, and a migration never keeps the ERP waiting
 * for longer than a second.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { type Kysely, sql, type Transaction } from 'kysely';
import { pauses } from '../core/backoff.ts';
import { recordSchemaParts } from './drift.ts';
import { type MigrationFile, readKnownMigrations, SchemaError } from './migration-files.ts';
import { assertPostgresFits, findMissingMigrations } from './schema-fit.ts';
import { pinnedSettings } from './session-settings.ts';
import { isLockTimeout, readSqlState } from './transaction.ts';

const reportEveryMs = 10_000;

/**
 * Runs `work` while no other process migrates this database. Locks a table of schema sync: any role
 * that may connect could take an advisory key and keep it.
 */
async function withMigrationLock<T, R>(
  db: Kysely<T>,
  tell: (line: string) => void,
  work: () => Promise<R>,
): Promise<R> {
  for (let told = false; ; ) {
    const trx = await db.startTransaction().execute();
    try {
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx);
      if (await tryLockMigrations(trx)) return await work();
    } finally {
      await trx.rollback().execute();
    }

    if (!told) tell('Another process is migrating this database; waiting for it …');
    told = true;
    await pause(pauses.otherMigration.firstMs);
  }
}

/** Locks until the transaction ends. Returns false if another process migrates. */
async function tryLockMigrations<T>(trx: Transaction<T>): Promise<boolean> {
  try {
    await sql`lock table sync.migration_lock in exclusive mode nowait`.execute(trx);
    return true;
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    return false;
  }
}

/**
 * Describes up to three sessions whose open transactions use our tables, the oldest first. Empty if
 * there are none.
 */
async function findBlockers<T>(db: Kysely<T>): Promise<string> {
  const { rows } = await sql<{ who: string }>`
    select format('process %s (%s, %s, its transaction is open for %s s)', a.pid, a.usename,
      coalesce(nullif(a.application_name, ''), 'unnamed'),
        extract(epoch from now() - a.xact_start)::int) as who
    from pg_stat_activity a
    where a.pid <> pg_backend_pid() and a.xact_start is not null and exists (
      select from pg_locks l join pg_class c on c.oid = l.relation
      where l.pid = a.pid and l.granted
        and c.relnamespace in (select oid from pg_namespace
          where nspname in ('fulfilment', 'sync')))
      and a.application_name <> 'fulfilment-sync migrate'
    order by a.xact_start
    limit 3`.execute(db);
  return rows.map(({ who }) => who).join(', ');
}

/** Reports every 10 seconds how much of each index is built, until it is stopped. */
function reportIndexProgress<T>(
  db: Kysely<T>,
  tell: (line: string) => void,
): { stop: () => Promise<void> } {
  const ended = new AbortController();

  const report = async () => {
    for (;;) {
      await pause(reportEveryMs, undefined, { signal: ended.signal });
      for (const line of await readIndexProgress(db)) tell(line);
    }
  };
  const reporting = report().catch((error: unknown) => {
    if (!ended.signal.aborted) tell(`cannot read the progress: ${String(error)}`);
  });

  return {
    stop: async () => {
      ended.abort();
      await reporting;
    },
  };
}

/** Describes each index that is being built. */
async function readIndexProgress<T>(db: Kysely<T>): Promise<string[]> {
  const { rows } = await sql<{ line: string }>`
    select format('%s: %s%s', p.index_relid::regclass, p.phase,
      case when p.blocks_total > 0 then format(' (%s %%)',
        100 * p.blocks_done / p.blocks_total) end) as line
    from pg_stat_progress_create_index p
    where p.datname = current_database()`.execute(db);
  return rows.map(({ line }) => line);
}

/** A receiver of progress, one line per call. */
export type ProgressReporter = (line: string) => void;

/**
 * Time that one attempt waits for a table. During that time every other statement on the table
 * waits behind it.
 */
const lockTimeout = '1s';

const maxAttempts = 600;

/**
 * Applies the missing migrations: each in its own transaction, or online if the file says so. If
 * two processes migrate at once, the second one waits and then finds nothing to do. If a table is
 * in use, each attempt waits for one second only, so that no other statement waits behind the
 * migration for longer.
 * @param version version of this code, which is recorded with each migration
 * @param how `tell` receives progress; `files` defaults to those of migrations/
 * @returns the names applied by this call
 * @throws SchemaError if the database has a migration that this code does not know
 *   (`code_too_old`), if the role may not create schemas (`rights_missing`), or if a table stays in
 *   use (`tables_in_use`); the error of the migration itself if one fails
 */
export async function migrate<T>(
  db: Kysely<T>,
  version: string,
  how: {
    readonly tell?: ProgressReporter | undefined;
    readonly files?: readonly MigrationFile[];
  } = {},
): Promise<string[]> {
  const { tell = () => {}, files = await readKnownMigrations() } = how;
  await assertPostgresFits(db);
  await createTables(db);

  return withMigrationLock(db, tell, async () => {
    const missing = await findMissingMigrations(db, files);

    for (const file of missing) {
      const apply = file.online ? applyOnline : applyInTransaction;
      const startedAtMs = performance.now();
      await apply(db, file, version, tell);

      const tenths = Math.round((performance.now() - startedAtMs) / 100);
      tell(`${file.name}: done in ${tenths / 10} s`);
    }

    return missing.map(({ name }) => name);
  });
}

/** Creates the records of migrations and of what they made, and the table that they lock. */
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
      await sql`create table if not exists sync.schema_parts (part text primary key)`.execute(db);

      // The comment comes with the table: later it would wait for the lock of another migration.
      await sql`
        do $$ begin
          if to_regclass('sync.migration_lock') is null then
            create table sync.migration_lock ();
            comment on table sync.migration_lock is
              'Has no columns. A migration locks it, so that no two run at once';
          end if;
        end $$`.execute(db);

      return;
    } catch (error) {
      if (readSqlState(error) === '42501') throw await nameMissingRight(db);
      // IF NOT EXISTS still fails if two sessions create at the same moment. The next attempt finds
      // what the other created.
      if (attempt === 5 || !['23505', '42P06', '42P07', '42710'].includes(readSqlState(error)))
        throw error;
    }
}

/** Makes the error of a role that may not create schemas. */
async function nameMissingRight<T>(db: Kysely<T>): Promise<SchemaError> {
  const { rows } = await sql<{ name: string; grant: string }>`
    select current_database() as name,
      format('grant create on database %I to %I', current_database(), current_user) as grant
    `.execute(db);
  const { name = '', grant = '' } = rows[0] ?? {};

  const message = `This role may not create schemas in the database ${name}`;
  const remedy = `migrate as the role of the workers; if it is this one, as a superuser: ${grant}`;
  return new SchemaError('rights_missing', message, { remedy });
}

/** Records a migration as applied. */
async function recordMigration<T>(db: Kysely<T>, name: string, version: string): Promise<void> {
  await sql`insert into sync.migrations (name, applied_by) values (${name}, ${version})`.execute(
    db,
  );
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
        await recordSchemaParts(trx, () => sql.raw(text).execute(trx));
        await recordMigration(trx, name, version);
      });
      return;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;

      const blockers = await findBlockers(db);
      const users = blockers === '' ? '' : ` by ${blockers}`;
      const inUse = `${name}: a table that it changes is in use${users}`;
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
 * Applies a migration statement by statement while others read and write. Waits for transactions
 * that began earlier.
 */
async function applyOnline<T>(
  db: Kysely<T>,
  { name, text }: MigrationFile,
  version: string,
  tell: ProgressReporter,
) {
  tell(`${name}: builds indexes online; it waits for transactions that began earlier …`);
  const progress = reportIndexProgress(db, (line) => tell(`${name}: ${line}`));

  try {
    await db.connection().execute(async (connection) => {
      await sql`set lock_timeout = 0`.execute(connection);

      try {
        for (const statement of splitStatements(text))
          await recordSchemaParts(connection, () => sql.raw(statement).execute(connection));
        await recordMigration(connection, name, version);
      } finally {
        await sql.raw(`set lock_timeout = ${pinnedSettings.lock_timeout}`).execute(connection);
      }
    });
  } finally {
    await progress.stop();
  }
}
