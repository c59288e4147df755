import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { jobNames, scheduleVariable } from '../../config/jobs.ts';
import { startEmbeddedPostgres } from '../../src/app/demo/embedded-postgres.ts';
import { SandboxControl } from '../../test/helpers/sandbox-control.ts';

const here = fileURLToPath(new URL('../..', import.meta.url));
const entryOf = (checkout: string) => join(checkout, 'src/app/main.ts');

/** As in production: what is committed is on the disk. */
const postgresSettings = {
  fsync: 'on',
  full_page_writes: 'on',
  track_wal_io_timing: 'on',
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track_planning': 'on',
};

/** Schedules off: nothing runs by itself. */
export const schedulesOff = Object.fromEntries(jobNames.map((job) => [scheduleVariable(job), 'off']));

/** A Postgres with the product's schema, a sandbox in a process of its own, and the product's commands beside them. */
export interface Stand {
  readonly url: string;
  readonly sandbox: SandboxControl;
  readonly sandboxPid: number | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** What runs a command of the product. */
  readonly program: readonly string[];
  query<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>;
  /** Starts a program. */
  start(program: readonly string[], more?: Readonly<Record<string, string>>): ChildProcess;
  /** Runs a command of the product to its end; one that fails is an error, unless `anyEnd`. */
  run(
    args: readonly string[],
    more?: Readonly<Record<string, string>>,
    anyEnd?: boolean,
    program?: string,
  ): Promise<string>;
  /** Starts a worker, and waits until it works; `base` in place of the usual settings. */
  startWorker(
    more?: Readonly<Record<string, string>>,
    base?: Readonly<Record<string, string>>,
    program?: string,
  ): Promise<ChildProcess>;
  stop(): Promise<void>;
}

/** @param checkout where the product stands that is measured; the sandbox and the Postgres are always our own */
export async function openStand(clients: readonly string[] = ['default'], checkout = here): Promise<Stand> {
  const entry = entryOf(checkout);
  const children: ChildProcess[] = [];
  // Also where a benchmark fails.
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
  const postgres = await startEmbeddedPostgres(postgresSettings);
  await outputOf(start([entry, 'migrate'], { DATABASE_URL: postgres.url }), 'migrate');
  const pool = new pg.Pool({ connectionString: postgres.url, application_name: 'bench', max: 4 });
  await pool.query('create extension pg_stat_statements');
  const args = ['sandbox', '--port', '0', '--speed', '0', '--orders-per-day', '0', '--clients', clients.join(',')];
  const sandbox = start([entryOf(here), ...args]);
  const told = await lineWith(sandbox, 'Sandbox at ');
  const control = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(told)?.[1] ?? ''));
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
      outputOf(start([program, ...args], { ...env, ...more }), args.join(' '), anyEnd),
    startWorker: async (more = {}, base = env, program = entry) => {
      const worker = start([program, 'worker'], { ...base, LOG_LEVEL: 'info', ...more });
      await lineWith(worker, 'worker_started');
      worker.stdout?.resume();
      return worker;
    },
    stop: async () => {
      for (const child of children) await end(child);
      process.off('exit', endAll);
      await pool.end();
      await postgres.stop();
    },
  };
}

/** Settings for these clients, in place of those for one; `close` deletes the file they stand in. */
export function settingsFor({ env, sandbox }: Stand, clients: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-bench-'));
  const file = join(folder, 'clients.json');
  const entries = clients.map((key) => ({ key, baseUrl: sandbox.url.href, username: key, password: key }));
  writeFileSync(file, JSON.stringify(entries));
  const { WAREHOUSE_BASE_URL: _url, WAREHOUSE_USERNAME: _user, WAREHOUSE_PASSWORD: _password, ...rest } = env;
  const settings: Record<string, string> = { ...rest, WAREHOUSE_CLIENTS_FILE: file };
  return { settings, close: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Ends a process, and waits until it has ended. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

/** What a program wrote until it ended. */
export async function outputOf(child: ChildProcess, name: string, anyEnd = false): Promise<string> {
  let output = '';
  child.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0 && !anyEnd) throw new Error(`${name} ended with ${code}: ${output}`);
  return output;
}

/** The first line that holds `text`. */
async function lineWith(child: ChildProcess, text: string): Promise<string> {
  if (child.stdout)
    for await (const line of createInterface({ input: child.stdout })) if (line.includes(text)) return line;
  throw new Error(`A process ended that was to say ${text}`);
}

/** Rows a second of what the product did last, as its ledger has it: from its first statement to its last commit. */
export async function lastRate(stand: Stand, ledger: 'runs' | 'rescans', rowsEach: number): Promise<number> {
  const [last] = await stand.query<{ rate: number }>(
    `select fetched * ${rowsEach} / extract(epoch from finished_at - started_at)::float8 as rate
     from sync.${ledger} order by id desc limit 1`,
  );
  return last?.rate ?? Number.NaN;
}
