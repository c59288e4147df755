/** The checks of `doctor`: everything that a worker needs. They change nothing. */

import { setTimeout as wait } from 'node:timers/promises';
import { isLoopback } from '../../../config/admin.ts';
import {
  type Config,
  findOpenFiles,
  findSetVariables,
  isKnownVariable,
} from '../../../config/env.ts';
import { findUnreadNames } from '../../../config/env-file.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import type { OperationName, Operations } from '../../../config/operations.ts';
import { listSetSwitches } from '../../../config/switches.ts';
import { parseConnectionUrl } from '../../../config/values.ts';
import { describeChoice, describeExpected, placeInWords } from '../../core/database-mark.ts';
import { CodedError, describeError, WarehouseError } from '../../core/errors.ts';
import { readOnlyRemedy } from '../../core/library-messages.ts';
import type { Logger } from '../../core/logger.ts';
import { version } from '../../core/version.ts';
import { toDirectUrl } from '../../db/connect.ts';
import { readSchemaDrift } from '../../db/drift.ts';
import { findSessions } from '../../db/own-sessions.ts';
import type { Database } from '../../db/pool.ts';
import { assertPostgres, assertSchemaFits, encodingRemedy } from '../../db/schema-fit.ts';
import { hasFullDisk, isDiskFull } from '../../db/transaction.ts';
import { listStoredKinds, outboxKinds } from '../../push/kinds/registry.ts';
import { tryInsert } from '../../push/sql/insert-rows.ts';
import { describeKindDifferences } from '../../push/sql/kinds.ts';
import { readPushDatabase } from '../../push/sql/push-database.ts';
import { findSequencesBehind } from '../../push/sql/sequences.ts';
import { findRedisProblem } from '../../schedule/backend.ts';
import { adviseParked } from '../../schedule/decide-start.ts';
import { openQueueBackend } from '../../schedule/open-queue.ts';
import { readRedisInfo } from '../../schedule/open-redis.ts';
import type { Warehouse } from '../../service/client.ts';
import { decodeServiceLists } from '../../service/decoding/decode-service-lists.ts';
import { openWarehouses } from '../../service/open-warehouses.ts';
import type { KnownClient } from '../../service/sql/clients.ts';
import { lacksTokenPath } from '../../service/transport/auth.ts';
import { listSome, type Problem, type ProblemCode } from '../health/problem.ts';
import {
  readMissingGrants,
  readMissingRoles,
  readServerFacts,
  readUnusableSchemas,
  type ServerFacts,
} from '../sql/database-facts.ts';

/** The result of one check. */
export interface CheckResult {
  /** Name of the check, in a few words. */
  readonly check: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** What to do; null if nothing needs to be done. */
  readonly remedy: string | null;
}

function ok(check: string, found: string): CheckResult {
  return { check, state: 'ok', found, remedy: null };
}

function warn(check: string, found: string, remedy: string): CheckResult {
  return { check, state: 'warn', found, remedy };
}

function fail(check: string, found: string, remedy: string): CheckResult {
  return { check, state: 'fail', found, remedy };
}

const hasFailed = (findings: readonly CheckResult[]) =>
  findings.some(({ state }) => state === 'fail');

/**
 * Returns the findings of `work`. If `work` fails, its error becomes the finding, with the remedy
 * of the error, or with `remedy` if the error has none.
 */
async function runCheck(
  check: string,
  remedy: string,
  work: () => Promise<CheckResult | CheckResult[]>,
): Promise<CheckResult[]> {
  try {
    return [await work()].flat();
  } catch (error) {
    if (error instanceof CodedError && error.remedy !== undefined)
      return [fail(check, error.message, error.remedy)];
    return [fail(check, describeError(error), findRemedy(error) ?? remedy)];
  }
}

/** Finds what to do about an error whose cause is known. */
function findRemedy(error: unknown): string | null {
  if (isDiskFull(error)) return diskRemedy;

  const status = error instanceof WarehouseError ? (error.status ?? 0) : 0;
  if (status !== 429 && status < 500) return null;
  return (
    'the service is reached, but does not serve: wait, or ask its operator; ' +
    '429: set REQUESTS_PER_SECOND'
  );
}

function describeSkew(skewMs: number, other: string): string {
  const seconds = Math.abs(Math.round(skewMs / 1_000));
  return `this machine is ${seconds} s ${skewMs > 0 ? 'behind' : 'ahead of'} ${other}`;
}

/** Largest accepted difference to the service's clock. Watermarks follow that clock. */
const maxSkewMs = 60_000;
/** Maximum milliseconds that the checks of the service take. */
const maxWaitMs = 20_000;
/**
 * Time over which the rate of a clock that differs is measured. The Date header has whole seconds.
 */
const rateMs = 1_000;
/** A clock that is at least this many times as fast as ours is that of a sandbox. */
const virtualRate = 5;
/**
 * Service lists whose codes payloads use. If one is empty, rows that use its codes may become dead.
 */
const neededLists = ['mainShippingMethods', 'orderTypes', 'returnReasons'];

/**
 * Checks for each client that the service can be reached, accepts the credentials and has its
 * lists.
 */
export async function checkClients(
  config: Config,
  known: readonly KnownClient[],
): Promise<CheckResult[]> {
  // The database may not be migrated yet.
  const { warehouses, close } = openWarehouses({ ...config, DATABASE_URL: undefined });
  // The operator is waiting for the result, so nothing is retried.
  const signal = AbortSignal.timeout(maxWaitMs);

  try {
    const checked = config.clients.map(async (client) => {
      const warehouse = warehouses.get(client.key)?.withoutRetries();
      if (warehouse === undefined) return [];

      const row = known.find((one) => one.client === client.key);
      return [...checkIdentity(client, row), ...(await checkService(client, warehouse, signal))];
    });
    return (await Promise.all(checked)).flat();
  } finally {
    await close();
  }
}

function checkIdentity(client: WarehouseClient, row: KnownClient | undefined): CheckResult[] {
  if (row === undefined || row.identity === toIdentity(client)) return [];

  const found = `its rows come from ${row.baseUrl}, or from another account there`;
  const problem = `the client is parked: ${found}`;
  return [fail(`${client.key}: account`, problem, adviseParked(client.key))];
}

async function checkService(
  { key, baseUrl }: WarehouseClient,
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<CheckResult[]> {
  const tls =
    baseUrl.protocol === 'https:'
      ? 'that it does not ask for a client certificate, which is not sent'
      : 'if its port speaks TLS, the base URL must begin with https://';
  const remedy =
    `check the base URL ${baseUrl.href}, the network, ` +
    `a proxy (HTTPS_PROXY, HTTP_PROXY), and TLS: ${tls}`;

  const up = await runCheck(`${key}: service`, remedy, async () => {
    await warehouse.checkStatus(signal);
    const clock = await checkClock(`${key}: clock`, () => readSkew(warehouse, signal));
    return [ok(`${key}: service`, `${baseUrl.href} is up`), clock];
  });

  return hasFailed(up) ? up : [...up, ...(await checkAccess(key, warehouse, signal))];
}

/**
 * Returns by how many milliseconds the service's clock is ahead of this machine's; null if it sends
 * no Date.
 */
async function readSkew(warehouse: Warehouse, signal: AbortSignal): Promise<number | null> {
  const askedAtMs = Date.now();
  const clockMs = await warehouse.readClock(signal);
  return clockMs === null ? null : clockMs - (askedAtMs + Date.now()) / 2;
}

async function checkClock(check: string, read: () => Promise<number | null>): Promise<CheckResult> {
  const skewMs = await read();
  if (skewMs === null) {
    const found =
      'the service sends no Date header, so the watermarks of dated streams cannot move';
    return warn(check, found, 'tell the operator of the service');
  }
  if (Math.abs(skewMs) <= maxSkewMs) return ok(check, 'the service and this machine agree');

  const startedMs = performance.now();
  await wait(rateMs);
  const laterMs = (await read()) ?? skewMs;
  const rate = 1 + (laterMs - skewMs) / (performance.now() - startedMs);
  if (rate >= virtualRate)
    return ok(check, `${Math.round(rate)} times as fast as this machine's: it is a sandbox`);

  const remedy =
    'synchronise the clock of this machine (NTP); if it is right, tell the operator of the service';
  return warn(check, describeSkew(skewMs, 'the service'), remedy);
}

async function checkAccess(
  key: string,
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<CheckResult[]> {
  const access = `${key}: access`;
  const lists = `${key}: service lists`;

  try {
    const answer = await warehouse.ask({ operation: 'common.settings.get' }, { signal });
    const { options } = decodeServiceLists(answer);
    const accepted = ok(access, 'the service accepts the user name and password');
    return [accepted, checkServiceLists(lists, options)];
  } catch (error) {
    if (error instanceof WarehouseError && error.code === 'credentials_refused') {
      if (lacksTokenPath(error.status)) {
        const found = `the service answers POST /token with ${error.status}`;
        return [fail(access, found, 'correct the base URL: /token follows it')];
      }
      const remedy = 'correct them, or ask the operator of the service for new ones';
      return [fail(access, 'the service refuses the user name and password', remedy)];
    }

    if (error instanceof WarehouseError && ['nok', 'undecodable'].includes(error.code)) {
      const remedy = 'ask the operator of the service: settings/get does not answer as documented';
      return [fail(lists, error.message, remedy)];
    }

    const remedy = 'the service is up but does not answer this request; try again in a moment';
    return [fail(access, describeError(error), remedy)];
  }
}

/** Names the service lists that payloads need and that have no entries. */
function checkServiceLists(
  check: string,
  options: readonly { readonly list: string }[],
): CheckResult {
  const filled = new Set(options.map(({ list }) => list));
  const empty = neededLists.filter((list) => !filled.has(list));
  if (empty.length === 0) return ok(check, `${options.length} entries`);

  const remedy =
    'ask the operator of the service to set them up, ' +
    'unless the client has no use for them, such as no returns';
  return warn(check, `the service returned no entries for ${empty.join(', ')}`, remedy);
}

/**
 * Checks for misspelt variables, operations that docs/interface.md does not show, clear text, and
 * alerts.
 */
export const checkConfiguration = (config: Config, envFile: string | undefined): CheckResult[] => [
  ...checkVariables(envFile),
  checkOperations(config),
  ...checkTransport(config),
  ...checkAlerts(config),
  ...checkEvents(config),
];

function checkVariables(envFile: string | undefined): CheckResult[] {
  const set = findSetVariables();
  const unread = [...findUnreadNames(envFile), ...set.filter((name) => !isKnownVariable(name))];
  const unknown = [...new Set(unread)];
  if (unknown.length === 0) return [ok('configuration', `${set.length} variables are set`)];
  return unknown.map((name) =>
    warn('configuration', `there is no variable ${name}`, 'check its spelling in .env.example'),
  );
}

const wordsForAccess = { write: 'change', read: 'read' } as const;

/**
 * Names the files of the configuration that every user of this machine may change, or read although
 * they hold secrets.
 */
export function checkFiles(envFile: string | undefined): CheckResult[] {
  const open = findOpenFiles(envFile);
  if (open.length === 0)
    return [ok('files', 'no file of the configuration is open to all users of this machine')];

  return open.map(({ name, path, access }) => {
    const found = `every user of this machine may ${wordsForAccess[access]} ${path} (${name})`;
    const remedy = access === 'write' ? `chmod o-w ${path}, and its folder` : `chmod o-rwx ${path}`;
    return warn('files', found, remedy);
  });
}

/**
 * Names the operations in use whose method and path are assumed (docs/assumptions.md), and the
 * switches that are set.
 */
function checkOperations({ operations, schedules, pushSweepMs }: Config): CheckResult {
  const isOn = (job: 'track-trace' | 'pull-parcels' | 'pull-stock') =>
    schedules[job].kind !== 'off';
  const used = new Set<OperationName>();
  if (pushSweepMs !== null) for (const { operation } of outboxKinds) used.add(operation);
  if (isOn('track-trace')) used.add('v2.shipment.trackTrace');
  if (isOn('pull-parcels')) used.add('v2.shipment.search');
  if (isOn('pull-stock') && (operations['oldest.stock.bulk'].enabled ?? true))
    used.add('oldest.stock.bulk');

  const assumed = [...used].filter((name) => !operations[name].documented);
  const found =
    assumed.length === 0
      ? 'all operations in use are documented'
      : `not shown in the interface description: ${assumed.join(', ')};` +
        ' to try them: fulfilment-sync service verify (docs/assumptions.md)';

  const switches = listSetSwitches(operations);
  const switched = switches.length === 0 ? '' : `; switches: ${switches.join(', ')}`;
  return ok('operations', `${found}${switched}`);
}

/** Values of sslmode that always encrypt the connection to Postgres. */
const encryptedModes = ['require', 'verify-ca', 'verify-full', 'no-verify'];

/** Checks whether anything leaves this machine in clear text, and names the proxies in use. */
export function checkTransport(config: Config): CheckResult[] {
  const databases = listDatabases(config);
  const unencrypted = listUnencrypted(config, databases);
  const encryption =
    unencrypted.length === 0
      ? ok('encryption', 'nothing leaves this machine in clear text')
      : warn(
          'encryption',
          `sent in clear text to other machines: ${unencrypted.join(', ')}`,
          'use https://, sslmode=verify-full and rediss://, unless you trust the network between',
        );

  const unchecked = databases.filter(({ sslmode }) => sslmode === 'no-verify');
  const certificates = unchecked.map(({ name }) =>
    warn(
      'certificates',
      `TLS: sslmode=no-verify in ${name} checks no certificate, ` +
        'so anybody between could read and write',
      'use sslmode=verify-full, and name the certificate of the authority as sslrootcert',
    ),
  );

  return [encryption, ...certificates, ...checkProxies(config)];
}

/** A URL of Postgres, by the name of its variable. */
interface NamedDatabase {
  readonly name: string;
  readonly url: URL;
  readonly sslmode: string;
}

const parseUrl = (url: string | undefined) => (url === undefined ? null : parseConnectionUrl(url));

function listDatabases({ DATABASE_URL, DATABASE_DIRECT_URL }: Config): NamedDatabase[] {
  return Object.entries({ DATABASE_URL, DATABASE_DIRECT_URL }).flatMap(([name, given]) => {
    const url = parseUrl(given);
    return url === null ? [] : [{ name, url, sslmode: url.searchParams.get('sslmode') ?? '' }];
  });
}

/** Lists what is sent to other machines in clear text. */
function listUnencrypted(config: Config, databases: readonly NamedDatabase[]): string[] {
  const redis = parseUrl(config.REDIS_URL);
  const alerts = parseUrl(config.ALERT_WEBHOOK_URL);
  const isClear = (url: URL | null, protocol: string) =>
    url?.protocol === protocol && !isLocal(url);

  return [
    ...config.clients
      .filter(({ baseUrl }) => isClear(baseUrl, 'http:'))
      .map(({ key }) => `the service of ${key} (http://)`),
    ...databases
      .filter(({ url, sslmode }) => !isLocal(url) && !encryptedModes.includes(sslmode))
      .map(({ name }) => `Postgres (${name} without sslmode)`),
    ...(isClear(redis, 'redis:') ? ['Redis (redis://)'] : []),
    ...(isClear(alerts, 'http:') ? ['alerts (ALERT_WEBHOOK_URL)'] : []),
    ...config.subscribers
      .filter(({ url }) => isClear(new URL(url), 'http:'))
      .map(({ name }) => `events of ${name} (http://)`),
  ];
}

/** Names the proxies of outgoing requests, without their passwords. */
function checkProxies({ HTTP_PROXY, HTTPS_PROXY, NO_PROXY }: Config): CheckResult[] {
  const proxies = Object.entries({ HTTP_PROXY, HTTPS_PROXY }).flatMap(([name, url]) =>
    url === undefined ? [] : [`${parseUrl(url)?.host} (${name})`],
  );
  if (proxies.length === 0) return [];
  const direct = NO_PROXY === undefined ? '' : `, but for NO_PROXY: ${NO_PROXY}`;
  return [ok('proxy', `requests go by ${proxies.join(' and ')}${direct}`)];
}

/** Returns true for a socket, and for an address that only this machine can reach. */
const isLocal = ({ hostname }: URL) =>
  hostname === '' || isLoopback(hostname.replace(/^\[|\]$/g, ''));

/** Checks where problems are posted to. Shows only the origin, because the path may be secret. */
function checkAlerts({
  ALERT_WEBHOOK_URL: url,
  ALERT_WEBHOOK_SECRET: secret,
}: Config): CheckResult[] {
  if (url === undefined) return [];
  const found = `problems are posted to ${new URL(url).origin}`;
  if (secret !== undefined) return [ok('alerts', `${found}, signed`)];
  const remedy = 'set ALERT_WEBHOOK_SECRET if the receiver can check signatures; Slack cannot';
  return [warn('alerts', `${found}, but not signed`, remedy)];
}

/** Checks where business events are posted to. Shows only origins, because paths may be secret. */
const checkEvents = ({ subscribers, clients: served }: Config): CheckResult[] =>
  subscribers.flatMap(({ name, url, secret, clients }) => {
    const found = `events of ${name} are posted to ${new URL(url).origin}`;
    const remedy = 'set EVENT_WEBHOOK_SECRET, or secret in EVENT_SUBSCRIBERS_FILE';
    const signed =
      secret === undefined
        ? warn('events', `${found}, but not signed`, remedy)
        : ok('events', `${found}, signed`);

    const unknown = (clients ?? []).filter((client) => !served.some(({ key }) => key === client));
    if (unknown.length === 0) return [signed];
    const words = `${name} wants events of ${unknown.join(', ')}, which this worker does not serve`;
    const check = 'check the spelling in EVENT_SUBSCRIBERS_FILE, unless another worker serves it';
    return [signed, warn('events', words, check)];
  });

/**
 * Largest difference of the clocks without a warning. Only log times suffer: due times use the
 * database's clock.
 */
const maxDatabaseSkewMs = 5_000;
/**
 * Number of connections that one worker opens at most with default settings (docs/operations.md).
 */
const workerConnections = 16;

const diskRemedy = 'free space on the disk of Postgres, or enlarge it';
const connectionRemedy =
  'check DATABASE_URL: host, port, database, user and password, ' +
  'and that pg_hba.conf of Postgres allows this machine';

/**
 * Checks that the ERP database can be reached, has the schema of this version, and grants what
 * workers need.
 */
export async function checkDatabase(db: Database): Promise<CheckResult[]> {
  const server = await runCheck('database', connectionRemedy, () => checkServer(db));
  // Without a connection nothing else can be checked.
  if (hasFailed(server)) return server;

  const unusable = (await readUnusableSchemas(db)).join(', ');
  if (unusable !== '') {
    const remedy = `use the role that ran migrate, or: grant usage on schema ${unusable} to <role>`;
    return [...server, fail('grants', `this role may not use schema ${unusable}`, remedy)];
  }

  const schema = await runCheck('schema', 'run: fulfilment-sync migrate', () => checkSchema(db));
  if (hasFailed(schema)) return [...server, ...schema];

  const grants = await runCheck('grants', 'see docs/erp.md', () => checkGrants(db));
  return [...server, ...schema, ...grants];
}

async function checkServer(db: Database): Promise<CheckResult[]> {
  await assertPostgres(db);

  const askedAtMs = Date.now();
  const facts = await readServerFacts(db);
  const skewMs = facts.nowMs - (askedAtMs + Date.now()) / 2;

  return [
    checkWritable(facts),
    facts.encoding === 'UTF8'
      ? ok('encoding', 'UTF8')
      : fail('encoding', `${facts.encoding} cannot store every name`, encodingRemedy),
    checkDurability(facts),
    Math.abs(skewMs) > maxDatabaseSkewMs
      ? warn('clock', describeSkew(skewMs, 'the database'), 'synchronise both clocks (NTP)')
      : ok('clock', 'this machine and the database agree'),
    checkConnections(facts),
    (await hasFullDisk(db))
      ? fail('disk', 'the disk of Postgres is full; nothing is lost', diskRemedy)
      : ok('disk', 'Postgres can write a file'),
  ];
}

function checkWritable({
  readOnly,
  version: serverVersion,
  databaseBytes,
}: ServerFacts): CheckResult {
  if (readOnly) return fail('database', 'it is read-only', readOnlyRemedy);

  const megabytes = Math.round(databaseBytes / 1024 / 1024).toLocaleString('en');
  return ok('database', `Postgres ${serverVersion}, ${megabytes} MB`);
}

/** Names the settings of the server that our sessions cannot change, and that may cost data. */
function checkDurability({ unsafeSettings }: ServerFacts): CheckResult {
  if (unsafeSettings.length === 0) return ok('durability', 'a commit survives a crash of Postgres');

  const found = `a crash or a broken disk may damage data: ${unsafeSettings.join(', ')}`;
  const remedy =
    'reset these settings of Postgres; ' +
    'full_page_writes = off is right only on a file system such as ZFS';
  return warn('durability', found, remedy);
}

function checkConnections({ maxConnections, connections }: ServerFacts): CheckResult {
  const free = maxConnections - connections;
  const found = `${free} of ${maxConnections} are free`;
  if (free >= workerConnections) return ok('connections', found);

  const needed = `${found}; a worker may open ${workerConnections}`;
  return warn('connections', needed, 'raise max_connections, or run fewer workers');
}

async function checkSchema(db: Database): Promise<CheckResult> {
  await assertSchemaFits(db);

  const { missing, unexpected } = await readSchemaDrift(db);
  if (missing.length > 0) {
    const remedy =
      'somebody changed it by hand: restore these from test/schema.sql of this version, ' +
      'or from a backup';
    return fail('schema', `missing: ${listSome(missing, '; ')}`, remedy);
  }
  if (unexpected.length > 0) {
    const remedy =
      'move your tables and columns to another schema: migrations do not take care of them';
    return warn('schema', `not part of this version: ${listSome(unexpected, '; ')}`, remedy);
  }

  return ok('schema', `matches version ${version}`);
}

async function checkGrants(db: Database): Promise<CheckResult[]> {
  const missing = await readMissingGrants(db);
  const roles = await readMissingRoles(db);
  const grantAll =
    'use the role that ran migrate, ' +
    'or grant all on schemas fulfilment, sync and bullmq to this role';
  const createRoles = 'run docs/programs/roles.sql as a superuser';

  return [
    missing.length === 0
      ? ok('grants', 'this role has all rights that workers need')
      : fail('grants', `this role lacks ${listSome(missing)}`, grantAll),
    roles.length === 0
      ? ok('roles', 'fulfilment_reader and fulfilment_writer exist for the ERP')
      : warn('roles', `${roles.join(' and ')}: missing, or without grants`, createRoles),
  ];
}

/**
 * Checks what lies between this machine and Postgres: a pooler may share sessions only before
 * DATABASE_DIRECT_URL.
 */
export function checkSessions(config: Config): Promise<CheckResult[]> {
  return runCheck('sessions', 'see the log of Postgres', async () => {
    const { DATABASE_URL: url = '', DATABASE_DIRECT_URL: direct } = config;
    const sessions = await findSessions(toDirectUrl(config));
    const name = direct === undefined ? 'DATABASE_URL' : 'DATABASE_DIRECT_URL';
    if (sessions === 'shared') {
      const found = `${name} leads to a connection pooler that shares sessions (transaction mode)`;
      const remedy =
        'set DATABASE_DIRECT_URL to the URL of Postgres itself, or of a pool in session mode';
      return fail('sessions', found, remedy);
    }

    const own = `${name} leads ${sessionsInWords[sessions]}`;
    if (direct === undefined) return ok('sessions', own);

    const first = sessionsInWords[await findSessions(url)];
    const found = `DATABASE_URL leads ${first}; ${own}, for LISTEN, leases, pushes and the queue`;
    return ok('sessions', found);
  });
}

const sessionsInWords = {
  direct: 'to Postgres itself',
  pooled: 'to a pooler in session mode',
  shared: 'to a pooler in transaction mode',
};

/** Compares what `migrate` stored of the kinds of rows with what this process knows. */
export async function checkKinds(db: Database, operations: Operations): Promise<CheckResult> {
  const differences = await describeKindDifferences(db, listStoredKinds(operations));
  if (differences === null)
    return ok('kinds', 'the database knows the kinds of rows as this process does');

  return warn(
    'kinds',
    `the database knows these kinds of rows differently: ${differences}`,
    'run: fulfilment-sync migrate, with the same WAREHOUSE_OPERATIONS_FILE as the workers',
  );
}

/** Problems of the list that need no worker to be found. The pages and `status` show the others. */
const shownProblems: readonly ProblemCode[] = [
  'database_changed',
  'database_is_copy',
  'feed_late',
  'notify_queue',
  'stock_off',
];

/** Returns the problems that concern what a worker needs. */
export function checkProblems(problems: readonly Problem[]): CheckResult[] {
  const found = problems.filter(({ code }) => shownProblems.includes(code));
  if (found.length === 0)
    return [ok('problems', 'rows may be sent from this database, and NOTIFY has room')];

  const states = { bad: 'fail', warn: 'warn', note: 'ok' } as const;
  return found.map(({ code, severity, subject, text, remedy }) => ({
    check: code,
    state: states[severity],
    found: `${subject}: ${text}`,
    remedy,
  }));
}

/**
 * Checks whether rows may be sent from the address of this database (docs/which-postgres.md).
 * @param db the database at the address that pushes use
 */
export const checkPlace = (db: Database): Promise<CheckResult[]> =>
  runCheck('address', 'run: fulfilment-sync migrate', async () => {
    const database = await readPushDatabase(db);
    if (database?.acceptedAs === 'copy')
      return ok('address', 'nothing is sent: this database was accepted as a copy');
    if (database === null || database.change !== 'none' || database.isPlaceAccepted) {
      const until = database?.failoverUntil ?? null;
      const expected = until === null ? '' : `; ${describeExpected(until)}`;
      return ok('address', `rows may be sent from the database at this address${expected}`);
    }

    const found = `workers with this URL send nothing yet: ${placeInWords}`;
    const remedy =
      'start a worker that has sent before, so that it can tell; if there is none, ' +
      describeChoice(database.change);
    return warn('address', found, remedy);
  });

/** Checks that an ERP can insert into the outbox. The row is rolled back. */
export const checkInserts = (db: Database): Promise<CheckResult[]> =>
  runCheck('inserts', 'see the log of Postgres; the ERP gets the same error', async () => {
    await tryInsert(db);
    return ok('inserts', 'a row can be inserted into fulfilment.outbox');
  });

/** Compares sequences with the tables that have their numbers. */
export const checkSequences = (db: Database): Promise<CheckResult[]> =>
  runCheck('sequences', 'try again when the database is less busy', async () => {
    const behind = await findSequencesBehind(db);
    if (behind.length === 0) return ok('sequences', 'no number is given out twice');

    const found = `behind the tables, as after a logical replication: ${listSome(behind)}`;
    const remedy =
      'stop the writers, then say what this database is: fulfilment-sync database accept; ' +
      'it raises every sequence';
    return fail('sequences', found, remedy);
  });

/** Checks that the queue can be opened: in Redis if REDIS_URL is set, else in Postgres. */
export async function checkQueue(config: Config, log: Logger): Promise<CheckResult[]> {
  const { REDIS_URL: url } = config;
  if (url === undefined)
    return runCheck('queue', 'run: fulfilment-sync migrate', async () => {
      const { close } = await openQueueBackend(config, toDirectUrl(config), log);
      await close();
      return ok('queue', 'in Postgres (REDIS_URL is not set)');
    });

  const unreachable =
    'check REDIS_URL: host, port and password, and that Redis runs; ' +
    'or unset it to have the queue in Postgres';
  return runCheck('queue', unreachable, async () => {
    const info = await readRedisInfo(url);
    const problem = findRedisProblem(info);
    if (problem !== null) throw problem;

    const redisVersion = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
    const keeps = /^aof_enabled:1/m.test(info)
      ? 'kept on disk'
      : 'not kept on disk (if Redis loses its data, some runs are late)';
    return ok('queue', `in Redis ${redisVersion}, noeviction, ${keeps}`);
  });
}
