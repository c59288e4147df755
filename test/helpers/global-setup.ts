import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { migrateDatabase } from '../../src/app/commands/migrate.ts';
import { startEmbeddedPostgres } from '../../src/app/demo/embedded-postgres.ts';
import { silentLogger } from '../../src/app/logging/logger.ts';
import { buildBundle } from './processes/bundle.ts';
import { memoryFolder } from './processes/memory-folder.ts';
import { startRedis } from './processes/redis-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the maintenance database of the test server. */
    postgresUrl: string;
    /** False if this machine has no Redis. Tests that need it are skipped then. */
    redisAvailable: boolean;
  }
}

/** Settings of the test server. Its data need not survive a crash, and statistics change only by ANALYZE. */
const settings = { autovacuum: 'off', synchronous_commit: 'off', wal_level: 'minimal', max_wal_senders: '0' };

/** Name of the database that is migrated once. Every test gets a copy of it. */
export const templateName = 'migrated_template';

/**
 * Builds the bundle and starts one Postgres for the whole run, on a free port. Test files that need Redis start their
 * own, because they flush it.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, bundle] = await Promise.all([startEmbeddedPostgres(settings, memoryFolder()), buildBundle()]);
  // The processes that run the tests inherit this variable.
  process.env.TEST_PROGRAM = bundle.program;
  const redis = await startRedis();
  await redis?.stop();
  if (redis === null) {
    const message = 'No redis-server or valkey-server on PATH and no Docker engine: the Redis lane cannot run';
    await (process.env.CI === 'true' ? postgres.stop() : Promise.resolve());
    if (process.env.CI === 'true') throw new Error(message);
    process.stderr.write(`\n*** ${message}; it is SKIPPED. ***\n\n`);
  }
  await makeTemplate(postgres.url);
  project.provide('postgresUrl', postgres.url);
  project.provide('redisAvailable', redis !== null);
  return async () => {
    bundle.remove();
    await postgres.stop();
  };
}

async function makeTemplate(postgresUrl: string): Promise<void> {
  const client = new pg.Client(postgresUrl);
  await client.connect();
  await client.query(`create database ${templateName}`);
  await client.end();
  const url = new URL(postgresUrl);
  url.pathname = `/${templateName}`;
  await migrateDatabase(url.href, silentLogger);
}
