import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { migrateDatabase } from '../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { buildBundle } from './processes/bundle.ts';
import { openSharedPostgres } from './processes/postgres-server.ts';
import { openRedis } from './processes/redis-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the maintenance database of the test server. */
    postgresUrl: string;
    /** False if this machine has no Redis. Tests that need it are skipped then. */
    redisAvailable: boolean;
    /**
     * How databases are copied. `file_copy` takes half the time of the other way, which writes the
     * copy to the WAL.
     */
    copyStrategy: 'strategy file_copy' | '';
  }
}

/**
 * Settings of the test server. Its data need not survive a crash, and statistics change only by
 * ANALYZE.
 */
const settings = {
  autovacuum: 'off',
  synchronous_commit: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
};

/** The first version of Postgres that lets `create database` choose how it copies. */
const firstWithStrategies = 150_000;

/** Name of the database that is migrated once. Every test gets a copy of it. */
export const templateName = 'migrated_template';

/**
 * Builds the bundle and opens one Postgres for the whole run. Test files that need Redis start
 * their own, because they flush it.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, bundle] = await Promise.all([openSharedPostgres(settings), buildBundle()]);
  // The processes that run the tests inherit this variable.
  process.env.TEST_PROGRAM = bundle.program;
  const redis = await openRedis();
  await redis?.stop();
  if (redis === null) {
    const message =
      'No redis-server or valkey-server on PATH and no Docker engine: the Redis lane cannot run';
    await (process.env.CI === 'true' ? postgres.stop() : Promise.resolve());
    if (process.env.CI === 'true') throw new Error(message);
    process.stderr.write(`\n*** ${message}; it is SKIPPED. ***\n\n`);
  }
  const version = await makeTemplate(postgres.url);
  project.provide('copyStrategy', version >= firstWithStrategies ? 'strategy file_copy' : '');
  project.provide('postgresUrl', postgres.url);
  project.provide('redisAvailable', redis !== null);
  return async () => {
    bundle.remove();
    await postgres.stop();
  };
}

/** Creates the template, and returns the version of Postgres as a number: 150000 is 15.0. */
async function makeTemplate(postgresUrl: string): Promise<number> {
  const client = new pg.Client(postgresUrl);
  await client.connect();
  // A server that was started elsewhere may have it from an earlier run.
  await client.query(`drop database if exists ${templateName} with (force)`);
  await client.query(`create database ${templateName}`);
  const { rows } = await client.query<{ version: number }>(
    "select current_setting('server_version_num')::int as version",
  );
  await client.end();
  const url = new URL(postgresUrl);
  url.pathname = `/${templateName}`;
  await migrateDatabase(url.href, silentLogger);
  return rows[0]?.version ?? 0;
}
