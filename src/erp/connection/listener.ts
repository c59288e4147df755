import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { keepAliveInitialDelayMillis } from './pool.ts';

const firstPauseMs = 250;
const maxPauseMs = 5_000;

export interface ListenOptions {
  readonly databaseUrl: string;
  readonly channel: string;
  /** A notification came, or the connection is new and some may have been missed. */
  readonly onNotify: (payload: string) => void;
  readonly onError: (error: Error) => void;
}

/** How often a connection on which nothing was heard is asked whether it is there, and how long it has to say so. */
const pingMs = 15_000;
const answerMs = 5_000;

const closeWithinMs = 1_000;

/** Listens to a channel on a connection of its own, which is made anew whenever it breaks or no longer answers. */
export class Listener {
  readonly #options: ListenOptions;
  #client: pg.Client | undefined;
  /** Until it is connected again, or asked whether it still is. */
  #timer: NodeJS.Timeout | undefined;
  #pauseMs = firstPauseMs;
  #closed = false;

  constructor(options: ListenOptions) {
    this.#options = options;
    void this.#connect();
  }

  /** Ends it for good. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    const client = this.#client;
    this.#client = undefined;
    // One that swallows what it is given never says that it has ended.
    await Promise.race([client?.end(), wait(closeWithinMs, undefined, { ref: false })]);
  }

  async #connect(): Promise<void> {
    const { databaseUrl, channel, onNotify } = this.#options;
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'fulfilment-sync listen',
      keepAlive: true,
      keepAliveInitialDelayMillis,
      connectionTimeoutMillis: 10_000,
      query_timeout: answerMs,
    });
    this.#client = client;
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client, new Error('the connection ended')));
    client.on('notification', ({ payload = '' }) => onNotify(payload));
    try {
      await client.connect();
      await client.query(`listen ${client.escapeIdentifier(channel)}`);
      this.#pauseMs = firstPauseMs;
      if (this.#client !== client) return;
      this.#pingLater(client);
      onNotify('');
    } catch (error) {
      this.#lost(client, error as Error);
    }
  }

  /** A connection that waits for notifications alone would never find out that none can come any more. */
  #pingLater(client: pg.Client): void {
    this.#timer = setTimeout(() => {
      // Both ends of it tell `#lost` as well; whoever comes first counts.
      client.query('select').then(
        () => this.#client === client && this.#pingLater(client),
        (error: Error) => this.#lost(client, error),
      );
    }, pingMs);
  }

  #lost(client: pg.Client, error: Error): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    clearTimeout(this.#timer);
    this.#options.onError(error);
    // Its other events are of no interest any more; ending what is broken may fail, and that is all the same.
    client.end().catch(() => undefined);
    this.#timer = setTimeout(() => void this.#connect(), this.#pauseMs);
    this.#pauseMs = Math.min(maxPauseMs, this.#pauseMs * 2);
  }
}
