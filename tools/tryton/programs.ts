/** The programs of the test: Tryton and its database, the sandbox and a worker. */

import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import { migrateDatabase } from '../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../src/core/logger.ts';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../test/helpers/processes/embedded-postgres.ts';
import { memoryFolder } from '../../test/helpers/processes/memory-folder.ts';
import { postgresBin } from '../../test/helpers/processes/test-servers.ts';
import { SandboxControl } from '../../test/helpers/sandbox-control.ts';
import { queryAt } from '../chaos/servers.ts';

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const example = fileURLToPath(new URL('../../examples/tryton/fulfilment', import.meta.url));
const shop = fileURLToPath(new URL('shop.py', import.meta.url));

/** The Python of Debian, which finds the packages of Tryton. */
const python = '/usr/bin/python3';
const modules = ['purchase', 'sale_amendment', 'stock_lot'];
const password = 'erp';
const token = 'token-of-tryton';
/** Making the database takes a minute of processor time, and much longer on a busy machine. */
const setUpMs = 30 * 60_000;

/** Returns whether Tryton, the modules that the example needs, and its client library are there. */
export function hasTryton(): boolean {
  const needed = ['proteus', 'psycopg2', ...modules.map((name) => `trytond.modules.${name}`)];
  try {
    execFileSync(python, ['-c', needed.map((name) => `import ${name}`).join('\n')], {
      stdio: 'ignore',
    });
    return true;
  } catch (error) {
    if (error instanceof Error && ('status' in error || 'code' in error)) return false;
    throw error;
  }
}

/** Starts a program that Linux kills when this process ends, however that happens. */
function spawnTied(command: readonly string[], options: SpawnOptions): ChildProcess {
  const args = ['--pdeathsig', 'KILL', '--', ...command];
  return spawn('setpriv', args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
}

interface ProgramOptions {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted when the test is over: then the program is not started again. */
  readonly signal: AbortSignal;
}

/** A program that is killed and started again. Its output goes to a file. */
export class Program {
  readonly #start: () => ChildProcess;
  readonly #signal: AbortSignal;
  #child: ChildProcess;

  constructor(name: string, command: readonly string[], options: ProgramOptions) {
    const { folder, env, signal } = options;
    const output = createWriteStream(join(folder, `${name}.log`), { flags: 'a' });
    this.#signal = signal;
    this.#start = () => {
      const child = spawnTied(command, { env });
      child.stdout?.pipe(output, { end: false });
      child.stderr?.pipe(output, { end: false });
      return child;
    };
    this.#child = this.#start();
  }

  /** Ends the program, and waits until it has ended. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }

  async restart(signal: NodeJS.Signals): Promise<void> {
    await this.end(signal);
    this.#signal.throwIfAborted();
    this.#child = this.#start();
  }
}

interface Ended {
  readonly succeeded: boolean;
  readonly output: string;
  readonly errors: string;
}

/** Runs a program to its end. */
async function run(command: readonly string[], options: SpawnOptions): Promise<Ended> {
  const child = spawnTied(command, options);
  const written = { output: '', errors: '' };
  child.stdout?.on('data', (chunk: Buffer) => {
    written.output += chunk.toString();
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    written.errors += chunk.toString();
  });

  const [code] = await once(child, 'close');
  return { ...written, succeeded: code === 0 };
}

/** All programs of one test, and the ways to use them. */
export class Programs {
  readonly postgres: EmbeddedPostgres;
  /** Databases of Tryton and of fulfilment-sync: the same one, unless Tryton uses the API. */
  readonly urls: Readonly<Record<'erp' | 'fulfilment', string>>;
  readonly folder: string;
  readonly sandbox: SandboxControl;
  readonly named: Readonly<Record<'sandbox' | 'worker' | 'tryton' | 'cron', Program>>;
  readonly #shopUrl: string;
  readonly #over: AbortController;

  private constructor(
    parts: Pick<Programs, 'postgres' | 'urls' | 'folder' | 'sandbox' | 'named'>,
    shopUrl: string,
    over: AbortController,
  ) {
    this.#over = over;
    this.postgres = parts.postgres;
    this.urls = parts.urls;
    this.folder = parts.folder;
    this.sandbox = parts.sandbox;
    this.named = parts.named;
    this.#shopUrl = shopUrl;
  }

  /**
   * Makes the databases, and starts everything on loopback.
   * @param usesApi whether Tryton and fulfilment-sync have a database each
   */
  static async start(usesApi: boolean, tell: (text: string) => void): Promise<Programs> {
    const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-tryton-'));
    const postgres = await startEmbeddedPostgres({}, memoryFolder(), postgresBin);
    const urls = await makeDatabases(postgres.url, usesApi);

    const ports = { tryton: await getPort(), sandbox: await getPort(), api: await getPort() };
    const config = writeConfig(folder, {
      host: new URL(postgres.url).host,
      port: ports.tryton,
      api: usesApi ? `api = http://127.0.0.1:${ports.api}\ntoken = ${token}\n` : '',
    });
    const { PATH = '', HOME = '' } = process.env;
    const env = {
      PATH,
      HOME,
      PYTHONPATH: installExample(folder),
      PYTHONDONTWRITEBYTECODE: '1',
      TRYTONPASSFILE: join(folder, 'password'),
    };
    const names = ['-c', config, '-d', 'erp'];
    const update = ['-u', 'fulfilment', '--activate-dependencies', '--email', 'a@example.com'];
    const admin = ['/usr/bin/trytond-admin', ...names, ...update] as const;
    const made = await run([python, ...admin], { env, timeout: setUpMs });
    if (!made.succeeded) throw new Error(`trytond-admin failed: ${made.errors}`);
    tell('Tryton has its database');

    const service = `http://127.0.0.1:${ports.sandbox}/`;
    const sandboxArgs = ['--speed', '0', '--orders-per-day', '0', '--port', `${ports.sandbox}`];
    const state = join(folder, 'sandbox.json');
    const over = new AbortController();
    const open = (name: string, command: readonly string[], more: NodeJS.ProcessEnv = {}) =>
      new Program(name, command, { folder, env: { ...env, ...more }, signal: over.signal });
    const node = [process.execPath, main];
    const api = { API_PORT: `${ports.api}`, API_TOKENS_FILE: join(folder, 'tokens.json') };
    const named = {
      sandbox: open('sandbox', [...node, 'sandbox', '--strict', '--state', state, ...sandboxArgs]),
      worker: open('worker', [...node, 'worker'], {
        ...workerEnv(urls.fulfilment, service),
        ...(usesApi && api),
      }),
      tryton: open('tryton', [python, '/usr/bin/trytond', ...names]),
      cron: open('cron', [python, '/usr/bin/trytond-cron', ...names, '-v']),
    };
    const sandbox = new SandboxControl(new URL(service));
    const shopUrl = `http://admin:admin@127.0.0.1:${ports.tryton}/erp/`;
    return new Programs({ postgres, urls, folder, sandbox, named }, shopUrl, over);
  }

  /** Lets a user work in Tryton, again and again until all was answered. */
  async shop<T = unknown>(...command: readonly string[]): Promise<T> {
    const { PATH = '', HOME = '' } = process.env;
    const env = { PATH, HOME, PYTHONDONTWRITEBYTECODE: '1' };
    const endMs = performance.now() + setUpMs;
    for (;;) {
      const { signal } = this.#over;
      const ended = await run([python, shop, this.#shopUrl, ...command], { env, signal });
      appendFileSync(join(this.folder, 'shop.log'), ended.errors);
      if (ended.succeeded) return JSON.parse(ended.output) as T;
      if (performance.now() > endMs) throw new Error(`The shop cannot work: ${ended.errors}`);
    }
  }

  /**
   * Counts rows of a table and a condition; null while Postgres does not answer.
   * @throws Error after `stop`
   */
  async count(from: string): Promise<number | null> {
    this.#over.signal.throwIfAborted();
    const url = from.startsWith('fulfilment.') ? this.urls.fulfilment : this.urls.erp;
    try {
      const [row] = await queryAt<{ n: number }>(url, `select count(*)::int as n from ${from}`);
      return row?.n ?? 0;
    } catch (error) {
      if (error instanceof Error) return null;
      throw error;
    }
  }

  /** Ends all programs. What waits for them fails. */
  async stop(): Promise<void> {
    this.#over.abort();
    await Promise.all(Object.values(this.named).map((program) => program.end('SIGKILL')));
    await this.postgres.stop();
  }

  /** Deletes what the programs wrote. */
  forget(): void {
    rmSync(this.folder, { recursive: true });
  }
}

/** Makes a database that Tryton owns, and the schemas of fulfilment-sync in it or in another one. */
async function makeDatabases(url: string, usesApi: boolean): Promise<Programs['urls']> {
  await queryAt(url, `create role erp login password '${password}'`);
  await queryAt(url, 'create database erp owner erp');
  if (usesApi) await queryAt(url, 'create database fulfilment');

  const toUrl = (name: string) => Object.assign(new URL(url), { pathname: `/${name}` }).href;
  const urls = { erp: toUrl('erp'), fulfilment: toUrl(usesApi ? 'fulfilment' : 'erp') };
  await migrateDatabase(urls.fulfilment, silentLogger);
  if (!usesApi) await queryAt(urls.erp, 'grant fulfilment_writer to erp');
  return urls;
}

interface Addresses {
  readonly host: string;
  readonly port: number;
  readonly api: string;
}

/** Writes trytond.conf, and a cheap way to check passwords: each call of the client checks one. */
function writeConfig(folder: string, { host, port, api }: Addresses): string {
  const [config, passwords] = [join(folder, 'trytond.conf'), join(folder, 'passlib.ini')];
  const sha256 = createHash('sha256').update(token).digest('hex');
  const tokens = [{ name: 'tryton', sha256, client: 'default', rights: ['read', 'write'] }];
  writeFileSync(join(folder, 'password'), 'admin\n');
  writeFileSync(join(folder, 'tokens.json'), JSON.stringify(tokens));
  writeFileSync(passwords, '[passlib]\nschemes = pbkdf2_sha512\npbkdf2_sha512__rounds = 1000\n');
  writeFileSync(
    config,
    `[database]\nuri = postgresql://erp:${password}@${host}/\n` +
      `[web]\nlisten = 127.0.0.1:${port}\n[password]\npasslib = ${passwords}\n` +
      `[fulfilment]\nclient = default\n${api}`,
  );
  return config;
}

/** Installs the example as pip would, in a folder, and returns that folder. */
function installExample(folder: string): string {
  const place = join(folder, 'lib');
  const [parent, facts] = [join(place, 'trytond/modules'), join(place, 'fulfilment.egg-info')];
  mkdirSync(parent, { recursive: true });
  mkdirSync(facts);
  symlinkSync(example, join(parent, 'fulfilment'));
  writeFileSync(
    join(facts, 'PKG-INFO'),
    'Metadata-Version: 2.1\nName: fulfilment\nVersion: 6.0.0\n',
  );
  writeFileSync(
    join(facts, 'entry_points.txt'),
    '[trytond.modules]\nfulfilment = trytond.modules.fulfilment\n',
  );
  return place;
}

const workerEnv = (databaseUrl: string, service: string) => ({
  DATABASE_URL: databaseUrl,
  WAREHOUSE_BASE_URL: service,
  WAREHOUSE_USERNAME: 'default',
  WAREHOUSE_PASSWORD: 'default',
  ADMIN_PORT: '0',
  SCHEDULE_PULL_SHIPMENTS: '5s',
  SCHEDULE_PULL_RETURN_ITEMS: '5s',
  SCHEDULE_PULL_INBOUNDS: '5s',
  SCHEDULE_PULL_INBOUND_PACKING_SLIPS: '5s',
  SCHEDULE_PULL_ORDERS: '15s',
  SCHEDULE_PULL_PARCELS: '15s',
  SCHEDULE_PULL_STOCK: '30s',
  SCHEDULE_RECONCILE: '60s',
});
