/**
 * Opens Postgres, Redis and the clients' services. Each function returns what it opened together with a `close`.
 */

import { hostname } from 'node:os';
import type pg from 'pg';
import { Listener } from '../../erp/connection/listener.ts';
import { assertTakesWrites, type Database, makePool, openDatabase, poolConfig } from '../../erp/connection/pool.ts';
import { LeaseKeeper } from '../../erp/runs/leases.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { repeatedWarnings } from '../logging/repeated.ts';

const databasePoolSize = 12;
/** Shorter than a lease, so that a heartbeat without an answer is noticed in time. */
const heartbeatTimeoutMs = 5_000;

/** A database with the pool behind it, which its opener ends. */
export interface OpenDatabase {
  readonly db: Database;
  readonly close: () => Promise<void>;
}

/** Opens the ERP database. A connection that breaks while idle is logged, replaced, and no reason to end. */
export function connectDatabase(
  databaseUrl: string,
  log: Logger,
  name = 'main',
  max = databasePoolSize,
  queryTimeoutMs = 60_000,
): OpenDatabase {
  return opened(openPool(poolConfig(databaseUrl, name, max, queryTimeoutMs), log));
}

/**
 * As `connectDatabase`, for work that cannot do without writing: a connection that takes no writes, as one opened in the
 * middle of a failover may, is given up at once, rather than kept and used for as long as it is good for nothing.
 */
export function connectForWriting(
  databaseUrl: string,
  log: Logger,
  name = 'main',
  max = databasePoolSize,
  queryTimeoutMs = 60_000,
): OpenDatabase {
  const config = poolConfig(databaseUrl, name, max, queryTimeoutMs);
  return opened(openPool({ ...config, onConnect: assertTakesWrites }, log));
}

const opened = (pool: pg.Pool): OpenDatabase => ({ db: openDatabase(pool), close: () => pool.end() });

/** Opens a pool whose broken connections are logged and replaced. */
export function openPool(options: pg.PoolConfig, log: Logger): pg.Pool {
  const pool = makePool(options);
  const warn = repeatedWarnings(log);
  const lost = (error: Error) => warn({ event: 'database_connection_lost', ...errorFields(error) });
  pool.on('error', lost);
  // The pool listens only while a client is idle. One that breaks while in use fails its query, which is handled there;
  // without a listener the event alone would end the process.
  pool.on('connect', (client) => {
    client.on('error', lost);
  });
  return pool;
}

/** Keeps leases alive on a connection of its own. */
export function openLeaseKeeper(databaseUrl: string, log: Logger): { keeper: LeaseKeeper; close: () => Promise<void> } {
  const { db, close } = connectForWriting(databaseUrl, log, 'leases', 1, heartbeatTimeoutMs);
  return {
    keeper: new LeaseKeeper(db, (error) => log.warn({ event: 'heartbeat_failed', ...errorFields(error) })),
    close,
  };
}

/** Listens to a channel of the ERP database, for as long as it is not closed. */
export function openListener(
  databaseUrl: string,
  channel: string,
  onNotify: (payload: string) => void,
  log: Logger,
): Listener {
  const warn = repeatedWarnings(log);
  const onError = (error: Error) => warn({ event: 'listen_connection_lost', ...errorFields(error) });
  return new Listener({ databaseUrl, channel, onNotify, onError });
}

/** Names a worker in leases and the ledger. */
export function workerName(): string {
  return `${hostname()}:${process.pid}`;
}
