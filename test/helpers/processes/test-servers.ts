/**
 * The servers that tests may use instead of their own. Variables of the environment choose them, so
 * that the suite runs against every version that production may have (`npm run matrix`).
 */

/** A server that was started elsewhere. Its databases are created and dropped by the tests. */
export const postgresUrl = process.env.TEST_POSTGRES_URL || null;
/** Folder with the binaries of another Postgres, such as /usr/lib/postgresql/15/bin. */
export const postgresBin = process.env.TEST_POSTGRES_BIN || null;
/** Image of a Postgres, such as postgres:16. It needs a Docker engine. */
export const postgresImage = process.env.TEST_POSTGRES_IMAGE || null;
/** A Redis that was started elsewhere. Tests delete all its data. */
export const redisUrl = process.env.TEST_REDIS_URL || null;
/** Image of a Redis or Valkey, such as valkey/valkey:8. It needs a Docker engine. */
export const redisImage = process.env.TEST_REDIS_IMAGE || null;

/** A Postgres of the tests. `url` is that of its maintenance database, as a superuser. */
export interface TestPostgres {
  readonly url: string;
  /** Stops it and, after `downMs`, starts it again with the same data at the same address. */
  readonly restart: (downMs?: number) => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** A Redis of the tests. */
export interface TestRedis {
  readonly url: string;
  /** Ends the server and, after `downMs`, starts it again at the same address, without data. */
  readonly restart: (downMs: number, signal?: 'SIGTERM' | 'SIGKILL') => Promise<void>;
  readonly stop: () => Promise<void>;
}
