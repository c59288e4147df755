import type { TestDatabase } from './database.ts';

/**
 * Values that a database or a role may have by `alter database` or `alter role`, each other than
 * what this program needs, and the value that its sessions must have.
 */
export const hostileSettings: Readonly<Record<string, readonly [hostile: string, ours: string]>> = {
  DateStyle: ['German', 'ISO, MDY'],
  IntervalStyle: ['sql_standard', 'postgres'],
  TimeZone: ['Pacific/Chatham', 'UTC'],
  timezone_abbreviations: ['Australia', 'Default'],
  extra_float_digits: ['-15', '1'],
  bytea_output: ['escape', 'hex'],
  client_encoding: ['LATIN1', 'UTF8'],
  standard_conforming_strings: ['off', 'on'],
  transform_null_equals: ['on', 'off'],
  array_nulls: ['off', 'on'],
  quote_all_identifiers: ['on', 'off'],
  check_function_bodies: ['off', 'on'],
  row_security: ['off', 'on'],
  gin_fuzzy_search_limit: ['1', '0'],
  client_min_messages: ['error', 'notice'],
  exit_on_error: ['on', 'off'],
  session_replication_role: ['replica', 'origin'],
  restrict_nonsystem_relation_kind: ['view', ''],
  default_transaction_isolation: ['serializable', 'read committed'],
  default_transaction_deferrable: ['on', 'off'],
  synchronous_commit: ['off', 'on'],
  idle_session_timeout: ['3000', '0'],
  transaction_timeout: ['60000', '0'],
  'plpgsql.extra_errors': ['all', 'none'],
};

/**
 * Gives the database of a test the hostile values that this version of Postgres knows, two of them
 * by its role.
 */
export async function setHostile(
  database: TestDatabase,
  except: readonly string[] = [],
): Promise<void> {
  const known = await database.query<{ name: string }>(
    `select name from unnest($1::text[]) n (name) where current_setting(name, true) is not null or name like 'plpgsql.%'`,
    [Object.keys(hostileSettings)],
  );
  for (const { name } of known.filter((one) => !except.includes(one.name))) {
    const scope = ['DateStyle', 'synchronous_commit'].includes(name)
      ? 'role current_user in database'
      : 'database';
    await database.query(
      `do $$ begin execute format('alter ${scope} %I set ${name} = %L', current_database(), '${hostileSettings[name]?.[0]}'); end $$`,
    );
  }
}
