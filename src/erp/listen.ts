import pg from 'pg';

const firstPauseMs = 250;
const maxPauseMs = 5_000;

export interface ListenOptions {
  readonly databaseUrl: string;
  readonly channel: string;
  /** A notification came, or the connection is new and some may have been missed. */
  readonly onNotify: () => void;
  readonly onError: (error: Error) => void;
}

/** Listens to a channel on a connection of its own, which is made anew whenever it breaks. */
export class Listener {
  readonly #options: ListenOptions;
  #client: pg.Client | undefined;
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
    await client?.end();
  }

  async #connect(): Promise<void> {
    const { databaseUrl, channel, onNotify } = this.#options;
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'fulfilment-sync listen',
      keepAlive: true,
      connectionTimeoutMillis: 10_000,
    });
    this.#client = client;
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client, new Error('the connection ended')));
    client.on('notification', onNotify);
    try {
      await client.connect();
      await client.query(`listen ${client.escapeIdentifier(channel)}`);
      this.#pauseMs = firstPauseMs;
      onNotify();
    } catch (error) {
      this.#lost(client, error as Error);
    }
  }

  #lost(client: pg.Client, error: Error): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    this.#options.onError(error);
    // Its other events are of no interest any more; ending what is broken may fail, and that is all the same.
    client.end().catch(() => undefined);
    this.#timer = setTimeout(() => void this.#connect(), this.#pauseMs);
    this.#pauseMs = Math.min(maxPauseMs, this.#pauseMs * 2);
  }
}
