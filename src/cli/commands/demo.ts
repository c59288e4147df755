import { type ChildProcess, fork } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import type { Command } from 'commander';
import getPort from 'get-port';
import { removeVariables } from '../../../config/env.ts';
import { defaultTimeZone } from '../../../config/files.ts';
import { polledStreams, toScheduleVariable } from '../../../config/jobs.ts';
import { databaseUrl as databaseUrlSchema } from '../../../config/values.ts';
import { programs } from '../../core/installation.ts';
import type { Logger } from '../../core/logger.ts';
import { dayMs, hourMs } from '../../core/time.ts';
import { connectDatabase } from '../../db/connect.ts';
import { readKnownMigrations } from '../../db/migration-files.ts';
import type { Database } from '../../db/pool.ts';
import { readMissingMigrations } from '../../db/schema-fit.ts';
import { readSnapshot } from '../../operate/health/state.ts';
import { openLogger } from '../../operate/logging/create-logger.ts';
import { readJobStatus } from '../../operate/sql/job-status.ts';
import { countRows } from '../../operate/sql/stored-rows.ts';
import { nameArticles } from '../../pull/sql/stock-rows.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { listOutbox } from '../../push/sql/read-outbox.ts';
import { defaultOrdersPerDay } from '../../sandbox/options.ts';
import { createSandbox } from '../../sandbox/server/server.ts';
import { World } from '../../sandbox/world.ts';
import {
  addCommand,
  createStopSignal,
  exitWith,
  outputClosed,
  print,
  printError,
  printStyled,
  UsageError,
} from '../command-line.ts';
import { startEmbeddedPostgres } from '../demo/embedded-postgres.ts';
import { formatTable } from '../table.ts';
import { migrateDatabase } from './migrate.ts';

interface DemoOptions {
  readonly once?: boolean;
  /** URL of an empty database that is used instead of a temporary Postgres. */
  readonly database?: string;
}

/** Virtual seconds per second. At this speed an order is being picked within a minute. */
const liveSpeed = 60;
/** Days of history. They end a day ago, so that the virtual time stays near the present. */
const cycleDays = 14;

const tableNames = [
  ...streams.flatMap(({ tables }) => [tables.parent, ...tables.children]).map(({ name }) => name),
  'track_traces',
  'parcels',
  'stock_levels',
];
const waitForRunsMs = 60_000;

/** Seconds between two lines of changed rows, and between two lists of the addresses. */
const secondsOfChanges = 10;
const secondsOfAddresses = 60;
const maxRows = 1_000;

/** Articles of the sandbox's shop whose stock is pulled. */
const watchedSkus = ['MUG-BLUE', 'TEA-500', 'CREAM-50'];
/** Articles of the sandbox's shop that are never shipped. */
const serviceSkus = ['SHIPPING', 'DISCOUNT'];

/**
 * Ports of the status page and of the API, if they are free. A fixed port is easy to remember, but
 * nobody looks at a demo with `--once`, and several may begin at the same moment.
 */
const preferredPorts = { admin: 8080, api: 8070 };

/** What the worker listens on, and the token of its API. */
interface DemoServers {
  readonly adminPort: number;
  readonly apiPort: number;
  readonly token: string;
  /** Folder of the file that names the token. */
  readonly folder: string;
}

/**
 * Runs a temporary Postgres, a sandbox and a worker, shows what they do, and deletes everything at
 * the end.
 */
async function demoCommand({ once = false, database: given }: DemoOptions): Promise<number> {
  const stop = AbortSignal.any([createStopSignal(), outputClosed]);
  const servers = await prepareServers(once);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => deleteToken(servers));

  const log = await openLogger({ LOG_LEVEL: 'error', LOG_PRETTY: true });
  const url = given ?? (await openPostgres(opened));
  if (given !== undefined) await assertEmpty(given, log);
  if (stop.aborted) return 0;

  print(`Migrated: ${(await migrateDatabase(url, log)).join(', ')}`);
  if (stop.aborted) return 0;

  const { db, close } = connectDatabase(url, log, { name: 'demo', max: 2 });
  opened.defer(close);
  await nameArticles(db, 'fulfilment.stock_watch', 'default', watchedSkus);
  await nameArticles(db, 'fulfilment.service_products', 'default', serviceSkus);

  const { world, sandbox } = await openSandbox(opened, once ? 0 : liveSpeed);
  const worker = startWorker(url, sandbox, servers);
  opened.defer(() => endWorker(worker));

  const addresses = describeAddresses(url, sandbox, servers);
  print(addresses);
  if (!once) print(describeOrder(given === undefined));

  const play = once
    ? playOnce(db, world)
    : deleteReadToken(servers, stop).then(() => playUntilStopped(db, stop, addresses));
  return await Promise.race([play, endsAt(stop), failOnExit(worker)]);
}

/** Starts a Postgres that ends with the demo, after all that uses it. */
async function openPostgres(opened: AsyncDisposableStack): Promise<string> {
  print('Starting a temporary Postgres …');
  const postgres = await startEmbeddedPostgres();
  opened.defer(() => postgres.stop());
  return postgres.url;
}

/** Starts a sandbox with a history, so that the worker's first look finds rows of every kind. */
async function openSandbox(opened: AsyncDisposableStack, speed: number) {
  const startMs = Date.now() - (cycleDays + 1) * dayMs;
  const options = { clients: ['default'], seed: 1, ordersPerDay: defaultOrdersPerDay };
  const world = new World(
    { ...options, zone: defaultTimeZone, speed, startMs, lateChanges: true },
    { strict: true },
  );
  world.clock.advance(cycleDays * dayMs);

  const app = createSandbox(world);
  opened.defer(() => app.close());
  return { world, sandbox: new URL(await app.listen({ host: '127.0.0.1', port: 0 })) };
}

const endsAt = (stop: AbortSignal) =>
  new Promise<number>((resolve) => {
    if (stop.aborted) resolve(0);
    stop.addEventListener('abort', () => resolve(0));
  });

/** Finds free ports, and makes a token for the API. */
async function prepareServers(isOnce: boolean): Promise<DemoServers> {
  const findPort = (port: number) => getPort({ host: '127.0.0.1', ...(isOnce ? {} : { port }) });
  const adminPort = await findPort(preferredPorts.admin);
  const apiPort = await findPort(preferredPorts.api);
  const token = randomBytes(18).toString('base64url');
  const sha256 = createHash('sha256').update(token).digest('hex');
  const entry = { name: 'demo', sha256, client: 'default', rights: ['read', 'write'] };

  const folder = await mkdtemp(join(tmpdir(), 'fulfilment-sync-demo-'));
  await writeFile(join(folder, tokensFile), JSON.stringify([entry]));
  return { adminPort, apiPort, token, folder };
}

const tokensFile = 'tokens.json';

/** Deletes the file with the token. */
const deleteToken = ({ folder }: DemoServers) => rm(folder, { recursive: true, force: true });

/** Deletes the file with the token when the worker has read it: the demo may be killed later. */
async function deleteReadToken(servers: DemoServers, stop: AbortSignal): Promise<void> {
  const address = `http://127.0.0.1:${servers.apiPort}/openapi.json`;
  const isUp = async () => (await fetch(address).catch(() => null))?.ok === true;
  while (!stop.aborted && !(await isUp())) await wait(200);
  await deleteToken(servers);
}

/**
 * @throws UsageError if it is not the URL of a database, or if the database has tables of this
 * program: the demo must not mix its rows with real ones
 */
async function assertEmpty(url: string, log: Logger): Promise<void> {
  const [issue] = databaseUrlSchema.safeParse(url).error?.issues ?? [];
  if (issue !== undefined) throw new UsageError(`--database: ${issue.message}`);

  const { db, close } = connectDatabase(url, log, { name: 'demo', max: 1 });
  const known = await readKnownMigrations();
  const missing = await readMissingMigrations(db, known).finally(close);

  if (missing.length < known.length)
    throw new UsageError(
      '--database: it has tables of fulfilment-sync; name an empty database, such as a new one',
    );
}

function startWorker(
  databaseUrl: string,
  sandbox: URL,
  { adminPort, apiPort, folder }: DemoServers,
): ChildProcess {
  const env = {
    // Settings of this process are not passed on: they may name a real database.
    ...removeVariables(),
    DATABASE_URL: databaseUrl,
    WAREHOUSE_BASE_URL: sandbox.href,
    WAREHOUSE_USERNAME: 'default',
    WAREHOUSE_PASSWORD: 'default',
    ...Object.fromEntries(Object.keys(polledStreams).map((job) => [toScheduleVariable(job), '2s'])),
    SCHEDULE_REFRESH_SETTINGS: '10s',
    SCHEDULE_RECONCILE: '5s',
    SCHEDULE_PULL_STOCK: '10s',
    SCHEDULE_PULL_PARCELS: '2s',
    REQUESTS_PER_SECOND: '1000',
    ADMIN_PORT: String(adminPort),
    API_PORT: String(apiPort),
    API_TOKENS_FILE: join(folder, tokensFile),
    // What fails is told from the database.
    LOG_LEVEL: 'fatal',
    LOG_PRETTY: 'false',
  };

  // The child is detached, so that Ctrl-C reaches only this process, which then ends the others in
  // the right order. It ends when this process ends, however that happens.
  const worker = fork(programs.main, ['worker'], {
    detached: true,
    env,
    execArgv: [],
    silent: true,
  });
  for (const stream of [worker.stdout, worker.stderr])
    if (stream)
      createInterface({ input: stream }).on('line', (line) => printError(`worker: ${line}`));
  return worker;
}

async function failOnExit(worker: ChildProcess): Promise<never> {
  const [code, signal] = await once(worker, 'exit');
  throw new Error(`The worker ended by itself (${signal ?? `exit code ${code}`})`);
}

async function endWorker(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return;

  const ended = once(worker, 'exit').then(() => true);
  worker.kill('SIGTERM');
  if (await Promise.race([ended, wait(endWithinMs, false, { ref: false })])) return;

  worker.kill('SIGKILL');
  await ended;
}

/** The command that starts this program. */
const program = programs.main.href.endsWith('.ts')
  ? 'npm run --silent fulfilment-sync --'
  : 'fulfilment-sync';

const describeAddresses = (
  databaseUrl: string,
  sandbox: URL,
  { adminPort, apiPort, token }: DemoServers,
) => `
Status page:  http://127.0.0.1:${adminPort}/
Sandbox:      ${sandbox.href}
Tables:       psql '${databaseUrl}'
API:          API=http://127.0.0.1:${apiPort} TOKEN=${token}
Problems:     DATABASE_URL='${databaseUrl}' SCHEDULE_PULL_STOCK=10s ${program} status
`;

/** Says what to insert, what to read, and how the demo ends. */
const describeOrder = (isTemporary: boolean) => `Order something in psql:
  insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'SO-1001', '{
    "externalOrderNumber": "SO-1001", "orderType": "B2C", "locale": "nl-NL",
    "items": [{"sku": "MUG-BLUE", "quantity": 2}],
    "deliveryAddress": {"lastName": "Jansen", "street1": "Keizersgracht", "houseNumber": "12",
                        "postcode": "1015CJ", "city": "Amsterdam", "countryCode": "NL"}}');
Within a minute it is being picked; Ship on the page of the sandbox ships it:
  select state, shipped, to_come from fulfilment.order_overview
  where external_order_number = 'SO-1001';
Ctrl-C ends the demo${isTemporary ? ' and removes everything' : '; its rows stay in the database'}.
`;

/**
 * Prints rows of the outbox as they end, runs that fail, what runs changed, and now and then the
 * addresses.
 */
async function playUntilStopped(
  db: Database,
  stop: AbortSignal,
  addresses: string,
): Promise<number> {
  const tellRuns = createRunTeller(db);
  const tellOutbox = createOutboxTeller(db);

  for (let second = 1; !stop.aborted; second++) {
    await tellRuns(second);
    await tellOutbox();

    if (second % secondsOfAddresses === 0) print(addresses);
    // An abort ends the wait; the loop then ends.
    await wait(1_000, undefined, { signal: stop }).catch(() => undefined);
  }
  return 0;
}

const printWithTime = (text: string) => print(`${new Date().toISOString().slice(11, 19)} ${text}`);

/**
 * Returns a function that tells which runs have failed since the last call, and now and then how
 * many rows runs have changed.
 */
function createRunTeller(db: Database): (second: number) => Promise<void> {
  const lastRuns = new Map<string, number>();
  const changed = new Map<string, number>();

  return async (second) => {
    for (const { job, lastStartedAt, lastChanged, lastError, running } of await readJobStatus(db)) {
      if (running || lastStartedAt === null || lastRuns.get(job) === lastStartedAt.getTime())
        continue;

      lastRuns.set(job, lastStartedAt.getTime());
      if (lastError !== null) printWithTime(`${job} failed: ${lastError}`);
      if (lastChanged > 0) changed.set(job, (changed.get(job) ?? 0) + lastChanged);
    }

    if (second % secondsOfChanges === 0 && changed.size > 0) {
      printWithTime(
        `rows changed: ${[...changed].map(([job, rows]) => `${job} ${rows}`).join(', ')}`,
      );
      changed.clear();
    }
  };
}

/** Returns a function that tells which rows of the outbox have ended since the last call. */
function createOutboxTeller(db: Database): () => Promise<void> {
  const told = new Map<number, string>();

  return async () => {
    for (const { id, kind, reference, status, because } of await listOutbox(db, {}, maxRows)) {
      if (told.get(id) === status || status === 'pending' || status === 'sending') continue;

      told.set(id, status);
      printWithTime(
        `outbox: ${kind} ${reference} is ${status}${because === null ? '' : `: ${because}`}`,
      );
    }
  };
}

/**
 * Waits for the rows of 14 virtual days, then for the changes of another half hour, and prints what
 * is stored.
 */
async function playOnce(db: Database, world: World): Promise<number> {
  await findLastingDifferences(db);
  world.clock.advance(hourMs / 2);
  const differences = await findLastingDifferences(db);

  const counts = Object.entries(await countRows(db, tableNames));
  printStyled(formatTable(counts.map(([table, rows]) => ({ table, rows }))));
  if (differences.length === 0) {
    print('\nThe tables equal the sandbox in every row.');
    return 0;
  }

  print('\nThe tables and the sandbox differ:');
  for (const difference of differences) print(`  ${difference}`);
  return 1;
}

/**
 * Waits until every job has run, and a reconciliation that began after this call finds no
 * difference. Waits a minute at most.
 * @returns what then still differs, and what has failed
 */
async function findLastingDifferences(db: Database): Promise<string[]> {
  const { now: since } = await readSnapshot(db);
  const deadlineMs = performance.now() + waitForRunsMs;

  for (;;) {
    const { now, jobs, streams: compared } = await readSnapshot(db);
    const soonMs = now.getTime() + waitForRunsMs;
    const toRun = jobs.filter(
      ({ lastStartedAt, dueAt }) =>
        lastStartedAt === null && dueAt !== null && dueAt.getTime() < soonMs,
    );
    const hasCompared = jobs.some(
      ({ job, running, lastStartedAt }) =>
        job === 'reconcile' && !running && lastStartedAt !== null && lastStartedAt > since,
    );
    const differing = compared.filter(({ missing, stale, extra }) => missing || stale || extra);

    const isOver = performance.now() > deadlineMs;
    if (isOver || (hasCompared && toRun.length + differing.length === 0))
      return [
        ...(hasCompared ? [] : ['no reconciliation has ended']),
        ...toRun.map(({ job }) => `${job} has not run`),
        ...differing.map(
          ({ stream, missing, stale, extra }) =>
            `${stream}: missing ${missing}, stale ${stale}, extra ${extra}`,
        ),
        ...jobs.flatMap(({ job, lastError }) => (lastError ? [`${job} failed: ${lastError}`] : [])),
      ];
    await wait(500);
  }
}

/** Adds `demo`. */
export function addDemoCommand(cli: Command): void {
  addCommand(cli, {
    name: 'demo',
    description: 'start a temporary Postgres, a sandbox and a worker, and show what they do',
    examples: '--once',
  })
    .option(
      '--database <url>',
      'an empty database to use, and to leave with its rows, instead of a temporary Postgres',
    )
    .option(
      '--once',
      'run one full cycle, compare the tables with the sandbox, print a summary, and end',
    )
    .action(exitWith(demoCommand));
}

const endWithinMs = 3_000;
