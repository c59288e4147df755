import { randomUUID } from 'node:crypto';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  PostgresAdapter,
  PostgresDialect,
  type QueryResult,
} from 'kysely';
import type pg from 'pg';
import { toRefusal } from './session-settings.ts';

/** How the statements of a pool are sent. */
export interface StatementOptions {
  /** True if sessions prepare each statement, so that Postgres plans it only once. */
  readonly prepares?: boolean;
  /**
   * Statements that begin and set up each transaction, if a pooler gives each transaction any
   * session.
   */
  readonly transactionBegin?: string;
}

/**
 * Maximum number of statements that a process prepares. A session keeps a plan for each of them.
 */
const maxStatements = 300;

/**
 * Makes names unique for this process: a pooler may give the session of a former process to this
 * one.
 */
const processName = randomUUID().slice(0, 8);

/** Names of prepared statements by their text. */
const names = new Map<string, string>();

/**
 * Returns the name under which sessions prepare a statement, so that Postgres parses and plans it
 * once and not at each execution. Returns undefined if too many statements have a name already:
 * then it is planned at each execution.
 */
function findStatementName(text: string): string | undefined {
  const known = names.get(text);
  if (known !== undefined || names.size >= maxStatements) return known;

  const name = `${processName}-${names.size}`;
  names.set(text, name);
  return name;
}

/** A connection of the pool while kysely uses it. */
class ServerConnection implements DatabaseConnection {
  readonly #client: pg.PoolClient;
  readonly #options: StatementOptions;
  #isInTransaction = false;
  /** True if the session is in an unknown state, so that the pool must not give it out again. */
  #isBroken = false;

  constructor(client: pg.PoolClient, options: StatementOptions) {
    this.#client = client;
    this.#options = options;
  }

  /**
   * Executes a statement. Behind a pooler, one outside of transactions gets a transaction of its
   * own.
   */
  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    if (this.#isInTransaction || this.#options.transactionBegin === undefined)
      return this.#send(query);

    await this.begin();
    try {
      const result = await this.#send<R>(query);
      await this.commit();
      return result;
    } catch (error) {
      await this.rollback();
      throw error;
    }
  }

  async begin(): Promise<void> {
    const { transactionBegin = 'begin' } = this.#options;
    try {
      await this.#client.query(transactionBegin);
      this.#isInTransaction = true;
    } catch (error) {
      await this.rollback();
      throw toRefusal(error);
    }
  }

  /** Commits. Postgres answers with a rollback if a statement of the transaction had failed. */
  async commit(): Promise<void> {
    this.#isInTransaction = false;
    const { command } = await this.#client.query('commit');
    if (command === 'ROLLBACK')
      throw new Error('the transaction was rolled back, because a statement of it failed');
  }

  async rollback(): Promise<void> {
    this.#isInTransaction = false;
    try {
      await this.#client.query('rollback');
    } catch (error) {
      this.#isBroken = true;
      throw error;
    }
  }

  release(): void {
    this.#client.release(this.#isBroken);
  }

  // biome-ignore lint/correctness/useYield: the interface demands it, and nothing here streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new TypeError('no statement is streamed');
  }

  async #send<R>({ sql: text, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const values = [...parameters];
    const mayPrepare = this.#options.prepares === true && values.length > 0;
    const name = mayPrepare ? findStatementName(text) : undefined;

    const { command, rowCount, rows } = await this.#client.query(
      name === undefined ? { text, values } : { name, text, values },
    );

    const writes = ['INSERT', 'UPDATE', 'DELETE', 'MERGE'].includes(command);
    return { rows: rows ?? [], ...(writes && { numAffectedRows: BigInt(rowCount ?? 0) }) };
  }
}

/**
 * How kysely reaches Postgres: connections of a pool, transactions, and statements. The caller ends
 * the pool.
 */
class ServerDriver implements Driver {
  readonly #pool: pg.Pool;
  readonly #options: StatementOptions;

  constructor(pool: pg.Pool, options: StatementOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<ServerConnection> {
    return new ServerConnection(await this.#pool.connect(), this.#options);
  }

  beginTransaction(connection: ServerConnection): Promise<void> {
    return connection.begin();
  }

  commitTransaction(connection: ServerConnection): Promise<void> {
    return connection.commit();
  }

  rollbackTransaction(connection: ServerConnection): Promise<void> {
    return connection.rollback();
  }

  async releaseConnection(connection: ServerConnection): Promise<void> {
    connection.release();
  }

  async destroy(): Promise<void> {}
}

/**
 * An adapter without the lock of kysely's migrator. That lock is an advisory lock, which any role
 * may take, and it waits for an hour. `withMigrationLock` replaces it.
 */
class NoMigrationLock extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

/** Postgres with our driver. */
export class ServerDialect extends PostgresDialect {
  readonly #pool: pg.Pool;
  readonly #options: StatementOptions;

  constructor(pool: pg.Pool, options: StatementOptions) {
    super({ pool });
    this.#pool = pool;
    this.#options = options;
  }

  override createAdapter(): PostgresAdapter {
    return new NoMigrationLock();
  }

  override createDriver(): Driver {
    return new ServerDriver(this.#pool, this.#options);
  }
}
