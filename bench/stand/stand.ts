import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { jobNames, toScheduleVariable } from '../../config/jobs.ts';
import { startEmbeddedPostgres } from '../../src/cli/demo/embedded-postgres.ts';
import { SandboxControl } from '../../test/helpers/sandbox-control.ts';

const thisCheckout = fileURLToPath(new URL('../..', import.meta.url));
const toEntryPath = (checkout: string) => join(checkout, 'src/cli/main.ts');

/** Settings of Postgres. As in production, commits are written to the disk. */
const postgresSettings = {
  fsync: 'on',
  full_page_writes: 'on',
  track_wal_io_timing: 'on',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track_planning': 'on',
};

/** Settings that turn all schedules off, so that no run starts by itself. */
export const schedulesOff = Object.fromEntries(
  jobNames.map((job) => [toScheduleVariable(job), 'off']),
);

/**
 * A migrated Postgres, a sandbox in a separate process, and ways to start the commands of the
 * measured program.
 */
export interface Stand {
  readonly url: string;
  readonly sandbox: SandboxControl;
  readonly sandboxPid: number | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** The words before a command of the measured program. */
  readonly program: readonly string[];
  query<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  /** Starts a program. */
  start(program: readonly string[], more?: Readonly<Record<string, string>>): ChildProcess;
  /**
   * Runs a command to its end, and returns its output. Throws if it fails, unless `anyEnd` is true.
   */
  run(
    args: readonly string[],
    more?: Readonly<Record<string, string>>,
    anyEnd?: boolean,
    program?: string,
  ): Promise<string>;
  /** Starts a worker, and waits until it works. `base` replaces the usual settings. */
  startWorker(
    more?: Readonly<Record<string, string>>,
    base?: Readonly<Record<string, string>>,
    program?: string,
  ): Promise<ChildProcess>;
  stop(): Promise<void>;
}

function openBenchPool(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, application_name: 'bench', max: 4 });
  // Postgres may stop before the sessions of the ended pool are closed.
  pool.on('error', () => undefined);
  return pool;
}

/**
 * Starts a Postgres and a sandbox, and migrates the database.
 * @param checkout folder of the measured program; the sandbox and the Postgres are always those of
 *   this checkout
 * @param more settings of Postgres besides the usual ones
 */
export async function openStand(
  clients: readonly string[] = ['default'],
  checkout = thisCheckout,
  more: Readonly<Record<string, string>> = {},
): Promise<Stand> {
  const entry = toEntryPath(checkout);
  const children: ChildProcess[] = [];
  // Kills the processes even if a benchmark fails.
  const endAll = () => {
    for (const child of children) child.kill('SIGKILL');
  };
  process.once('exit', endAll);
  const { PATH = '', HOME = '', TMPDIR = '/tmp' } = process.env;
  const start = (program: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const child = spawn(process.execPath, program, {
      env: { PATH, HOME, TMPDIR, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    return child;
  };
  const postgres = await startEmbeddedPostgres({ ...postgresSettings, ...more });
  await collectOutput(start([entry, 'migrate'], { DATABASE_URL: postgres.url }), 'migrate');
  const pool = openBenchPool(postgres.url);
  await pool.query('create extension pg_stat_statements');
  const args = [
    'sandbox',
    '--port',
    '0',
    '--speed',
    '0',
    '--orders-per-day',
    '0',
    '--clients',
    clients.join(','),
  ];
  const sandbox = start([toEntryPath(thisCheckout), ...args]);
  const address = await waitForLine(sandbox, 'Sandbox at ');
  const control = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(address)?.[1] ?? ''));
  const first = clients[0] ?? 'default';
  const env = {
    DATABASE_URL: postgres.url,
    WAREHOUSE_BASE_URL: control.url.href,
    WAREHOUSE_USERNAME: first,
    WAREHOUSE_PASSWORD: first,
    ADMIN_PORT: '0',
    LOG_PRETTY: 'false',
    LOG_LEVEL: 'warn',
  };
  return {
    url: postgres.url,
    sandbox: control,
    sandboxPid: sandbox.pid,
    env,
    program: [entry],
    query: async (text, values) => (await pool.query(text, values)).rows,
    start: (program, more = {}) => start(program, more),
    run: async (args, more = {}, anyEnd = false, program = entry) =>
      collectOutput(start([program, ...args], { ...env, ...more }), args.join(' '), anyEnd),
    startWorker: async (more = {}, base = env, program = entry) => {
      const worker = start([program, 'worker'], { ...base, LOG_LEVEL: 'info', ...more });
      await waitForLine(worker, 'worker_started');
      worker.stdout?.resume();
      return worker;
    },
    stop: async () => {
      for (const child of children) await endProcess(child);
      process.off('exit', endAll);
      await pool.end();
      await postgres.stop();
    },
  };
}

/**
 * Creates the settings for these clients, which replace those for one client. `close` deletes the
 * clients file.
 */
export function createSettings({ env, sandbox }: Stand, clients: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-bench-'));
  const file = join(folder, 'clients.json');
  const entries = clients.map((key) => ({
    key,
    baseUrl: sandbox.url.href,
    username: key,
    password: key,
  }));
  writeFileSync(file, JSON.stringify(entries));
  const {
    WAREHOUSE_BASE_URL: _url,
    WAREHOUSE_USERNAME: _user,
    WAREHOUSE_PASSWORD: _password,
    ...rest
  } = env;
  const settings: Record<string, string> = { ...rest, WAREHOUSE_CLIENTS_FILE: file };
  return { settings, close: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Stops a process, and waits until it has ended. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

/** Returns everything that a program writes until it ends. */
export async function collectOutput(
  child: ChildProcess,
  name: string,
  anyEnd = false,
): Promise<string> {
  let output = '';
  child.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0 && !anyEnd) throw new Error(`${name} ended with ${code}: ${output}`);
  return output;
}

/** Waits for the first line that contains `text`. */
async function waitForLine(child: ChildProcess, text: string): Promise<string> {
  if (child.stdout)
    for await (const line of createInterface({ input: child.stdout }))
      if (line.includes(text)) return line;
  throw new Error(`A process ended before it wrote ${text}`);
}

/**
 * Returns the rows per second of the last run or rescan, from its times in sync.runs or
 * sync.rescans.
 */
export async function readLastRate(
  stand: Stand,
  ledger: 'runs' | 'rescans',
  rowsEach: number,
): Promise<number> {
  const [last] = await stand.query<{ rate: number }>(
    `select fetched * ${rowsEach} / extract(epoch from finished_at - started_at)::float8 as rate
     from sync.${ledger} order by id desc limit 1`,
  );
  return last?.rate ?? Number.NaN;
}
