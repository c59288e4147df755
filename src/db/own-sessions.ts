import { sql } from 'kysely';
import type pg from 'pg';
import { CodedError } from '../core/errors.ts';
import type { Database } from './pool.ts';
import { ServerClient } from './server-client.ts';

/**
 * What lies between this process and Postgres. `shared`: a pooler that gives each transaction any
 * session.
 */
export type Sessions = 'direct' | 'pooled' | 'shared';

/** Number of times that each connection is asked for its process. */
const rounds = 4;

/**
 * Finds whether a pooler lies before Postgres, and whether it shares sessions. Opens two
 * connections for that.
 */
export async function findSessions(databaseUrl: string): Promise<Sessions> {
  const options = {
    connectionString: databaseUrl,
    connectionTimeoutMillis: 10_000,
    query_timeout: 10_000,
  };
  const clients: pg.Client[] = [1, 2].map(
    () => new ServerClient({ ...options, application_name: 'fulfilment-sync sessions' }),
  );

  try {
    for (const client of clients) await client.connect();
    return await compareProcesses(clients);
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
}

/** Judges connections by the processes that serve their statements. */
async function compareProcesses(clients: readonly pg.Client[]): Promise<Sessions> {
  const connections = clients.map((client) => ({ client, pids: new Set<number>() }));

  // A pooler may have several idle sessions. It gives out the one that was used last, or each in
  // turn: therefore the order changes.
  for (let round = 0; round < rounds; round++)
    for (const { client, pids } of round % 2 === 0 ? connections : connections.toReversed())
      pids.add(await readProcess(client));

  // A connection with a session of its own always has the same process.
  const all = new Set(connections.flatMap(({ pids }) => [...pids]));
  if (all.size < clients.length || connections.some(({ pids }) => pids.size > 1)) return 'shared';

  // A pooler tells a process id of its own at the login.
  const isDirect = connections.every(({ client, pids }) =>
    pids.has((client as pg.Client & { processID: number }).processID),
  );
  return isDirect ? 'direct' : 'pooled';
}

async function readProcess(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_catalog.pg_backend_pid() as pid');
  return rows[0]?.pid ?? 0;
}

/**
 * Checks that connections have sessions of their own. A pooler in transaction mode lets them share
 * one: settings of a session, prepared statements and LISTEN then do not work.
 * @throws CodedError `sessions_shared`
 */
export async function assertOwnSessions(databaseUrl: string): Promise<void> {
  if ((await findSessions(databaseUrl)) !== 'shared') return;
  throw new CodedError(
    'sessions_shared',
    'a connection pooler shares sessions between connections; ' +
      'set DATABASE_DIRECT_URL to the URL of Postgres itself, or of a pool in session mode',
  );
}

/**
 * Checks that DATABASE_URL and DATABASE_DIRECT_URL lead to one database.
 * @throws CodedError `databases_differ`
 */
export async function assertSameDatabase(db: Database, direct: Database): Promise<void> {
  if ((await readMark(db)) === (await readMark(direct))) return;

  throw new CodedError(
    'databases_differ',
    'DATABASE_URL and DATABASE_DIRECT_URL lead to different databases',
  );
}

async function readMark(db: Database): Promise<string> {
  const { mark } = await db
    .selectNoFrom(sql<string>`sync.database_mark()`.as('mark'))
    .executeTakeFirstOrThrow();
  return mark;
}
