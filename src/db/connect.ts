/** Opens Postgres. Each function returns what it opened together with a `close`. */

import { hostname } from 'node:os';
import type { Config } from '../../config/env.ts';
import { errorFields, type Logger, throttleWarnings } from '../core/logger.ts';
import { Listener } from './listener.ts';
import {
  type Database,
  makePoolConfig,
  openDatabase,
  type PoolOptions,
  type PoolUse,
} from './pool.ts';
import { ServerPool } from './server-client.ts';

const databasePoolSize = 4;

/**
 * Where connections lead: to Postgres itself, or to a pooler that may give each transaction another
 * session.
 */
export type DatabaseAddress = string | { readonly pooled: string; readonly direct: string };

/** Returns where statements and transactions are sent. */
export const toAddress = ({
  DATABASE_URL: url = '',
  DATABASE_DIRECT_URL: direct,
}: Pick<Config, 'DATABASE_URL' | 'DATABASE_DIRECT_URL'>): DatabaseAddress =>
  direct === undefined ? url : { pooled: url, direct };

/**
 * Returns the URL for what needs sessions of its own: LISTEN, leases, pushes, the queue and
 * migrations.
 */
export const toDirectUrl = ({
  DATABASE_URL: url = '',
  DATABASE_DIRECT_URL: direct = url,
}: Pick<Config, 'DATABASE_URL' | 'DATABASE_DIRECT_URL'>): string => direct;

/** A database whose pool the caller has to close. */
export interface OpenDatabase {
  readonly db: Database;
  readonly close: () => Promise<void>;
}

/** What connections are for. By default, their name is `main`, and there are at most four. */
type ConnectionUse = Partial<Omit<PoolUse, 'writes' | 'directUrl'>>;

/**
 * Opens the ERP database. A connection that breaks while idle is logged and replaced; the process
 * continues.
 */
export function connectDatabase(
  address: DatabaseAddress,
  log: Logger,
  use: ConnectionUse & Pick<PoolUse, 'writes'> = {},
): OpenDatabase {
  const isDirect = typeof address === 'string';
  const url = isDirect ? address : address.pooled;
  const directUrl = isDirect ? null : address.direct;

  const options = makePoolConfig(url, { name: 'main', max: databasePoolSize, ...use, directUrl });
  const pool = openPool(options, log);

  return { db: openDatabase(pool, options), close: () => pool.end() };
}

/**
 * Opens the ERP database for work that must write. A new connection that takes no writes is closed
 * at once, because the pool would otherwise keep it. During a failover, a connection may be
 * read-only.
 */
export const connectForWriting = (
  address: DatabaseAddress,
  log: Logger,
  use: ConnectionUse = {},
): OpenDatabase => connectDatabase(address, log, { ...use, writes: true });

/** Opens a pool whose broken connections are logged and replaced. */
export function openPool(options: PoolOptions, log: Logger): ServerPool {
  const pool = new ServerPool(options);
  const warn = throttleWarnings(log);
  const logLostConnection = (error: Error) =>
    warn({ event: 'database_connection_lost', ...errorFields(error) });

  pool.on('error', logLostConnection);
  // The pool listens only to idle connections. A connection that breaks while in use fails its
  // query, which is handled there, but the event would end the process if nothing listened to it.
  pool.on('connect', (client) => {
    client.on('error', logLostConnection);
  });

  return pool;
}

/** Listens to a channel of the ERP database until it is closed. */
export function openListener(
  databaseUrl: string,
  channel: string,
  onNotify: (payload: string) => void,
  log: Logger,
): Listener {
  const warn = throttleWarnings(log);
  const onError = (error: Error) =>
    warn({ event: 'listen_connection_lost', ...errorFields(error) });
  return new Listener({ databaseUrl, channel, onNotify, onError });
}

/** Returns the name of this worker in leases and in `sync.runs`: host name and process id. */
export function workerName(): string {
  return `${hostname()}:${process.pid}`;
}
