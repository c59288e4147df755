import { randomBytes } from 'node:crypto';
import { Socket } from 'node:net';
import pg from 'pg';
import { afterEach, beforeEach, inject } from 'vitest';
import { silentLogger } from '../../src/core/logger.ts';
import { connectDatabase, connectForWriting } from '../../src/db/connect.ts';
import { type Database, makePoolConfig, openDatabase } from '../../src/db/pool.ts';
import { LeaseKeeper } from '../../src/schedule/sql/leases.ts';
import { templateName } from './global-setup.ts';
import { waitFor } from './wait.ts';

/** The database of one test: empty but for what the migrations insert. */
export interface TestDatabase {
  readonly url: string;
  readonly db: Database;
  /** Runs one statement with pg and returns its rows. */
  readonly query: <T extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<T[]>;
  /** Counts the rows of a table, or of a table and a condition. */
  readonly count: (from: string) => Promise<number>;
  /** Lists the ids of the rows of a table, or of a table and a condition, in ascending order. */
  readonly ids: (from: string) => Promise<number[]>;
  /** Waits until a session waits for a lock, and returns its process id. */
  readonly waitForBlocked: (what: string) => Promise<number>;
  /**
   * Opens another pool, which is closed at the end of the test. `max` is its number of connections.
   */
  readonly open: (max?: number) => Database;
  /** Returns the connections that a worker runs jobs with. */
  readonly forRuns: () => { readonly db: Database; readonly keeper: LeaseKeeper };
  /**
   * Closes the connections of `forRuns` early, so that new settings of the database apply to the
   * next ones.
   */
  readonly endRuns: () => Promise<void>;
  /** Copies the whole database as its backup. Closes and opens its connections. */
  readonly backUp: () => Promise<void>;
  /**
   * Replaces the database with its backup. The server gives it another oid, as after a restore from
   * a dump.
   */
  readonly restore: () => Promise<void>;
}

/** A database of this process, with the connections that its tests share. */
interface OpenDatabase {
  readonly name: string;
  readonly url: string;
  pool: pg.Pool;
  db: Database;
  runs: { db: Database; keeper: LeaseKeeper; close: () => Promise<unknown> } | null;
  /** State of schema, settings and statistics before the first test. */
  readonly schema: string;
  /** Rows that the migrations insert, as JSON, by table. */
  readonly seeds: Readonly<Record<string, unknown>>;
}

/**
 * Names of the connections that stay open between tests: those of the tests, and those of their
 * runs.
 */
const keptName = `test kept ${process.pid}`;
const runsName = `fulfilment-sync ${keptName}`;

/** The connection that creates and drops databases. All test files of a process share it. */
let maintenance: Promise<pg.Client> | undefined;

/**
 * Migrated databases of this process that no test uses now. A test that changes more than rows
 * drops its own.
 */
const free: OpenDatabase[] = [];

async function connectForMaintenance(): Promise<pg.Client> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  // The connection must not keep the process alive.
  const { stream } = client.connection;
  if (stream instanceof Socket) stream.unref();
  return client;
}

async function maintain<T extends pg.QueryResultRow>(
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  maintenance ??= connectForMaintenance();
  return (await (await maintenance).query<T>(text, values)).rows;
}

/**
 * Opens connections of a test. Their transactions may idle longer than those of the product: on a
 * slow machine, a test needs more than the product's 5 s between two statements.
 */
function openPool(url: string, name: string, max: number): pg.Pool {
  const config = makePoolConfig(url, { name, max });
  const pool = new pg.Pool({
    ...config,
    onConnect: async (client) => {
      await config.onConnect?.(client);
      await client.query('set idle_in_transaction_session_timeout = 600000');
    },
    application_name: name,
    // An idle connection must not keep the process alive.
    allowExitOnIdle: true,
  });
  // A test that ends sessions sees that in its queries.
  pool.on('error', () => undefined);
  return pool;
}

async function createDatabase(migrated: boolean): Promise<OpenDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  await maintain(
    `create database ${name} ${migrated ? `template ${templateName} ${inject('copyStrategy')}` : ''}`,
  );
  const address = new URL(inject('postgresUrl'));
  address.pathname = `/${name}`;
  const pool = openPool(address.href, keptName, 6);
  const [schema, seeds] = [await readSchemaState(pool), migrated ? await readSeeds(pool) : {}];
  return { name, url: address.href, pool, db: openDatabase(pool), runs: null, schema, seeds };
}

async function closeConnections(database: OpenDatabase): Promise<void> {
  const { runs, pool } = database;
  database.runs = null;
  await Promise.all([runs?.close(), pool.end()]);
  await waitFor(
    'all connections to be closed',
    async () => (await countConnections(database.name)) === 0,
  );
}

async function dropDatabase({ name }: OpenDatabase): Promise<void> {
  await maintain(`drop database if exists ${name} with (force)`);
  await maintain(`drop database if exists ${name}_backup with (force)`);
}

/**
 * Gives every test of the file an empty database. Tests of one process use the same one in turn:
 * new connections to a new database cost more than most tests. A test that changes its schema,
 * settings or statistics gets a new one after it. A test fails if it leaves connections open.
 */
export function useDatabase({ migrated = true } = {}): TestDatabase {
  let open: OpenDatabase;
  let isReusable = false;
  const further: pg.Pool[] = [];
  beforeEach(async () => {
    open = (migrated ? free.pop() : undefined) ?? (await createDatabase(migrated));
    isReusable = migrated;
  });
  afterEach(async () => {
    try {
      await Promise.all(further.splice(0).map((pool) => pool.end()));
      await waitFor(
        'all connections to be closed',
        async () => (await countConnections(open.name, [keptName, runsName])) === 0,
      );
      isReusable &&= (await readSchemaState(open.pool)) === open.schema;
      if (isReusable) await emptyTables(open);
    } catch (error) {
      isReusable = false;
      throw error;
    } finally {
      if (isReusable) free.push(open);
      else await closeConnections(open).finally(() => dropDatabase(open));
    }
  });
  const reopen = async (change: () => Promise<void>) => {
    await Promise.all(further.splice(0).map((pool) => pool.end()));
    await closeConnections(open);
    await change();
    open.pool = openPool(open.url, keptName, 6);
    open.db = openDatabase(open.pool);
    isReusable = false;
  };
  const query = async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []) =>
    (await open.pool.query<T>(text, values)).rows;
  return {
    get url() {
      return open.url;
    },
    get db() {
      return open.db;
    },
    query,
    count: async (from) =>
      (await query<{ n: number }>(`select count(*)::int as n from ${from}`))[0]?.n ?? 0,
    ids: async (from) => {
      const rows = await query<{ id: number }>(`select id from ${from} order by id`);
      return rows.map(({ id }) => Number(id));
    },
    waitForBlocked: (what) =>
      waitFor(what, async () => (await query<{ pid: number }>(blockedSql))[0]?.pid),
    open: (max = 4) => {
      const pool = openPool(open.url, 'test further', max);
      further.push(pool);
      return openDatabase(pool);
    },
    forRuns: () => {
      open.runs ??= openForRuns(open.url);
      return open.runs;
    },
    endRuns: async () => {
      const { runs } = open;
      open.runs = null;
      await runs?.close();
      await waitFor(
        'the runs to end',
        async () => (await countConnections(open.name, [keptName])) === 0,
      );
    },
    backUp: () =>
      reopen(
        async () =>
          void (await maintain(`create database ${open.name}_backup template ${open.name}`)),
      ),
    restore: () =>
      reopen(async () => {
        await maintain(`drop database ${open.name}`);
        await maintain(`alter database ${open.name}_backup rename to ${open.name}`);
      }),
  };
}

function openForRuns(url: string): NonNullable<OpenDatabase['runs']> {
  const main = connectDatabase(url, silentLogger, { name: keptName });
  const leases = connectForWriting(url, silentLogger, { name: keptName, max: 1 });
  const keeper = new LeaseKeeper(leases.db, () => undefined);
  return { db: main.db, keeper, close: () => Promise.all([main.close(), leases.close()]) };
}

/**
 * Decides whether the database of a test takes writes, and ends all sessions but those of the test
 * itself, so that the next ones know.
 */
export async function setReadOnly({ query }: TestDatabase, value: 'on' | 'off'): Promise<void> {
  await query(`do $$ begin
    execute format('alter database %I set default_transaction_read_only = ${value}', current_database());
    perform pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name <> '${keptName}'; end $$`);
}

/** Counts the connections to a database whose names are not `except`. */
async function countConnections(name: string, except: readonly string[] = []): Promise<number> {
  const [row] = await maintain<{ count: number }>(
    'select count(*)::int as count from pg_stat_activity where datname = $1 and application_name <> all ($2)',
    [name, except],
  );
  return row?.count ?? 0;
}

/**
 * Returns what a test may not change in the shared database: objects, their definitions, settings
 * and statistics.
 */
async function readSchemaState(pool: pg.Pool): Promise<string> {
  const newest = (catalog: string) =>
    `(select concat(count(*), ' ', max(xmin::text::bigint)) from ${catalog})`;
  const { rows } = await pool.query<{ state: string }>(`select concat_ws(', ',
    (select md5(string_agg(concat(oid, relname, relnamespace, reloptions), ' ' order by oid)) from pg_class),
    ${['pg_proc', 'pg_trigger', 'pg_attribute', 'pg_constraint', 'pg_namespace'].map(newest)},
    (select count(*) from pg_statistic s join pg_class c on c.oid = starelid where relnamespace::regnamespace::text
       in ('fulfilment', 'sync', 'bullmq')),
    (select string_agg(concat(setrole, setconfig), ' ' order by setrole) from pg_db_role_setting
       where setdatabase = (select oid from pg_database where datname = current_database()))) as state`);
  return rows[0]?.state ?? '';
}

const blockedSql =
  "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() limit 1";

const ownTables = `select c.oid::regclass::text as name from pg_class c
  where relkind in ('r', 'p')
    and relnamespace::regnamespace::text in ('fulfilment', 'sync', 'bullmq')`;

async function readSeeds(pool: pg.Pool): Promise<Record<string, unknown>> {
  const seeds: Record<string, unknown> = {};
  for (const { name } of (await pool.query<{ name: string }>(ownTables)).rows) {
    const { rows } = await pool.query<{ seed: unknown }>(
      `select json_agg(t) as seed from ${name} t`,
    );
    if (rows[0]?.seed !== null) seeds[name] = rows[0]?.seed;
  }
  return seeds;
}

/**
 * Empties every table, starts every sequence anew, and inserts again what the migrations insert.
 */
async function emptyTables({ pool, seeds }: OpenDatabase): Promise<void> {
  await pool.query(`do $do$
    declare
      seeds json := $seeds$${JSON.stringify(seeds)}$seeds$;
      filled text[] := '{}';
      item record;
      found bool;
    begin
      for item in ${ownTables} loop
        execute format('select exists (select from %s)', item.name) into found;
        if found then filled := filled || item.name; end if;
      end loop;
      if filled <> '{}' then execute 'truncate ' || array_to_string(filled, ', ') || ' cascade'; end if;
      for item in select format('%I.%I', schemaname, sequencename) as name, start_value from pg_sequences
          where schemaname in ('fulfilment', 'sync', 'bullmq') and last_value is not null loop
        perform setval(item.name, item.start_value, false);
      end loop;
      for item in select key as name, value as rows from json_each(seeds) loop
        execute (select format('insert into %1$s (%2$s) overriding system value
            select %2$s from json_populate_recordset(null::%1$s, $1)', item.name, string_agg(quote_ident(attname), ', '))
          from pg_attribute
          where attrelid = item.name::regclass and attnum > 0 and not attisdropped and attgenerated = '')
        using item.rows;
      end loop;
    end $do$`);
}
