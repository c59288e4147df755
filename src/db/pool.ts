/**
 * This room: connections to the ERP's Postgres, transactions, locks by name, notifications and
 * migrations. Each session has time limits, so a frozen process holds no lock for long.
 */

import { Kysely, type Transaction } from 'kysely';
import pg from 'pg';
import { toOrdinaryTime } from '../core/time.ts';
import { ServerDialect, type StatementOptions } from './driver.ts';
import type { DB } from './generated/tables.ts';
import { placeSetting, toPlace } from './place.ts';
import { ServerClient } from './server-client.ts';
import {
  formatTransactionBegin,
  pinnedSettings,
  prepareSession,
  sessionTimeoutMs,
} from './session-settings.ts';

/**
 * Settings of sessions that prepare their statements. A prepared plan may be made while the tables
 * are still empty, and is used when they are large. Therefore each row is found by an index, one
 * after the other, and the first rows by the index that has their order: that is right for the few
 * hundred rows of any statement, and needs no statistics. With statistics, Postgres would plan long
 * statements at each execution, which takes longer than the execution itself.
 */
const keyedPlanSettings = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_sort: 'off',
  enable_indexscan: 'on',
  enable_nestloop: 'on',
  plan_cache_mode: 'force_generic_plan',
};

/**
 * Idle time after which the system sends a keep-alive probe to the other side. The system's default
 * is two hours.
 */
export const keepAliveInitialDelayMillis = 10_000;

/** The database, as all our SQL uses it. Its row types are generated from the migrated schema. */
export type Database = Kysely<DB>;

/** A transaction of the ERP database. */
export type DatabaseTransaction = Transaction<DB>;

/**
 * Time after which an unused connection is closed. The polls of one client use a connection more
 * often than that: opening one costs more CPU than a poll that finds nothing new.
 */
export const idleTimeoutMillis = 60_000;

/**
 * Parsers of column values. A bigint becomes a number: ids are checked to be safe integers before
 * they are stored. A date stays text, because it has no time zone. Numerics keep pg's default.
 */
const typeParsers: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === pg.types.builtins.INT8) return Number;
    if (oid === pg.types.builtins.DATE) return (text: string) => text;
    if (oid === pg.types.builtins.TIMESTAMPTZ && format !== 'binary') return readTime;

    return format === 'binary'
      ? pg.types.getTypeParser(oid, 'binary')
      : pg.types.getTypeParser(oid, 'text');
  }) as pg.CustomTypesConfig['getTypeParser'],
};

const parseTime = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ, 'text');

/**
 * Reads a time. Postgres has times that a Date cannot hold, such as infinity and the year 294276.
 */
function readTime(text: string): Date | null {
  const read: unknown = parseTime(text);

  if (read === null) return null;
  const ms = Number(read);
  if (!Number.isNaN(ms)) return toOrdinaryTime(ms);

  return toOrdinaryTime(text.endsWith('BC') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY);
}

/**
 * Returns the server's time limit for a statement, a little shorter than the client's. If only the
 * client gave up, the server would continue the statement and keep its locks.
 */
const statementTimeoutMs = (queryTimeoutMs: number) =>
  Math.round(queryTimeoutMs - Math.min(5_000, queryTimeoutMs / 5));

/** Settings of a pool, and how its statements are sent. */
export interface PoolOptions extends pg.PoolConfig, StatementOptions {}

/** What a pool is for. */
export interface PoolUse {
  /** Part of `application_name`. */
  readonly name: string;
  /** Maximum number of connections. */
  readonly max: number;
  readonly queryTimeoutMs?: number;
  /** Maximum milliseconds that a statement waits for a lock. */
  readonly lockTimeoutMs?: number;
  /**
   * True if sessions prepare each statement, so that Postgres plans it once per connection. This is
   * for work that repeats few statements. Nothing is prepared behind a pooler that gives each
   * transaction another session.
   */
  readonly prepares?: boolean;
  /**
   * True if a connection that takes no writes is refused. During a failover, a connection may be
   * read-only.
   */
  readonly writes?: boolean;
  /**
   * URL of Postgres itself, if the pool leads to a pooler that may give each transaction another
   * session: then every transaction sets what it needs.
   */
  readonly directUrl?: string | null;
  /**
   * True if a connection is ended after some seconds without an answer, unless the server works on
   * its statement.
   */
  readonly findsSilence?: boolean;
}

/** Returns the settings of a pool. The queue uses another pool. */
export function makePoolConfig(
  databaseUrl: string,
  {
    name,
    max,
    queryTimeoutMs = 60_000,
    lockTimeoutMs = sessionTimeoutMs,
    prepares = false,
    writes = false,
    directUrl = null,
    findsSilence = false,
  }: PoolUse,
): PoolOptions {
  const pooled = directUrl !== null;
  const settings = {
    ...pinnedSettings,
    // Our statements touch a few hundred rows each: compiling one would take longer than its
    // execution.
    jit: 'off',
    lock_timeout: String(lockTimeoutMs),

    statement_timeout: String(statementTimeoutMs(queryTimeoutMs)),
    ...(prepares && !pooled ? keyedPlanSettings : {}),
    [placeSetting]: toPlace(directUrl ?? databaseUrl),
  };
  const onConnect = async (client: pg.ClientBase) => {
    const process = await prepareSession(client, settings, writes);
    if (findsSilence && client instanceof ServerClient) client.findSilence(process);
  };

  return {
    prepares: prepares && !pooled,
    connectionString: databaseUrl,
    ...(pooled ? { transactionBegin: formatTransactionBegin(settings) } : { onConnect }),
    max,
    types: typeParsers,
    application_name: `fulfilment-sync ${name}`,
    connectionTimeoutMillis: 10_000,
    // A network that drops packets gives no error. Without this limit a query would wait until the
    // system gives up.
    query_timeout: queryTimeoutMs,
    idleTimeoutMillis,
    keepAlive: true,
    keepAliveInitialDelayMillis,
  };
}

/** Opens the database on a pool. The caller ends the pool. */
export function openDatabase(pool: pg.Pool, options: StatementOptions = {}): Database {
  return new Kysely<DB>({ dialect: new ServerDialect(pool, options) });
}
