import { setTimeout as wait } from 'node:timers/promises';
import { type Connection, ConnectionLostError, isPool, type Pool, withConnection } from './connection.ts';
import { type HandleOptions, handleChanges } from './feed.ts';

export interface FollowOptions extends HandleOptions {
  /** Ends the program between two transactions. */
  readonly signal?: AbortSignal;
  /** Longest time without a look, in milliseconds, because notifications may be lost; 10 seconds if absent. */
  readonly lookEveryMs?: number;
  /** Called each time the connection was lost, before the next attempt. Only with a pool. */
  readonly onReconnect?: (error: ConnectionLostError) => void;
}

const channel = 'fulfilment_changes';
const reconnectPauseMs = 1_000;
const defaultLookEveryMs = 10_000;

/**
 * Handles the changes of a consumer as they come, until the signal aborts. With a pool, a lost connection is replaced;
 * what was not committed is handled again.
 * @throws the error of `handle`, or of Postgres. An error with code 22023 says that changes are not kept any more
 * @throws ConnectionLostError if the connection is lost, and `db` is no pool or could not connect even once
 */
export async function followChanges(db: Connection | Pool, options: FollowOptions): Promise<void> {
  const { signal, onReconnect } = options;
  for (let wasConnected = false; ; ) {
    let isConnected = false;
    try {
      return await withConnection(db, (connection) => {
        wasConnected = isConnected = true;
        return followOn(connection, options);
      });
    } catch (error) {
      const lost = isConnected ? error : toConnectFailure(error);
      if (!(wasConnected && isPool(db) && lost instanceof ConnectionLostError)) throw error;
      onReconnect?.(lost);
    }
    await pause(reconnectPauseMs, signal);
    if (signal?.aborted) return;
  }
}

/** Returns a ConnectionLostError if another attempt to connect makes sense. Errors of the system have codes as ECONNRESET. */
const toConnectFailure = (error: unknown) => (isConnectError(error) ? new ConnectionLostError(error) : error);

const isConnectError = (error: unknown): boolean =>
  error instanceof AggregateError
    ? error.errors.some(isConnectError)
    : /^(E[A-Z]+$|EAI_|57P0|08)/.test(readCode(error));

const readCode = (error: unknown) =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

/** Handles changes on one connection until the signal aborts. */
async function followOn(
  connection: Connection,
  { signal, lookEveryMs = defaultLookEveryMs, pageSize = 500, ...rest }: FollowOptions,
): Promise<void> {
  const hints = new Hints(signal);
  hints.listen(connection);
  try {
    await connection.query(`listen ${channel}`);
    while (!signal?.aborted) {
      hints.clear();
      if ((await handleChanges(connection, { ...rest, pageSize })) < pageSize) await hints.next(lookEveryMs);
      if (hints.lost !== null) throw hints.lost;
    }
    await connection.query(`unlisten ${channel}`);
  } catch (error) {
    // Postgres ends sessions with 57P01 to 57P03. Its message comes before the connection ends. `handle` may have met such
    // an error elsewhere, so the connection is tried.
    const isEnding = /^57P0/.test(readCode(error)) && !(await canQuery(connection));
    throw hints.lost ?? (isEnding ? new ConnectionLostError(error) : error);
  } finally {
    hints.ignore(connection);
  }
}

const canQuery = (connection: Connection) =>
  connection.query('select 1').then(
    () => true,
    () => false,
  );

/** What a connection says between two looks: that there are changes, or that it was lost. */
class Hints {
  lost: ConnectionLostError | null = null;
  readonly #signal: AbortSignal | undefined;
  #wake = new AbortController();
  readonly #onNotification = (message: { readonly channel: string }) => {
    if (message.channel === channel) this.#wake.abort();
  };
  readonly #onLost = (error?: Error) => {
    this.lost ??= new ConnectionLostError(error);
    this.#wake.abort();
  };

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  listen(connection: Connection): void {
    connection.on('notification', this.#onNotification);
    connection.on('error', this.#onLost);
    connection.on('end', this.#onLost);
  }

  ignore(connection: Connection): void {
    connection.removeListener('notification', this.#onNotification);
    connection.removeListener('error', this.#onLost);
    connection.removeListener('end', this.#onLost);
  }

  clear(): void {
    this.#wake = new AbortController();
    if (this.lost !== null) this.#wake.abort();
  }

  /** Waits for a hint since `clear`, for the signal, or for the time. */
  next(timeoutMs: number): Promise<void> {
    const signals = [this.#wake.signal, this.#signal].filter((signal) => signal !== undefined);
    return pause(timeoutMs, AbortSignal.any(signals));
  }
}

/** Waits for a time, or until the signal aborts. */
async function pause(timeMs: number, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted) return;
  await wait(timeMs, undefined, signal === undefined ? {} : { signal }).catch((error: unknown) => {
    if (!signal?.aborted) throw error;
  });
}
