/**
 * This folder: connections to the ERP's Postgres, transactions, locks by name and notifications. Each session has
 * time limits, so a frozen process holds no lock for long.
 */

import { randomUUID } from 'node:crypto';
import { Kysely, PostgresAdapter, PostgresDialect } from 'kysely';
import pg from 'pg';
import { CodedError, hasCode, isUncoded } from '../../core/errors.ts';
import { toOrdinaryTime } from '../../core/time.ts';
import { findTlsError } from '../../core/tls-error.ts';
import type { DB } from '../generated/tables.ts';

/** Maximum number of statements that a process prepares. A session keeps a plan for each of them. */
const maxStatements = 300;

/** Makes names unique for this process: a pooler may give the session of a former process to this one. */
const processName = randomUUID().slice(0, 8);
const names = new Map<string, string>();

/**
 * Returns the name under which sessions prepare a statement, so that Postgres parses and plans it once and not at each
 * execution. Returns undefined if too many statements have a name already: then it is planned at each execution.
 */
function findStatementName(text: string): string | undefined {
  const known = names.get(text);
  if (known !== undefined || names.size >= maxStatements) return known;
  const name = `${processName}-${names.size}`;
  names.set(text, name);
  return name;
}

/**
 * Settings of sessions that prepare their statements. A prepared plan may be made while the tables are still empty, and
 * is used when they are large. Therefore each row is found by an index, one after the other, and the first rows by the
 * index that has their order: that is right for the few hundred rows of any statement, and needs no statistics. With
 * statistics, Postgres would plan long statements at each execution, which takes longer than the execution itself.
 */
const keyedPlanSettings = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_sort: 'off',
  plan_cache_mode: 'force_generic_plan',
};

/** Makes a connection prepare each statement with values under a name. */
function prepareStatements(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...given: unknown[]) => unknown;
  const prepared = (...given: unknown[]) => {
    const [text, values, ...rest] = given;
    const name =
      typeof text === 'string' && Array.isArray(values) && values.length > 0 ? findStatementName(text) : undefined;
    return name === undefined ? query(...given) : query({ name, text, values }, ...rest);
  };
  client.query = prepared as typeof client.query;
}

/** Idle time after which the system sends a keep-alive probe to the other side. The system's default is two hours. */
export const keepAliveInitialDelayMillis = 10_000;

/** The database, as all our SQL uses it. Its row types are generated from the migrated schema. */
export type Database = Kysely<DB>;

/**
 * Limit of the time that a session idles in a transaction or waits for a lock. A frozen worker keeps no lock longer.
 */
const sessionTimeoutMs = 5_000;

/**
 * Time after which an unused connection is closed. The polls of one client use a connection more often than that: opening
 * one costs more CPU than a poll that finds nothing new.
 */
export const idleTimeoutMillis = 60_000;

/**
 * Parsers of column values. A bigint becomes a number: ids are checked to be safe integers before they are stored. A
 * date stays text, because it has no time zone. Numerics keep pg's default.
 */
const typeParsers: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === pg.types.builtins.INT8) return Number;
    if (oid === pg.types.builtins.DATE) return (text: string) => text;
    if (oid === pg.types.builtins.TIMESTAMPTZ && format !== 'binary') return readTime;
    return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text');
  }) as pg.CustomTypesConfig['getTypeParser'],
};

const parseTime = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ, 'text');

/** Reads a time. Postgres has times that a Date cannot hold, such as infinity and the year 294276. */
function readTime(text: string): Date | null {
  const read: unknown = parseTime(text);
  if (read === null) return null;
  const ms = Number(read);
  if (!Number.isNaN(ms)) return toOrdinaryTime(ms);

  return toOrdinaryTime(text.endsWith('BC') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY);
}

/**
 * Returns the server's time limit for a statement, a little shorter than the client's. If only the client gave up, the
 * server would continue the statement and keep its locks.
 */
const statementTimeoutMs = (queryTimeoutMs: number) => Math.round(queryTimeoutMs - Math.min(5_000, queryTimeoutMs / 5));

/** Settings of a pool. */
export interface PoolOptions extends pg.PoolConfig {
  /** True if sessions prepare each statement, so that Postgres plans it only once. */
  readonly prepares?: boolean;
  /** Statements that set up each transaction, if sessions are shared with other programs. */
  readonly transactionSetup?: string;
}

/** What a pool is for. */
interface PoolUse {
  /** Part of `application_name`. */
  readonly name: string;
  /** Maximum number of connections. */
  readonly max: number;
  readonly queryTimeoutMs?: number;
  /** True if sessions prepare each statement. */
  readonly prepares?: boolean;
  /** True if a connection that takes no writes is refused. During a failover, a connection may be read-only. */
  readonly writes?: boolean;
  /** True if a pooler may give each transaction another session: then every transaction sets what it needs. */
  readonly pooled?: boolean;
}

/**
 * Returns the settings of a pool. The queue uses another pool. The time zone is UTC, so that a timestamp without a zone
 * has one meaning.
 */
export function makePoolConfig(
  databaseUrl: string,
  { name, max, queryTimeoutMs = 60_000, prepares = false, writes = false, pooled = false }: PoolUse,
): PoolOptions {
  const settings = {
    timezone: 'UTC',
    search_path: 'pg_catalog',
    // Our statements touch a few hundred rows each: compiling one would take longer than its execution.
    jit: 'off',
    idle_in_transaction_session_timeout: String(sessionTimeoutMs),
    lock_timeout: String(sessionTimeoutMs),
    statement_timeout: String(statementTimeoutMs(queryTimeoutMs)),
    ...(prepares ? keyedPlanSettings : {}),
  };
  return {
    prepares,
    connectionString: databaseUrl,
    ...(pooled
      ? { transactionSetup: formatTransactionSetup(settings) }
      : { onConnect: (client: pg.ClientBase) => prepareSession(client, settings, writes) }),
    max,
    types: typeParsers,
    application_name: `fulfilment-sync ${name}`,
    connectionTimeoutMillis: 10_000,
    // A network that drops packets gives no error. Without this limit a query would wait until the system gives up.
    query_timeout: queryTimeoutMs,
    idleTimeoutMillis,
    keepAlive: true,
    keepAliveInitialDelayMillis,
  };
}

/**
 * Sets the settings of a new session. They are no startup parameters, because a pooler such as pgbouncer refuses those.
 * @param writes true if a session that takes no writes is refused
 * @throws CodedError `database_read_only`
 */
export async function prepareSession(
  client: pg.ClientBase,
  settings: Readonly<Record<string, string>>,
  writes: boolean,
): Promise<void> {
  const { rows } = await client.query<{ readOnly: string }>(
    `select pg_catalog.set_config(s.name, s.value, false),
       pg_catalog.current_setting('transaction_read_only') as "readOnly"
     from pg_catalog.json_each_text($1) as s (name, value)`,
    [JSON.stringify(settings)],
  );
  if (writes && rows[0]?.readOnly === 'on')
    throw new CodedError(
      'database_read_only',
      'the database takes no writes at present; DATABASE_URL must lead to the primary',
    );
}

/** Returns statements that set up a transaction. The settings end with it, so other programs never have them. */
const formatTransactionSetup = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `set local ${name} = '${value}'`)
    .join('; ');

/**
 * Makes a connection set up each transaction. A statement outside of transactions gets one of its own, which takes two
 * more round trips.
 */
function setUpTransactions(client: pg.PoolClient, setup: string): void {
  const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>;
  let isOpen = false;
  const begin = async () => {
    try {
      const [begun] = (await query(`begin; ${setup}`)) as readonly unknown[];
      return begun;
    } catch (error) {
      await query('rollback');
      throw error;
    }
  };
  const within = async (...given: unknown[]) => {
    const [text] = given;
    if (text === 'begin') {
      const begun = await begin();
      isOpen = true;
      return begun;
    }
    if (isOpen) {
      if (text === 'commit' || text === 'rollback') isOpen = false;
      return query(...given);
    }
    await begin();
    try {
      const result = await query(...given);
      await query('commit');
      return result;
    } catch (error) {
      await query('rollback');
      throw error;
    }
  };
  client.query = within as typeof client.query;
}

/** Returns the error of a connection that broke or did not open in time. pg gives such errors no code. */
const toLostError = (cause: Error) =>
  new CodedError(
    'database_lost',
    'the database does not answer; check that it runs and that DATABASE_URL leads to it',
    {
      cause,
    },
  );

/** Tolerance for the timers of pg: they may fire a little before the time that we measure. */
const timerSlackMs = 50;

/** Returns whether the connection has ended. A wrong password does not end it; pg's error is kept then. */
const hasEnded = (client: pg.ClientBase) => {
  const { stream } = (client as pg.Client).connection;
  return stream.destroyed || stream.readableEnded;
};

/** A client whose `connect` fails with `database_lost` if the connection ends, and `tls_failed` if TLS is the reason. */
export class WatchedClient extends pg.Client {
  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    const toCodedError = (error: unknown) =>
      findTlsError(error, 'postgres') ?? (isUncoded(error) && hasEnded(this) ? toLostError(error) : error);
    if (callback !== undefined) {
      super.connect((error: Error) => callback(toCodedError(error) as Error));
      return undefined;
    }
    return super.connect().catch((error: unknown) => {
      throw toCodedError(error);
    });
  }
}

/**
 * Makes a pool. If a connection is lost, its errors have the code `database_lost`. If a query has no answer in time,
 * its connection is ended: pg would continue to use it, and every later query on it would wait in vain.
 */
export function makePool({ prepares = false, transactionSetup, ...options }: PoolOptions): pg.Pool {
  const pool = new pg.Pool({ ...options, Client: WatchedClient });
  const queryTimeoutMs = options.query_timeout ?? Number.POSITIVE_INFINITY;
  pool.on('connect', (client) => {
    if (prepares) prepareStatements(client);
    watchQueries(client, queryTimeoutMs);
    if (transactionSetup !== undefined) setUpTransactions(client, transactionSetup);
  });
  watchConnects(pool, options.connectionTimeoutMillis ?? Number.POSITIVE_INFINITY);
  return pool;
}

/** Makes the queries of a connection fail with `database_lost` after the connection ended or did not answer in time. */
function watchQueries(client: pg.PoolClient, timeoutMs: number): void {
  const query = client.query.bind(client) as (...given: unknown[]) => unknown;
  let lost: CodedError | undefined;
  const toCodedError = (error: unknown, startedAtMs: number) => {
    if (!isUncoded(error)) return error;
    const isUnanswered = performance.now() - startedAtMs >= timeoutMs - timerSlackMs;
    if (!isUnanswered && !hasEnded(client)) return error;
    const isNew = lost === undefined;
    lost ??= toLostError(error);
    if (isNew && !hasEnded(client)) endLostClient(client, lost);
    return lost;
  };
  const watched = (...given: unknown[]) => {
    const startedAtMs = performance.now();
    const callback = given.at(-1);
    if (typeof callback === 'function')
      return query(...given.slice(0, -1), (error: unknown, result: unknown) =>
        callback(toCodedError(error, startedAtMs), result),
      );
    // Later statements, such as the rollback, fail with the same error.
    if (lost !== undefined) return Promise.reject(lost);
    const result = query(...given);
    if (!(result instanceof Promise)) return result;
    return result.catch((error: unknown) => {
      throw toCodedError(error, startedAtMs);
    });
  };
  client.query = watched as typeof client.query;
}

type ConnectCallback = (error: unknown, ...rest: unknown[]) => void;

/** Makes `connect` fail with `database_lost` if no connection becomes free, or none opens, in time. */
function watchConnects(pool: pg.Pool, timeoutMs: number): void {
  const connect = pool.connect.bind(pool) as (callback?: ConnectCallback) => Promise<pg.PoolClient> | undefined;
  const watched = (callback?: ConnectCallback) => {
    const startedAtMs = performance.now();
    const toCodedError = (error: unknown) => {
      if (!isUncoded(error)) return error;
      const isLate = performance.now() - startedAtMs >= timeoutMs - timerSlackMs;
      return isLate || hasCode(error.cause, 'database_lost') ? toLostError(error) : error;
    };
    if (callback !== undefined) return connect((error, ...rest) => callback(toCodedError(error), ...rest));
    return connect()?.catch((error: unknown) => {
      throw toCodedError(error);
    });
  };
  pool.connect = watched as typeof pool.connect;
}

/** Ends a connection that does not answer, and reports it to its holder. */
function endLostClient(client: pg.PoolClient, error: Error): void {
  // While a query is under way, `end` closes the socket at once. Its promise would wait for the answer, so we do not.
  void (client as pg.Client).end();
  // `end` itself reports no error. A holder such as the queue's listener would keep the dead connection forever.
  client.emit('error', error);
}

/**
 * An adapter without the lock of kysely's migrator. That lock is an advisory lock, which any role may take, and it
 * waits for an hour. `withMigrationLock` replaces it.
 */
class NoMigrationLock extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

class Dialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new NoMigrationLock();
  }
}

/** Opens the database on a pool. The caller ends the pool. */
export function openDatabase(pool: pg.Pool): Database {
  return new Kysely<DB>({ dialect: new Dialect({ pool }) });
}
