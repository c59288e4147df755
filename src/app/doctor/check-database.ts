import type { Database } from '../../erp/connection/pool.ts';
import {
  readMissingGrants,
  readMissingRoles,
  readServerFacts,
  readUnusableSchemas,
} from '../../erp/reports/diagnosis.ts';
import { readSchemaDrift } from '../../erp/schema/drift.ts';
import { SchemaError } from '../../erp/schema/migration-files.ts';
import { assertSchemaFits, isMigratedByNewer } from '../../erp/schema/schema-fit.ts';
import { version } from '../version.ts';
import { type Finding, fail, ok, orFailure, warn } from './finding.ts';

/** A clock that is further off confuses people who compare logs; what is due goes by the database's alone. */
const maxSkewMs = 5_000;
/** Of max_connections, what one worker opens at most (docs/scaling.md). */
const workerConnections = 30;
const namedAtMost = 3;

const reachable =
  'check DATABASE_URL: host, port, database, user and password, and that Postgres lets this machine in (pg_hba.conf)';

/** Whether the ERP database is there, has our schema as it should be, and lets us do what workers do. */
export async function checkDatabase(db: Database): Promise<readonly Finding[]> {
  const server = await orFailure('database', reachable, () => checkServer(db));
  // Without it nothing else can be told.
  if (server.some(({ state }) => state === 'fail')) return server;
  const unusable = await readUnusableSchemas(db);
  if (unusable.length > 0) {
    const found = `this role may not use schema ${unusable.join(', ')}`;
    return [...server, fail('grants', found, `let workers log in as the role that migrated, or: ${usageOf(unusable)}`)];
  }
  const schema = await orFailure('schema', 'run: fulfilment-sync migrate', () => checkSchema(db));
  if (schema.some(({ state }) => state === 'fail')) return [...server, ...schema];
  return [...server, ...schema, ...(await orFailure('grants', 'see docs/erp.md', () => checkGrants(db)))];
}

const usageOf = (schemas: readonly string[]) => `grant usage on schema ${schemas.join(', ')} to <role>`;

async function checkServer(db: Database): Promise<readonly Finding[]> {
  const askedAtMs = Date.now();
  const facts = await readServerFacts(db);
  const skewMs = facts.nowMs - (askedAtMs + Date.now()) / 2;
  const size = `${Math.round(facts.databaseBytes / 1024 / 1024).toLocaleString('en')} MB`;
  const free = facts.maxConnections - facts.connections;
  return [
    facts.readOnly
      ? fail('database', 'it takes no writes', 'point DATABASE_URL to the primary, not to a replica')
      : ok('database', `Postgres ${facts.version}, ${size}`),
    Math.abs(skewMs) > maxSkewMs
      ? warn(
          'clock',
          `this machine and the database differ by ${Math.round(skewMs / 1_000)} s`,
          'run a time service (NTP) on both',
        )
      : ok('clock', 'this machine and the database agree'),
    free < workerConnections
      ? warn(
          'connections',
          `${free} of ${facts.maxConnections} are free; a worker may open ${workerConnections}`,
          'raise max_connections, or run fewer workers',
        )
      : ok('connections', `${free} of ${facts.maxConnections} are free`),
  ];
}

async function checkSchema(db: Database): Promise<readonly Finding[]> {
  try {
    await assertSchemaFits(db, version);
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error;
    const remedy = error.code === 'code_too_old' ? 'upgrade this program' : 'run: fulfilment-sync migrate';
    return [fail('schema', error.message, remedy)];
  }
  if (await isMigratedByNewer(db))
    return [ok('schema', `a newer version has migrated it, and ${version} can work with it; not compared`)];
  const { missing, unexpected } = await readSchemaDrift(db);
  const several = (parts: readonly string[]) =>
    `${parts.slice(0, namedAtMost).join('; ')}${parts.length > namedAtMost ? `; and ${parts.length - namedAtMost} more` : ''}`;
  if (missing.length > 0) {
    const remedy = 'somebody changed it by hand: restore these from test/schema.sql of this version, or from a backup';
    return [fail('schema', `it lacks ${several(missing)}`, remedy)];
  }
  if (unexpected.length > 0) {
    const remedy = 'keep your own tables and columns in a schema of your own: migrations know nothing of them';
    return [warn('schema', `it holds what is not ours: ${several(unexpected)}`, remedy)];
  }
  return [ok('schema', `as version ${version} makes it`)];
}

async function checkGrants(db: Database): Promise<readonly Finding[]> {
  const [missing, roles] = [await readMissingGrants(db), await readMissingRoles(db)];
  const grants =
    missing.length === 0
      ? ok('grants', 'this role may read and write all that workers do')
      : fail(
          'grants',
          `this role lacks ${missing.slice(0, namedAtMost).join(', ')}${missing.length > namedAtMost ? `, and ${missing.length - namedAtMost} more` : ''}`,
          'let workers log in as the role that migrated, or grant them all on schemas fulfilment, sync and bullmq',
        );
  return [
    grants,
    roles.length === 0
      ? ok('roles', 'fulfilment_reader and fulfilment_writer are there for the ERP')
      : warn(
          'roles',
          `${roles.join(' and ')}: not there, or without grants`,
          'have a superuser run what docs/erp.md shows under Roles',
        ),
  ];
}
