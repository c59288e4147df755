import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { DB } from './rows.ts';

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

/** Settings of every pool of the product's own (the queue has another). Zone UTC, so that a text has one meaning. */
export function poolConfig(databaseUrl: string, name: string, max: number, queryTimeoutMs = 60_000): pg.PoolConfig {
  return {
    connectionString: databaseUrl,
    max,
    types: typeParsers,
    application_name: `fulfilment-sync ${name}`,
    connectionTimeoutMillis: 10_000,
    // A network that swallows packets gives no error; without this a query would wait for the system to give up.
    query_timeout: queryTimeoutMs,
    keepAlive: true,
    options: [
      '-c timezone=UTC',
      '-c search_path=pg_catalog',
      `-c idle_in_transaction_session_timeout=${sessionTimeoutMs}`,
      `-c lock_timeout=${sessionTimeoutMs}`,
    ].join(' '),
  };
}

/** Wraps a pool; the pool stays its maker's to end. */
export function openDatabase(pool: pg.Pool): Database {
  return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
}
