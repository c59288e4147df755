import { startPostgresContainer } from './containers.ts';
import { startEmbeddedPostgres } from './embedded-postgres.ts';
import { memoryFolder } from './memory-folder.ts';
import { postgresBin, postgresImage, postgresUrl, type TestPostgres } from './test-servers.ts';

/**
 * Returns the Postgres that all tests share: the one of TEST_POSTGRES_URL, which is left running,
 * or a new one.
 * @param settings settings of a new Postgres
 */
export async function openSharedPostgres(
  settings: Readonly<Record<string, string>>,
): Promise<TestPostgres> {
  if (postgresUrl === null) return startPostgres(settings);
  const restart = () =>
    Promise.reject(new Error('the Postgres of TEST_POSTGRES_URL cannot be restarted by tests'));
  return { url: postgresUrl, restart, stop: () => Promise.resolve() };
}

/** Starts a Postgres: an image, other binaries, or those of embedded-postgres. */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
): Promise<TestPostgres> {
  if (postgresImage !== null) return startPostgresContainer(postgresImage, settings);
  return startEmbeddedPostgres(settings, memoryFolder(), postgresBin);
}
