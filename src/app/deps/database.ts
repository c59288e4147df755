/**
 * Opens Postgres, Redis and the clients' services. Each function returns what it opened together with a `close`.
 */

import { hostname } from 'node:os';
import type pg from 'pg';
import { Listener } from '../../erp/connection/listener.ts';
import { type Database, makePool, makePoolConfig, openDatabase, type PoolOptions } from '../../erp/connection/pool.ts';
import { LeaseKeeper } from '../../erp/runs/leases.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';

const databasePoolSize = 12;
/** Timeout of a heartbeat in milliseconds. It is shorter than a lease, so that a missing answer is noticed in time. */
const heartbeatTimeoutMs = 5_000;

/** A database whose pool the caller has to close. */
export interface OpenDatabase {
  readonly db: Database;
  readonly close: () => Promise<void>;
}

/** Opens the ERP database. A connection that breaks while idle is logged and replaced; the process continues. */
export function connectDatabase(
  databaseUrl: string,
  log: Logger,
  name = 'main',
  max = databasePoolSize,
  queryTimeoutMs = 60_000,
): OpenDatabase {
  return toOpenDatabase(openPool(makePoolConfig(databaseUrl, { name, max, queryTimeoutMs }), log));
}

/**
 * Opens the ERP database for work that must write. A new connection that takes no writes is closed at once, because the
 * pool would otherwise keep it. During a failover, a connection may be read-only.
 * @param prepares true if Postgres plans each statement once per connection, for work that repeats few statements
 */
export function connectForWriting(
  databaseUrl: string,
  log: Logger,
  name = 'main',
  max = databasePoolSize,
  queryTimeoutMs = 60_000,
  prepares = false,
): OpenDatabase {
  const config = makePoolConfig(databaseUrl, { name, max, queryTimeoutMs, prepares, writes: true });
  return toOpenDatabase(openPool(config, log));
}

const toOpenDatabase = (pool: pg.Pool): OpenDatabase => ({ db: openDatabase(pool), close: () => pool.end() });

/** Opens a pool whose broken connections are logged and replaced. */
export function openPool(options: PoolOptions, log: Logger): pg.Pool {
  const pool = makePool(options);
  const warn = throttleWarnings(log);
  const logLostConnection = (error: Error) => warn({ event: 'database_connection_lost', ...errorFields(error) });
  pool.on('error', logLostConnection);
  // The pool listens only to idle connections. A connection that breaks while in use fails its query, which is handled
  // there, but the event would end the process if nothing listened to it.
  pool.on('connect', (client) => {
    client.on('error', logLostConnection);
  });
  return pool;
}

/** Opens a separate connection that renews leases. */
export function openLeaseKeeper(databaseUrl: string, log: Logger): OpenDatabase & { readonly keeper: LeaseKeeper } {
  const { db, close } = connectForWriting(databaseUrl, log, 'leases', 1, heartbeatTimeoutMs);
  return {
    keeper: new LeaseKeeper(db, (error) => log.warn({ event: 'heartbeat_failed', ...errorFields(error) })),
    db,
    close,
  };
}

/** Listens to a channel of the ERP database until it is closed. */
export function openListener(
  databaseUrl: string,
  channel: string,
  onNotify: (payload: string) => void,
  log: Logger,
): Listener {
  const warn = throttleWarnings(log);
  const onError = (error: Error) => warn({ event: 'listen_connection_lost', ...errorFields(error) });
  return new Listener({ databaseUrl, channel, onNotify, onError });
}

/** Returns the name of this worker in leases and in `sync.runs`: host name and process id. */
export function workerName(): string {
  return `${hostname()}:${process.pid}`;
}
