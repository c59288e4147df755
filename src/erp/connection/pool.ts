/**
 * Connections to the ERP's Postgres, transactions, locks by name and notifications. Each session has time limits, so a
 * frozen process holds no lock for long.
 */

import { Kysely, PostgresAdapter, PostgresDialect } from 'kysely';
import pg from 'pg';
import { CodedError, hasCode, isUncoded } from '../../core/errors.ts';
import type { DB } from '../generated/tables.ts';

/** After this long without a sign of life the system asks the other side for one; its own default is two hours. */
export const keepAliveInitialDelayMillis = 10_000;

/** All SQL of the product goes through this; row types are generated from the migrated database. */
export type Database = Kysely<DB>;

/** How a page transaction is kept from holding locks for long after its worker froze. */
const sessionTimeoutMs = 5_000;

/**
 * Column values as this product wants them: bigint as a number (ids are checked to be safe integers before they are
 * stored), date as the text it is rather than a moment in some zone. Times and numerics keep pg's defaults.
 */
const typeParsers: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === pg.types.builtins.INT8) return Number;
    if (oid === pg.types.builtins.DATE) return (text: string) => text;
    return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text');
  }) as pg.CustomTypesConfig['getTypeParser'],
};

/**
 * The server ends a statement a little before its answer is given up here: by that alone it would go on, and keep its
 * locks, with nobody there to hear of it.
 */
const statementTimeoutMs = (queryTimeoutMs: number) => Math.round(queryTimeoutMs - Math.min(5_000, queryTimeoutMs / 5));

/**
 * Merges the `options` of a database URL with ours. pg would take those of the URL instead of ours: the session would have no
 * lock_timeout and another search_path. If both set the same parameter, ours wins.
 */
export function mergeOptions(
  databaseUrl: string,
  ours: readonly string[],
): Pick<pg.PoolConfig, 'connectionString' | 'options'> {
  // Node cannot parse a URL without a host, as Postgres allows for a socket.
  const queryAt = databaseUrl.indexOf('?');
  const parameters = new URLSearchParams(queryAt < 0 ? '' : databaseUrl.slice(queryAt + 1));
  const theirs = parameters.getAll('options');
  if (theirs.length === 0) return { connectionString: databaseUrl, options: ours.join(' ') };
  parameters.delete('options');
  return {
    connectionString: `${databaseUrl.slice(0, queryAt)}?${parameters}`,
    options: [...theirs, ...ours].join(' '),
  };
}

/** Settings of every pool of the product's own (the queue has another). Zone UTC, so that a text has one meaning. */
export function poolConfig(databaseUrl: string, name: string, max: number, queryTimeoutMs = 60_000): pg.PoolConfig {
  return {
    ...mergeOptions(databaseUrl, [
      '-c timezone=UTC',
      '-c search_path=pg_catalog',
      `-c idle_in_transaction_session_timeout=${sessionTimeoutMs}`,
      `-c lock_timeout=${sessionTimeoutMs}`,
      `-c statement_timeout=${statementTimeoutMs(queryTimeoutMs)}`,
    ]),
    max,
    types: typeParsers,
    application_name: `fulfilment-sync ${name}`,
    connectionTimeoutMillis: 10_000,
    // A network that swallows packets gives no error; without this a query would wait for the system to give up.
    query_timeout: queryTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis,
  };
}

/** The error of a connection that is of no use, or was not to be had in time. pg gives such errors no code. */
const lostError = (cause: Error) => new CodedError('database_lost', 'the database gives no answer', { cause });

/** Timers of pg may fire a little before the time that is measured here. */
const timerSlackMs = 50;

/** Whether the connection has ended. A wrong password or a missing TLS does not end it, and keeps its own words. */
const hasEnded = (client: pg.ClientBase) => {
  const { stream } = (client as pg.Client).connection;
  return stream.destroyed || stream.readableEnded;
};

/** A client whose connection attempts fail with `database_lost` if the connection ends or is not there in time. */
class WatchedClient extends pg.Client {
  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    const typed = (error: unknown) => (isUncoded(error) && hasEnded(this) ? lostError(error) : error);
    if (callback !== undefined) {
      super.connect((error: Error) => callback(typed(error) as Error));
      return undefined;
    }
    return super.connect().catch((error: unknown) => {
      throw typed(error);
    });
  }
}

/**
 * Makes a pool. Errors of its connections have the code `database_lost`. A connection on which a query had no answer in time is
 * ended: pg would go on using it, and every later query on it would wait in vain as well.
 */
export function makePool(options: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ ...options, Client: WatchedClient });
  const queryTimeoutMs = options.query_timeout ?? Number.POSITIVE_INFINITY;
  pool.on('connect', (client) => watchQueries(client, queryTimeoutMs));
  watchConnects(pool, options.connectionTimeoutMillis ?? Number.POSITIVE_INFINITY);
  return pool;
}

function watchQueries(client: pg.PoolClient, timeoutMs: number): void {
  const query = client.query.bind(client) as (...given: unknown[]) => unknown;
  let lost: CodedError | undefined;
  const typed = (error: unknown, startedAtMs: number) => {
    if (!isUncoded(error)) return error;
    const isUnanswered = performance.now() - startedAtMs >= timeoutMs - timerSlackMs;
    if (!isUnanswered && !hasEnded(client)) return error;
    const isNew = lost === undefined;
    lost ??= lostError(error);
    if (isNew && !hasEnded(client)) giveUp(client, lost);
    return lost;
  };
  const watched = (...given: unknown[]) => {
    const startedAtMs = performance.now();
    const callback = given.at(-1);
    if (typeof callback === 'function')
      return query(...given.slice(0, -1), (error: unknown, result: unknown) =>
        callback(typed(error, startedAtMs), result),
      );
    // What follows, such as the rollback, fails for the same reason, and says so.
    if (lost !== undefined) return Promise.reject(lost);
    const result = query(...given);
    if (!(result instanceof Promise)) return result;
    return result.catch((error: unknown) => {
      throw typed(error, startedAtMs);
    });
  };
  client.query = watched as typeof client.query;
}

type ConnectCallback = (error: unknown, ...rest: unknown[]) => void;

/** For callers that wait for a free connection in vain, and for connections that are not there in time. */
function watchConnects(pool: pg.Pool, timeoutMs: number): void {
  const connect = pool.connect.bind(pool) as (callback?: ConnectCallback) => Promise<pg.PoolClient> | undefined;
  const watched = (callback?: ConnectCallback) => {
    const startedAtMs = performance.now();
    const typed = (error: unknown) => {
      if (!isUncoded(error)) return error;
      const isLate = performance.now() - startedAtMs >= timeoutMs - timerSlackMs;
      return isLate || hasCode(error.cause, 'database_lost') ? lostError(error) : error;
    };
    if (callback !== undefined) return connect((error, ...rest) => callback(typed(error), ...rest));
    return connect()?.catch((error: unknown) => {
      throw typed(error);
    });
  };
  pool.connect = watched as typeof pool.connect;
}

/**
 * For new connections of whoever has to write.
 * @throws CodedError where the server takes no writes on it
 */
export async function assertTakesWrites(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ transaction_read_only: string }>('show transaction_read_only');
  if (rows[0]?.transaction_read_only === 'on')
    throw new CodedError(
      'database_read_only',
      'the database takes no writes at present; DATABASE_URL must lead to the primary',
    );
}

function giveUp(client: pg.PoolClient, error: Error): void {
  // With a query under way the socket is closed at once; waiting for that to be over would be waiting for the answer.
  void (client as pg.Client).end();
  // One that is ended tells nobody, and whoever keeps it, as the queue does to listen, would keep it for good.
  client.emit('error', error);
}

/** Replaces the lock of kysely's migrator: it uses an advisory key, which any role may take, and waits for an hour. */
class OwnMigrationLock extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

class Dialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new OwnMigrationLock();
  }
}

/** Wraps a pool; the pool stays its maker's to end. */
export function openDatabase(pool: pg.Pool): Database {
  return new Kysely<DB>({ dialect: new Dialect({ pool }) });
}
