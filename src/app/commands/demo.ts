import { setTimeout as wait } from 'node:timers/promises';
import { polledStreams, scheduleVariable } from '../../../config/jobs.ts';
import { streams } from '../../../jobs/registry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readJobStatus } from '../../erp/reports/job-status.ts';
import { countRows, latestLines } from '../../erp/reports/snapshot.ts';
import { print } from '../cli/print.ts';
import { stopSignal } from '../cli/stop-signal.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../demo/embedded-postgres.ts';
import { freePort } from '../demo/free-port.ts';
import { compareWithSandbox } from '../demo/oracle.ts';
import { DemoProcess, startSandbox } from '../demo/processes.ts';
import { DemoView, describeLine } from '../demo/view.ts';
import { connectDatabase } from '../deps/database.ts';
import { openLogger } from '../logging/create-logger.ts';
import { formatTable } from '../terminal/table.ts';
import { migrateDatabase } from './migrate.ts';

export interface DemoOptions {
  readonly once?: boolean;
}

/** Ten virtual minutes a second: an order is shipped within the minute. */
const liveSpeed = 600;
const cycleDays = 14;
const tableNames = streams.flatMap(({ tables }) => [tables.parent, ...tables.children]).map(({ name }) => name);
const waitForRunMs = 60_000;
/** Taken where it is free, so that its address is easy to remember. */
const usualAdminPort = 8080;

/** Shows everything at work on this machine alone, and leaves nothing behind. */
export async function demoCommand({ once = false }: DemoOptions): Promise<number> {
  const stop = stopSignal();
  const started: DemoProcess[] = [];
  let postgres: EmbeddedPostgres | undefined;
  let database: { db: Database; close: () => Promise<void> } | undefined;
  try {
    print('Starting a Postgres of our own …');
    postgres = await startEmbeddedPostgres();
    if (stop.aborted) return 0;
    const log = await openLogger({ level: 'error', pretty: true });
    const applied = await migrateDatabase(postgres.url, log);
    print(`Migrated: ${applied.join(', ')}`);
    if (stop.aborted) return 0;
    const sandbox = await startSandbox(once ? 0 : liveSpeed, started);
    print(`Sandbox of the warehouse service at ${sandbox.href}`);
    database = connectDatabase(postgres.url, log, 'demo', 2);
    const adminPort = await freePort(usualAdminPort);
    const worker = startWorker(postgres.url, sandbox, adminPort, started);
    const page = `http://127.0.0.1:${adminPort}/`;
    print(`Worker started; its status page is ${page}`);
    print(`Look inside: psql '${postgres.url}'\n`);
    const stopped = new Promise<number>((resolve) => {
      if (stop.aborted) resolve(0);
      stop.addEventListener('abort', () => resolve(0));
    });
    const play = once
      ? playOnce(database.db, sandbox)
      : playOn(database.db, sandbox, { databaseUrl: postgres.url, page }, stop);
    return await Promise.race([play, stopped, worker.died()]);
  } finally {
    // Postgres last, so that the worker can give back what it holds.
    await Promise.all(started.map((process) => process.end()));
    await database?.close();
    await postgres?.stop();
  }
}

function startWorker(databaseUrl: string, sandbox: URL, adminPort: number, started: DemoProcess[]): DemoProcess {
  const env = {
    DATABASE_URL: databaseUrl,
    WAREHOUSE_BASE_URL: sandbox.href,
    WAREHOUSE_USERNAME: 'default',
    WAREHOUSE_PASSWORD: 'default',
    ...Object.fromEntries(Object.keys(polledStreams).map((job) => [scheduleVariable(job), '2s'])),
    SCHEDULE_REFRESH_SETTINGS: '10s',
    SCHEDULE_RECONCILE: '10s',
    ADMIN_PORT: String(adminPort),
    LOG_LEVEL: 'error',
    LOG_PRETTY: 'false',
  };
  const worker = new DemoProcess(['worker'], env, (line) => process.stderr.write(`worker: ${line}\n`));
  started.push(worker);
  return worker;
}

/** Redraws until stopped. */
async function playOn(
  db: Database,
  sandbox: URL,
  { databaseUrl, page }: { readonly databaseUrl: string; readonly page: string },
  stop: AbortSignal,
): Promise<number> {
  await advance(sandbox, 2);
  const view = new DemoView(
    db,
    [
      `fulfilment-sync demo, ${liveSpeed} virtual seconds a second`,
      `status page  ${page}`,
      `sandbox      ${sandbox.href}`,
      `database     psql '${databaseUrl}'`,
    ].join('\n'),
  );
  while (!stop.aborted) {
    await view.draw();
    // Stopped in the middle of the wait: the loop sees it.
    await wait(1_000, undefined, { signal: stop }).catch(() => undefined);
  }
  return 0;
}

/** Days of warehouse life are pulled, half an hour more goes by, its changes are pulled; then tables and sandbox are compared. */
async function playOnce(db: Database, sandbox: URL): Promise<number> {
  await advance(sandbox, cycleDays);
  await waitForRuns(db);
  await advance(sandbox, 1 / 48);
  await waitForRuns(db);
  const differences = await compareWithSandbox(db, sandbox);
  const counts = Object.entries(await countRows(db, tableNames));
  print(formatTable(['table', 'rows'], counts));
  print('\nSome lines of parcels, with the order each is for:');
  for (const line of await latestLines(db, 5)) print(describeLine(line));
  if (differences.length === 0) {
    print('\nEvery row is what the sandbox holds.');
    return 0;
  }
  print(`\n${differences.length} differences between the tables and the sandbox:`);
  for (const difference of differences.slice(0, 20)) print(`  ${difference}`);
  return 1;
}

async function advance(sandbox: URL, days: number): Promise<void> {
  const answer = await fetch(new URL('/_sandbox/advance', sandbox), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ seconds: days * 86_400 }),
  });
  if (!answer.ok) throw new Error(`The sandbox did not advance: ${answer.status}`);
}

/** Waits until every job that comes round before long has begun anew, and ended well. */
async function waitForRuns(db: Database): Promise<void> {
  const before = new Map(
    (await readJobStatus(db)).map(({ job, lastStartedAt }) => [job, lastStartedAt?.getTime() ?? 0]),
  );
  const deadlineMs = performance.now() + waitForRunMs;
  for (;;) {
    const soon = Date.now() + waitForRunMs;
    const rows = (await readJobStatus(db)).filter(
      ({ dueAt, running }) => running || (dueAt !== null && dueAt.getTime() < soon),
    );
    const failed = rows.find(({ lastError }) => lastError !== null);
    if (failed) throw new Error(`${failed.job} failed: ${failed.lastError}`);
    const done = rows.filter(
      ({ job, running, lastOutcome, lastStartedAt }) =>
        !running && lastOutcome === 'done' && (lastStartedAt?.getTime() ?? 0) > (before.get(job) ?? 0),
    );
    if (rows.length > 0 && done.length === rows.length) return;
    if (performance.now() > deadlineMs)
      throw new Error(`The worker did not finish its runs within ${waitForRunMs / 1_000} s`);
    await wait(100);
  }
}
