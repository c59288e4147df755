import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { CodedError, hasCode, isUncoded } from '../core/errors.ts';
import { findTlsError } from '../core/tls-error.ts';
import './address-timeout.ts';

/** Tolerance for the timers of pg: they may fire a little before the time that we measure. */
const timerSlackMs = 50;

/**
 * Returns the error of a connection that broke or did not open in time. pg gives such errors no
 * code.
 */
export const toLostError = (cause: Error) =>
  new CodedError(
    'database_lost',
    'the database does not answer; check that it runs and that DATABASE_URL leads to it',
    { cause },
  );

/**
 * Time without an answer after which another connection is asked whether the server works on the
 * statement.
 */
const silentMs = 4_000;

/** Time that the other connection has, and that an answer that is under way may still take. */
const askTimeoutMs = 2_000;
const lateAnswerMs = 500;

const worksSql = `select exists (
  select from pg_catalog.pg_stat_activity where pid = $1 and state = 'active') as works`;

type Callback = (error: unknown, ...rest: unknown[]) => void;

/**
 * A connection whose errors have codes: `database_lost` if it ended or did not answer in time,
 * `tls_failed` if TLS is the reason. A connection that did not answer in time is ended: pg would
 * continue to use it, and every later query on it would wait in vain.
 */
export class ServerClient extends pg.Client {
  /** Called if the connection did not answer, and was ended. */
  onLost: () => void = () => undefined;
  readonly #config: pg.ClientConfig;
  readonly #queryTimeoutMs: number;
  /** The server's process of this session, if silence is searched for. */
  #process: number | undefined;
  /** Why this connection cannot be used any more; undefined while it can. */
  #lost: CodedError | undefined;

  constructor(config: pg.ClientConfig = {}) {
    super(config);
    this.#config = config;
    this.#queryTimeoutMs = config.query_timeout ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Ends this connection from now on if a statement has no answer while the server, asked on
   * another connection, does not work on it: then the network has lost the connection.
   * @param process the server's process of this session; a pooler tells another one at the login
   */
  findSilence(process: number): void {
    this.#process = process;
  }

  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    const toCodedError = (error: unknown) =>
      findTlsError(error, 'postgres') ??
      (isUncoded(error) && this.#hasEnded() ? toLostError(error) : error);

    if (callback !== undefined) {
      super.connect((error: Error) => callback(toCodedError(error) as Error));
      return undefined;
    }

    return super.connect().catch((error: unknown) => {
      throw toCodedError(error);
    });
  }

  /**
   * Takes and returns what `query` of pg does, in all its forms: hence `never`, which fits each of
   * them.
   */
  override query(...given: unknown[]): never {
    const query = super.query.bind(this) as (...values: unknown[]) => unknown;
    const startedAtMs = performance.now();

    const callback = given.at(-1);
    if (typeof callback === 'function')
      return query(...given.slice(0, -1), (error: unknown, result: unknown) =>
        (callback as Callback)(this.#toCodedError(error, startedAtMs), result),
      ) as never;

    // Later statements, such as the rollback, fail with the same error.
    if (this.#lost !== undefined) return Promise.reject(this.#lost) as never;

    const result = query(...given);
    if (!(result instanceof Promise)) return result as never;

    if (this.#process !== undefined) this.#watch(result, this.#process);
    return result.catch((error: unknown) => {
      throw this.#toCodedError(error, startedAtMs);
    }) as never;
  }

  #watch(result: Promise<unknown>, process: number): void {
    let isPending = true;
    const timer = setInterval(async () => {
      if (!(await this.#hasLostStatement(process)) || !isPending) return;
      clearInterval(timer);
      this.#lost ??= toLostError(new Error('the server has no statement of this connection'));
      this.#endLost(this.#lost);
    }, silentMs);

    const end = () => {
      isPending = false;
      clearInterval(timer);
    };
    result.then(end, end);
  }

  /**
   * Asks on another connection whether the server works on no statement of this one. Returns false
   * if the server cannot be asked.
   */
  async #hasLostStatement(process: number): Promise<boolean> {
    const timeouts = { query_timeout: askTimeoutMs, connectionTimeoutMillis: askTimeoutMs };
    const other = new ServerClient({ ...this.#config, ...timeouts });
    other.on('error', () => undefined);

    try {
      await other.connect();
      const { rows }: pg.QueryResult<{ works: boolean }> = await other.query(worksSql, [process]);
      // The answer may be under way.
      await wait(lateAnswerMs);
      return rows[0]?.works === false;
    } catch {
      // The server is away for all connections: then the time limit of the statement counts.
      return false;
    } finally {
      await other.end();
    }
  }

  #toCodedError(error: unknown, startedAtMs: number): unknown {
    if (!isUncoded(error)) return error;

    const hasEnded = this.#hasEnded();
    const isUnanswered = performance.now() - startedAtMs >= this.#queryTimeoutMs - timerSlackMs;
    if (!isUnanswered && !hasEnded) return error;

    if (this.#lost === undefined) {
      this.#lost = toLostError(error);
      if (!hasEnded) this.#endLost(this.#lost);
    }
    return this.#lost;
  }

  /** Ends this connection, which does not answer, and reports it to its holder. */
  #endLost(error: Error): void {
    // While a query is under way, `end` closes the socket at once. Its promise would wait for the
    // answer, so we do not.
    void this.end();
    // `end` itself reports no error. A holder such as the queue's listener would keep the dead
    // connection forever.
    this.emit('error', error);
    this.onLost();
  }

  /**
   * Returns whether the connection has ended. A wrong password does not end it; pg's error is kept
   * then.
   */
  #hasEnded(): boolean {
    const { stream } = this.connection;
    return stream.destroyed || stream.readableEnded;
  }
}

/**
 * A pool of such connections. `connect` fails with `database_lost` if none becomes free, or none
 * opens, in time.
 */
export class ServerPool extends pg.Pool {
  readonly #connectTimeoutMs: number;
  readonly #openedAtMs = new WeakMap<pg.PoolClient, number>();
  /** When a connection was found that did not answer any more. */
  #lostAtMs = 0;

  constructor(config: pg.PoolConfig) {
    super({ ...config, Client: ServerClient });
    this.#connectTimeoutMs = config.connectionTimeoutMillis ?? Number.POSITIVE_INFINITY;
    this.on('connect', (client) => {
      this.#openedAtMs.set(client, performance.now());
      if (client instanceof ServerClient)
        client.onLost = () => {
          this.#lostAtMs = performance.now();
        };
    });
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(callback: Callback): void;
  override connect(callback?: Callback): Promise<pg.PoolClient> | undefined {
    const startedAtMs = performance.now();
    const toCodedError = (error: unknown) => {
      if (!isUncoded(error)) return error;
      const isLate = performance.now() - startedAtMs >= this.#connectTimeoutMs - timerSlackMs;
      return isLate || hasCode(error.cause, 'database_lost') ? toLostError(error) : error;
    };

    if (callback !== undefined) {
      super.connect((error, ...rest) => callback(toCodedError(error), ...rest));
      return undefined;
    }

    return this.#connectAfterLoss(() => super.connect()).catch((error: unknown) => {
      throw toCodedError(error);
    });
  }

  /** Connects. Closes connections that are older than the loss of one: they may be lost, too. */
  async #connectAfterLoss(connect: () => Promise<pg.PoolClient>): Promise<pg.PoolClient> {
    for (;;) {
      const client = await connect();
      if ((this.#openedAtMs.get(client) ?? 0) >= this.#lostAtMs) return client;
      client.release(true);
    }
  }
}
