/** Anything of the package `pg` that runs a statement: a client, a pool, or a client of a pool. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** One connection: a client, or a client of a pool. Nobody else may use it meanwhile. */
export interface Connection extends Queryable {
  on(event: 'notification', listener: (message: { readonly channel: string }) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  removeListener(event: 'notification', listener: (message: { readonly channel: string }) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'end', listener: () => void): unknown;
}

/** A pool of the package `pg`. */
export interface Pool {
  connect(): Promise<Connection & { release(destroy?: boolean): void }>;
  readonly totalCount: number;
}

/** The error of a connection that ended. A program with a pool may go ahead on another one. */
export class ConnectionLostError extends Error {
  readonly code = 'connection_lost';
  constructor(cause: unknown) {
    super('the connection to Postgres was lost', { cause });
    this.name = 'ConnectionLostError';
  }
}

export const isPool = (db: Connection | Pool): db is Pool => 'totalCount' in db;

/** Calls `work` with one connection: the given one, or one of the pool. A connection that broke leaves the pool. */
export async function withConnection<T>(
  db: Connection | Pool,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  if (!isPool(db)) return work(db);
  const connection = await db.connect();
  // Without a listener, a connection that breaks while it is in use would end the program. Its query fails anyway.
  const ignore = () => undefined;
  connection.on('error', ignore);
  let isBroken = true;
  try {
    const result = await work(connection);
    isBroken = false;
    return result;
  } finally {
    // After any error the state of the session is not known, so another program must not get it.
    connection.release(isBroken);
    if (!isBroken) connection.removeListener('error', ignore);
  }
}

/** Runs `work` in one transaction of the connection. */
export async function inTransaction<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  await connection.query('begin');
  try {
    const result = await work();
    await connection.query('commit');
    return result;
  } catch (error) {
    // On a lost connection the rollback fails too. The server has rolled back then.
    await connection.query('rollback').catch(() => undefined);
    throw error;
  }
}
