import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../../config/env.ts';
import type { Operations } from '../../../config/operations.ts';
import { changeInWords } from '../../core/database-mark.ts';
import { assertOwnSessions } from '../../erp/connection/own-sessions.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readOutboxKinds } from '../../erp/outbox/kinds.ts';
import { readPushDatabase } from '../../erp/outbox/push-database.ts';
import {
  readMissingGrants,
  readMissingRoles,
  readServerFacts,
  readUnusableSchemas,
} from '../../erp/reports/database-facts.ts';
import { readSchemaDrift } from '../../erp/schema/drift.ts';
import { SchemaError } from '../../erp/schema/migration-files.ts';
import { assertSchemaFits } from '../../erp/schema/schema-fit.ts';
import { findRedisProblem } from '../../queue/backend.ts';
import { listPayloadSchemas } from '../../sync/push/kinds/registry.ts';
import { connectDatabase } from '../deps/database.ts';
import { openQueueBackend } from '../deps/queue.ts';
import { readRedisInfo } from '../deps/redis.ts';
import { describeNotifyQueue } from '../health/find-problems.ts';
import type { Logger } from '../logging/logger.ts';
import { version } from '../version.ts';
import { type Finding, fail, ok, runCheck, warn } from './finding.ts';

/** Largest difference of the clocks without a warning. Only log times suffer: due times use the database's clock. */
const maxSkewMs = 5_000;
/** Maximum number of connections that one worker opens (docs/operations.md). */
const workerConnections = 33;
const maxNamed = 3;

const connectionRemedy =
  'check DATABASE_URL: host, port, database, user and password, and that pg_hba.conf of Postgres allows this machine';

/** Checks that the ERP database can be reached, has the schema of this version, and grants what workers need. */
export async function checkDatabase(db: Database): Promise<readonly Finding[]> {
  const server = await runCheck('database', connectionRemedy, () => checkServer(db));
  // Without a connection nothing else can be checked.
  if (server.some(({ state }) => state === 'fail')) return server;
  const unusable = await readUnusableSchemas(db);
  if (unusable.length > 0) {
    const found = `this role may not use schema ${unusable.join(', ')}`;
    return [...server, fail('grants', found, `use the role that ran migrate, or: ${formatGrant(unusable)}`)];
  }
  const schema = await runCheck('schema', 'run: fulfilment-sync migrate', () => checkSchema(db));
  if (schema.some(({ state }) => state === 'fail')) return [...server, ...schema];
  return [...server, ...schema, ...(await runCheck('grants', 'see docs/erp.md', () => checkGrants(db)))];
}

const formatGrant = (schemas: readonly string[]) => `grant usage on schema ${schemas.join(', ')} to <role>`;

async function checkServer(db: Database): Promise<readonly Finding[]> {
  const askedAtMs = Date.now();
  const facts = await readServerFacts(db);
  const skewMs = facts.nowMs - (askedAtMs + Date.now()) / 2;
  const size = `${Math.round(facts.databaseBytes / 1024 / 1024).toLocaleString('en')} MB`;
  const free = facts.maxConnections - facts.connections;
  const notified = describeNotifyQueue(facts.notifyQueue);
  return [
    facts.readOnly
      ? fail('database', 'it is read-only', 'point DATABASE_URL to the primary, not to a replica')
      : ok('database', `Postgres ${facts.version}, ${size}`),
    Math.abs(skewMs) > maxSkewMs
      ? warn(
          'clock',
          `this machine and the database differ by ${Math.round(skewMs / 1_000)} s`,
          'synchronise both clocks (NTP)',
        )
      : ok('clock', 'this machine and the database agree'),
    free < workerConnections
      ? warn(
          'connections',
          `${free} of ${facts.maxConnections} are free; a worker may open ${workerConnections}`,
          'raise max_connections, or run fewer workers',
        )
      : ok('connections', `${free} of ${facts.maxConnections} are free`),
    notified === null
      ? ok('notifications', 'the NOTIFY queue has room')
      : warn('notifications', notified.text, notified.remedy),
  ];
}

async function checkSchema(db: Database): Promise<readonly Finding[]> {
  try {
    await assertSchemaFits(db);
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error;
    const remedy = error.code === 'code_too_old' ? 'upgrade this program' : 'run: fulfilment-sync migrate';
    return [fail('schema', error.message, remedy)];
  }
  const { missing, unexpected } = await readSchemaDrift(db);
  const listSome = (parts: readonly string[]) =>
    `${parts.slice(0, maxNamed).join('; ')}${parts.length > maxNamed ? `; and ${parts.length - maxNamed} more` : ''}`;
  if (missing.length > 0) {
    const remedy = 'somebody changed it by hand: restore these from test/schema.sql of this version, or from a backup';
    return [fail('schema', `missing: ${listSome(missing)}`, remedy)];
  }
  if (unexpected.length > 0) {
    const remedy = 'move your tables and columns to another schema: migrations do not take care of them';
    return [warn('schema', `not part of this version: ${listSome(unexpected)}`, remedy)];
  }
  return [ok('schema', `matches version ${version}`)];
}

async function checkGrants(db: Database): Promise<readonly Finding[]> {
  const [missing, roles] = [await readMissingGrants(db), await readMissingRoles(db)];
  const grants =
    missing.length === 0
      ? ok('grants', 'this role has all rights that workers need')
      : fail(
          'grants',
          `this role lacks ${missing.slice(0, maxNamed).join(', ')}${missing.length > maxNamed ? `, and ${missing.length - maxNamed} more` : ''}`,
          'use the role that ran migrate, or grant all on schemas fulfilment, sync and bullmq to this role',
        );
  return [
    grants,
    roles.length === 0
      ? ok('roles', 'fulfilment_reader and fulfilment_writer exist for the ERP')
      : warn(
          'roles',
          `${roles.join(' and ')}: missing, or without grants`,
          'run the statements in docs/erp.md under Roles as a superuser',
        ),
  ];
}

/** Checks that each connection has a session of its own, also through a pooler. */
export function checkSessions(config: Config, log: Logger): Promise<readonly Finding[]> {
  const url = config.DATABASE_URL ?? '';
  return runCheck('sessions', 'see the log of Postgres', async () => {
    const [one, other] = [connectDatabase(url, log, 'doctor one', 1), connectDatabase(url, log, 'doctor other', 1)];
    try {
      await assertOwnSessions(one.db, other.db);
      return [ok('sessions', 'each connection has a session of its own')];
    } finally {
      await Promise.all([one.close(), other.close()]);
    }
  });
}

/**
 * Compares the payload schemas that `migrate` stored, and that `fulfilment.outbox_check` uses, with those of this process.
 * They differ if the file of operations has changed since, or if `migrate` did not have it.
 */
export async function checkPayloadSchemas(db: Database, operations: Operations): Promise<readonly Finding[]> {
  const stored = await readOutboxKinds(db);
  const differing = listPayloadSchemas(operations)
    .filter(({ kind, schema }) => !isDeepStrictEqual(stored.get(kind), JSON.parse(JSON.stringify(schema))))
    .map(({ kind }) => kind);
  if (differing.length === 0) return [ok('payloads', 'SQL checks payloads by the rules of this process')];
  return [
    warn(
      'payloads',
      `fulfilment.outbox_check has other rules than this process for ${differing.join(', ')}`,
      'run: fulfilment-sync migrate, with the same WAREHOUSE_OPERATIONS_FILE as the workers',
    ),
  ];
}

/** Checks whether rows may be sent from this database (docs/operations.md). */
export function checkPushes(db: Database): Promise<readonly Finding[]> {
  return runCheck('pushes', 'run: fulfilment-sync migrate', async () => {
    const database = await readPushDatabase(db);
    if (database === null) return [ok('pushes', 'no worker has run yet; the first one sends from this database')];
    const { change, acceptedAs, acceptedAt } = database;
    const since = acceptedAt.toISOString();
    if (change !== 'none') {
      const remedy =
        'say what it is: fulfilment-sync database accept --as moved, restored or copy (docs/operations.md)';
      return [fail('pushes', `nothing is sent (database_changed): ${changeInWords[change]}`, remedy)];
    }
    if (acceptedAs === 'copy')
      return [ok('pushes', `this database was accepted as a copy at ${since}: nothing is sent from it`)];
    return [ok('pushes', `rows are sent from this database since ${since}`)];
  });
}

/** Checks that the queue can be opened: in Redis if REDIS_URL is set, else in Postgres. */
export async function checkQueue(config: Config, log: Logger): Promise<readonly Finding[]> {
  const { REDIS_URL: url } = config;
  if (url === undefined)
    return runCheck('queue', 'run: fulfilment-sync migrate', async () => {
      const { close } = await openQueueBackend(config, config.DATABASE_URL ?? '', log);
      await close();
      return [ok('queue', 'in Postgres (REDIS_URL is not set)')];
    });
  const remedy =
    'check REDIS_URL: host, port and password, and that Redis runs; or unset it to have the queue in Postgres';
  return runCheck('queue', remedy, async () => {
    const info = await readRedisInfo(url);
    const problem = findRedisProblem(info);
    if (problem !== null)
      return [
        fail(
          'queue',
          problem.message,
          problem.code === 'redis_too_old' ? 'upgrade Redis' : 'change this setting of Redis',
        ),
      ];
    const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
    const keeps = /^aof_enabled:1/m.test(info)
      ? 'kept on disk'
      : 'not kept on disk (if Redis loses its data, some runs are late)';
    return [ok('queue', `in Redis ${version}, noeviction, ${keeps}`)];
  });
}
