import { setTimeout as wait } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import type pg from 'pg';
import { growPauseMs, pauses } from '../core/backoff.ts';
import type { DB } from './generated/tables.ts';
import { keepAliveInitialDelayMillis } from './pool.ts';
import { ServerClient, toLostError } from './server-client.ts';
import { pinnedSettings, prepareSession } from './session-settings.ts';

export interface ListenOptions {
  readonly databaseUrl: string;
  readonly channel: string;
  /**
   * Called on each notification, and after each connect, because notifications may have been missed
   * before.
   */
  readonly onNotify: (payload: string) => void;
  readonly onError: (error: Error) => void;
  /** Time between two pings of the connection, in milliseconds. */
  readonly pingIntervalMs?: number;
}

/**
 * The usual time between two pings of the connection, and the time that the server has to answer
 * one.
 */
const usualPingIntervalMs = 5_000;
const answerTimeoutMs = 5_000;

const closeTimeoutMs = 1_000;

/**
 * A listener on a channel, with a separate connection. It reconnects if the connection breaks or
 * does not answer.
 */
export class Listener {
  readonly #options: ListenOptions;
  #client: pg.Client | undefined;
  /** Waits for the next connect or the next ping. */
  #timer: NodeJS.Timeout | undefined;
  /** Number of attempts to connect that failed since the last one that did not. */
  #failures = 0;
  #closed = false;

  constructor(options: ListenOptions) {
    this.#options = options;
    void this.#connect();
  }

  /** Ends the listener. It does not reconnect. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);

    const client = this.#client;
    this.#client = undefined;

    // If the network drops all packets, the connection never reports its end.
    await Promise.race([client?.end(), wait(closeTimeoutMs, undefined, { ref: false })]);
  }

  async #connect(): Promise<void> {
    const { databaseUrl, channel, onNotify } = this.#options;
    const client = new ServerClient({
      connectionString: databaseUrl,
      application_name: 'fulfilment-sync listen',
      keepAlive: true,
      keepAliveInitialDelayMillis,
      connectionTimeoutMillis: 10_000,
      query_timeout: answerTimeoutMs,
    });

    this.#client = client;
    client.on('error', (error) => this.#reconnect(client, error));
    client.on('end', () => this.#reconnect(client, toLostError(new Error('the connection ended'))));
    client.on('notification', ({ payload = '' }) => onNotify(payload));

    try {
      await client.connect();
      await prepareSession(client, pinnedSettings, false);
      await client.query(`listen ${client.escapeIdentifier(channel)}`);
      this.#failures = 0;

      if (this.#client !== client) return;

      this.#schedulePing(client);
      onNotify('');
    } catch (error) {
      this.#reconnect(client, error as Error);
    }
  }

  /**
   * Schedules a ping. A connection that only waits for notifications would not notice that it is
   * broken.
   */
  #schedulePing(client: pg.Client): void {
    this.#timer = setTimeout(() => {
      // The events `error` and `end` call `#reconnect` too. The first call counts.
      client.query('select').then(
        () => this.#client === client && this.#schedulePing(client),
        (error: Error) => this.#reconnect(client, error),
      );
    }, this.#options.pingIntervalMs ?? usualPingIntervalMs);
  }

  /**
   * Gives up a lost connection and connects again after a pause, which doubles with each failure.
   */
  #reconnect(client: pg.Client, error: Error): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    clearTimeout(this.#timer);

    this.#options.onError(error);
    // Ending a broken connection may fail. That failure does not matter.
    client.end().catch(() => undefined);

    this.#failures++;
    this.#timer = setTimeout(
      () => void this.#connect(),
      growPauseMs(pauses.listener, this.#failures),
    );
  }
}

/**
 * Notifies all pushers that outbox rows may be due. An insert into the outbox sends the same
 * notification, and leaves it out too while the queue of notifications is half full.
 */
export async function notifyPushers(db: Kysely<DB>): Promise<void> {
  await db
    .selectNoFrom(sql`pg_notify('fulfilment_outbox', '')`.as('told'))
    .where(sql<boolean>`pg_notification_queue_usage() < 0.5`)
    .execute();
}
