import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import getPort from 'get-port';
import pg from 'pg';
import { waitFor } from '../wait.ts';

/** True if this machine has pgbouncer. */
export const hasPgbouncer = (() => {
  try {
    execFileSync('pgbouncer', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    // It is not installed.
    return false;
  }
})();

/** A pgbouncer in front of a database. */
export interface Pgbouncer {
  /** URL of the database through it. */
  readonly url: string;
  /** Ends it by SIGKILL, and starts it again. */
  readonly restart: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Starts a pgbouncer in front of the database of this URL. */
export async function startPgbouncer(
  databaseUrl: string,
  mode: 'session' | 'transaction',
): Promise<Pgbouncer> {
  const { hostname, port, username, password, pathname } = new URL(databaseUrl);
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-pgbouncer-'));
  const ownPort = await getPort({ host: '127.0.0.1' });
  const file = join(folder, 'pgbouncer.ini');
  const login = `user=${decodeURIComponent(username)}${password === '' ? '' : ` password=${decodeURIComponent(password)}`}`;
  const lines = [
    '[databases]',
    `* = host=${hostname} port=${port || '5432'} ${login}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${ownPort}`,
    'unix_socket_dir =',
    'auth_type = any',
    `pool_mode = ${mode}`,
    'max_client_conn = 200',
    'default_pool_size = 60',
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  chmodSync(folder, 0o755);
  const url = `postgres://${username}@127.0.0.1:${ownPort}${pathname}`;
  // It does not run as root.
  const user = process.getuid?.() === 0 ? ['--user', 'postgres'] : [];
  const start = async () => {
    const child = spawn('pgbouncer', ['--quiet', ...user, file], { stdio: 'ignore' });
    await waitFor('pgbouncer to answer', () => isAnswering(url));
    return child;
  };
  let running = await start();
  return {
    url,
    restart: async () => {
      await end(running);
      running = await start();
    },
    stop: async () => {
      await end(running);
      rmSync(folder, { recursive: true });
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function isAnswering(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  try {
    await client.connect();
    return true;
  } catch {
    // It does not listen yet.
    return false;
  } finally {
    await client.end();
  }
}
