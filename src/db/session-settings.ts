import pg from 'pg';
import { CodedError } from '../core/errors.ts';
import { readOnlyWords } from '../core/library-messages.ts';

/**
 * Limit of the time that a session idles in a transaction or waits for a lock. A frozen worker
 * keeps no lock longer.
 */
export const sessionTimeoutMs = 5_000;

/**
 * Settings that each of our sessions has, whatever the server, the database or the role say. A
 * setting is here if it changes what a text or a statement means, who sees what, whether a commit
 * survives a crash, or how long a session lives.
 *
 * Left to the operator: the role, where data is stored (tablespaces, table access method,
 * compression), memory, costs and methods of the planner, parallel workers, vacuum, logs,
 * statistics, commit delays and TCP. Without effect on us: settings of XML, text search and `lc_*`
 * (our `to_char` has no pattern of a locale), `backslash_quote` and `escape_string_warning`
 * (standard strings), `synchronize_seqscans` (what needs an order names it).
 * `default_transaction_read_only` is obeyed: operators and hosts stop writes with it, for example
 * if a disk is full. A session cannot change `fsync`, `full_page_writes`, `zero_damaged_pages` and
 * `ignore_checksum_failure`: doctor names them.
 */
export const pinnedSettings = {
  // Forms of values as text, in both directions.
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  timezone_abbreviations: 'Default',
  extra_float_digits: '1',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  // Meaning of statements.
  search_path: 'pg_catalog',
  standard_conforming_strings: 'on',
  transform_null_equals: 'off',
  array_nulls: 'on',
  quote_all_identifiers: 'off',
  gin_fuzzy_search_limit: '0',
  check_function_bodies: 'on',
  'plpgsql.extra_errors': 'none',
  // Rows that are seen, and triggers and foreign keys that work.
  row_security: 'on',
  restrict_nonsystem_relation_kind: '',
  session_replication_role: 'origin',
  // Isolation. Our statements lock what they depend on, and see what was committed before they
  // began.
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  // Durability. A row whose claim or outcome a crash undoes would be sent twice. `local` and
  // `remote_write` are raised, because a standby that takes over must have them, too. A stricter
  // value, `remote_apply`, stays.
  synchronous_commit: 'on',
  // Life of a session and of a statement.
  exit_on_error: 'off',
  client_min_messages: 'notice',
  idle_session_timeout: '0',
  transaction_timeout: '0',
  idle_in_transaction_session_timeout: String(sessionTimeoutMs),
  lock_timeout: String(sessionTimeoutMs),
  statement_timeout: '0',
};

/** Settings of a session by name. */
export type SessionSettings = Readonly<Record<string, string>>;

/**
 * Returns a scalar subquery that makes these settings, of those that the server knows, and our own,
 * whose names have a dot. It changes only what differs: few roles may set
 * `session_replication_role`. It names the schema of all that it calls, because the search_path of
 * the session is not ours yet.
 * @param settings SQL of the settings, a JSON object
 * @param isLocal true if the settings end with the transaction
 */
const formatSetUp = (settings: string, isLocal: boolean) => `(
  select pg_catalog.count(pg_catalog.set_config(s.name, s.value, ${isLocal}))
  from pg_catalog.json_each_text(${settings}) as s (name, value)
  where coalesce(pg_catalog.current_setting(s.name, true),
      case when pg_catalog.strpos(s.name, '.') operator(pg_catalog.>) 0 then '' end)
      operator(pg_catalog.<>) s.value
    and (s.name operator(pg_catalog.<>) 'synchronous_commit'
      or pg_catalog.current_setting(s.name) operator(pg_catalog.<>) 'remote_apply'))`;

/**
 * Sets the settings of a new session. They are no startup parameters, because a pooler such as
 * pgbouncer refuses those.
 * @param writes true if a session that takes no writes is refused
 * @returns the server's process of the session
 * @throws CodedError `database_read_only`, or `database_setting` if the role may not set what it
 *   must
 */
export async function prepareSession(
  client: pg.ClientBase,
  settings: SessionSettings,
  writes: boolean,
): Promise<number> {
  const text = `select ${formatSetUp('$1', false)}, pg_catalog.pg_backend_pid() as pid,
    pg_catalog.current_setting('transaction_read_only') as "readOnly"`;

  const { rows } = await client
    .query<{ pid: number; readOnly: string }>(text, [JSON.stringify(settings)])
    .catch((error: unknown) => {
      throw toRefusal(error);
    });

  if (writes && rows[0]?.readOnly === 'on')
    throw new CodedError('database_read_only', readOnlyWords);
  return rows[0]?.pid ?? 0;
}

/**
 * Returns statements that begin and set up a transaction. The settings end with it, so other
 * programs never have them.
 */
export function formatTransactionBegin(settings: SessionSettings): string {
  const literal = pg.escapeLiteral(JSON.stringify(settings));
  return `begin isolation level read committed; select ${formatSetUp(literal, true)}`;
}

/**
 * Returns the error of a role that may not set a setting: only `session_replication_role` needs a
 * right.
 */
export function toRefusal(error: unknown): unknown {
  if (!(error instanceof pg.DatabaseError && error.code === '42501')) return error;

  const message =
    'the server, database or role sets session_replication_role, ' +
    'with which triggers and foreign keys do not work';
  const remedy =
    'as a superuser: ' +
    'alter database … reset session_replication_role (alter role …, or postgresql.conf)';
  return new CodedError('database_setting', message, { remedy, cause: error });
}
