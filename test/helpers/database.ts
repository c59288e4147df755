import { randomBytes } from 'node:crypto';
import { Socket } from 'node:net';
import pg from 'pg';
import { afterEach, beforeEach, inject } from 'vitest';
import { connectDatabase, openLeaseKeeper } from '../../src/app/deps/database.ts';
import { silentLogger } from '../../src/app/logging/logger.ts';
import { type Database, makePoolConfig, openDatabase } from '../../src/erp/connection/pool.ts';
import type { LeaseKeeper } from '../../src/erp/runs/leases.ts';
import { templateName } from './global-setup.ts';
import { waitFor } from './wait.ts';

/** The database of one test: a copy of the migrated template. It is dropped after the test. */
export interface TestDatabase {
  readonly url: string;
  readonly db: Database;
  /** Runs one statement with pg and returns its rows. */
  readonly query: <T extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<T[]>;
  /** Opens another pool, which is closed at the end of the test. `max` is its number of connections. */
  readonly open: (max?: number) => Database;
  /** Returns the connections that a worker runs jobs with. They are opened once for each test. */
  readonly forRuns: () => { readonly db: Database; readonly keeper: LeaseKeeper };
  /** Closes the connections of `forRuns` early, so that new settings of the database apply to the next ones. */
  readonly endRuns: () => Promise<void>;
  /** Copies the whole database as its backup. Closes and opens its connections. */
  readonly backUp: () => Promise<void>;
  /** Replaces the database with its backup. The server gives it another oid, as after a restore from a dump. */
  readonly restore: () => Promise<void>;
}

/** The connection that creates and drops databases. All test files of a process share it. */
let maintenance: Promise<pg.Client> | undefined;

async function connectForMaintenance(): Promise<pg.Client> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  // The connection must not keep the process alive.
  const { stream } = client.connection;
  if (stream instanceof Socket) stream.unref();
  return client;
}

async function maintain<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
  maintenance ??= connectForMaintenance();
  return (await (await maintenance).query<T>(text, values)).rows;
}

/** Gives every test of the file its own database. A test fails if it leaves connections open. */
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
  const openFirstPool = () => {
    pools = [new pg.Pool(makePoolConfig(url, 'test', 6))];
    db = openDatabase(pool());
  };
  const closeAll = async () => {
    await Promise.all([endRuns(), ...pools.map((open) => open.end())]);
    await waitFor('all connections to be closed', async () => (await countConnections(name)) === 0);
  };
  beforeEach(async () => {
    name = `test_${randomBytes(6).toString('hex')}`;
    await maintain(`create database ${name} ${migrated ? `template ${templateName} ${inject('copyStrategy')}` : ''}`);
    const address = new URL(inject('postgresUrl'));
    address.pathname = `/${name}`;
    url = address.href;
    openFirstPool();
  });
  afterEach(async () => {
    try {
      await closeAll();
    } finally {
      await maintain(`drop database if exists ${name} with (force)`);
      await maintain(`drop database if exists ${name}_backup with (force)`);
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
      const further = new pg.Pool(makePoolConfig(url, 'test further', max));
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
    backUp: async () => {
      await closeAll();
      await maintain(`create database ${name}_backup template ${name}`);
      openFirstPool();
    },
    restore: async () => {
      await closeAll();
      await maintain(`drop database ${name}`);
      await maintain(`alter database ${name}_backup rename to ${name}`);
      openFirstPool();
    },
  };
}

async function countConnections(name: string): Promise<number> {
  const [row] = await maintain<{ count: number }>(
    'select count(*)::int as count from pg_stat_activity where datname = $1',
    [name],
  );
  return row?.count ?? 0;
}
