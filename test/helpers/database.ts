import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, inject } from 'vitest';
import { connectDatabase, openLeaseKeeper } from '../../src/app/deps/database.ts';
import { silentLogger } from '../../src/app/logging/logger.ts';
import { type Database, openDatabase, poolConfig } from '../../src/erp/connect.ts';
import type { LeaseKeeper } from '../../src/erp/leases.ts';
import { templateName } from './global-setup.ts';
import { waitFor } from './wait.ts';

/** A database of one test: a copy of the migrated template, dropped afterwards. */
export interface TestDatabase {
  readonly url: string;
  readonly db: Database;
  /** Runs one statement with pg itself; rows as pg gives them. */
  readonly query: <T extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<T[]>;
  /** A further pool on it, which the test's end closes. */
  readonly open: (max?: number) => Database;
  /** The connections that a worker runs jobs with; opened once for a test, as a worker does. */
  readonly forRuns: () => { readonly db: Database; readonly keeper: LeaseKeeper };
  /** Closes the connections of `forRuns` early: what their sessions wrote is in Postgres' statistics then. */
  readonly endRuns: () => Promise<void>;
}

async function maintain(text: string): Promise<void> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/** Gives every test of the file its own database. Connections that a test leaves open fail it. */
export function useDatabase({ migrated = true } = {}): TestDatabase {
  let url = '';
  let name = '';
  let pools: pg.Pool[] = [];
  const pool = () => pools[0] as pg.Pool;
  let db: Database;
  let runs: { db: Database; keeper: LeaseKeeper; close: () => Promise<unknown> } | null = null;
  const endRuns = async () => {
    const ended = runs;
    runs = null;
    await ended?.close();
  };
  beforeEach(async () => {
    name = `test_${randomBytes(6).toString('hex')}`;
    await maintain(`create database ${name} ${migrated ? `template ${templateName}` : ''}`);
    const address = new URL(inject('postgresUrl'));
    address.pathname = `/${name}`;
    url = address.href;
    pools = [new pg.Pool(poolConfig(url, 'test', 6))];
    db = openDatabase(pool());
  });
  afterEach(async () => {
    await Promise.all([endRuns(), ...pools.map((open) => open.end())]);
    try {
      await waitFor('all connections to be closed', async () => (await connectionsTo(name)) === 0, 5_000);
    } finally {
      await maintain(`drop database ${name} with (force)`);
    }
  });
  return {
    get url() {
      return url;
    },
    get db() {
      return db;
    },
    query: async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []) =>
      (await pool().query<T>(text, values)).rows,
    open: (max = 4) => {
      const further = new pg.Pool(poolConfig(url, 'test further', max));
      pools.push(further);
      return openDatabase(further);
    },
    forRuns: () => {
      if (runs === null) {
        const main = connectDatabase(url, silentLogger);
        const leases = openLeaseKeeper(url, silentLogger);
        runs = { db: main.db, keeper: leases.keeper, close: () => Promise.all([leases.close(), main.close()]) };
      }
      return runs;
    },
    endRuns,
  };
}

async function connectionsTo(name: string): Promise<number> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  try {
    const { rows } = await client.query('select count(*)::int as count from pg_stat_activity where datname = $1', [
      name,
    ]);
    return rows[0].count;
  } finally {
    await client.end();
  }
}
