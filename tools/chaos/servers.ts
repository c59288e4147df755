import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { migrateDatabase } from '../../src/app/commands/migrate.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/app/demo/embedded-postgres.ts';
import { silentLogger } from '../../src/app/logging/logger.ts';
import { memoryFolder } from '../../test/helpers/processes/memory-folder.ts';
import { startRedis, type TestRedis } from '../../test/helpers/processes/redis-server.ts';
import { waitFor } from '../../test/helpers/wait.ts';

const template = 'chaos_template';
const password = 'chaos';
/** The role that owns the campaign's database and that workers log in as: no superuser, as limits do not hold for those. */
export const workerRole = 'chaos_worker';
/** Where a disk of its own can be made for a tablespace (Linux, as root), its size. */
const smallDiskMb = 64;

const ballast = 'ballast';

/** A database of one campaign; `url` for workers, `superUrl` for whoever watches and breaks. */
export interface ChaosDatabase {
  readonly name: string;
  readonly url: string;
  readonly superUrl: string;
}

/** Runs one statement of its own connection. */
export async function queryAt<T extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 20_000 });
  // What breaks fails the statement, which is told to the caller.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<T>(text, values)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** A Postgres and a Redis that campaigns may break, one after the other. */
export class Servers {
  readonly postgres: EmbeddedPostgres;
  readonly redis: TestRedis;
  readonly #disk: string | null;
  #databases = 0;

  private constructor(postgres: EmbeddedPostgres, redis: TestRedis, disk: string | null) {
    this.postgres = postgres;
    this.redis = redis;
    this.#disk = disk;
  }

  static async start(): Promise<Servers> {
    const redis = await startRedis();
    if (redis === null) throw new Error('chaos needs redis-server or valkey-server on PATH, or a Docker engine');
    const postgres = await startEmbeddedPostgres({}, memoryFolder());
    await queryAt(postgres.url, `create role ${workerRole} login password '${password}' createrole`);
    await queryAt(postgres.url, `create database ${template} owner ${workerRole}`);
    await migrateDatabase(databaseOf(postgres.url, template), silentLogger);
    const [data] = await queryAt<{ data_directory: string }>(postgres.url, 'show data_directory');
    const disk = mountSmallDisk(data?.data_directory ?? '');
    if (disk !== null) await queryAt(postgres.url, `create tablespace small location '${disk}'`);
    return new Servers(postgres, redis, disk);
  }

  /** Whether a disk can be filled for real. */
  get hasSmallDisk(): boolean {
    return this.#disk !== null;
  }

  /** Leaves no room on the small disk. */
  fillDisk(): void {
    if (this.#disk === null) throw new Error('there is no small disk');
    const { bavail, bsize } = statfsSync(this.#disk);
    try {
      writeFileSync(join(this.#disk, ballast), Buffer.alloc(Number(bavail) * Number(bsize)));
    } catch (error) {
      // Postgres took some of it in the meantime: then it is full as well.
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
    }
  }

  freeDisk(): void {
    if (this.#disk !== null) rmSync(join(this.#disk, ballast), { force: true });
  }

  /** A migrated database of its own, on the small disk where asked for. */
  async createDatabase(onSmallDisk = false): Promise<ChaosDatabase> {
    const name = `chaos_${++this.#databases}`;
    const place = onSmallDisk && this.#disk !== null ? 'tablespace small' : '';
    await waitFor('the template to be free', async () => {
      try {
        await queryAt(this.postgres.url, `create database ${name} template ${template} owner ${workerRole} ${place}`);
        return true;
      } catch (error) {
        // Another session is still on its way out of the template.
        if (error instanceof Error && 'code' in error && error.code === '55006') return false;
        throw error;
      }
    });
    return { name, url: databaseOf(this.postgres.url, name), superUrl: databaseOf(this.postgres.url, name, false) };
  }

  async dropDatabase(name: string): Promise<void> {
    await queryAt(this.postgres.url, `drop database if exists ${name} with (force)`);
    await queryAt(this.postgres.url, `drop database if exists ${name}_backup with (force)`);
  }

  /** Copies a database, whole. Its connections end; nobody can connect meanwhile. */
  async backUpDatabase(name: string): Promise<void> {
    const { url } = this.postgres;
    await queryAt(url, `alter database ${name} allow_connections false`);
    try {
      await queryAt(url, 'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
      await waitFor('the database to be free', async () => {
        const open = await queryAt(url, 'select from pg_stat_activity where datname = $1', [name]);
        return open.length === 0;
      });
      await queryAt(url, `create database ${name}_backup template ${name} owner ${workerRole}`);
    } finally {
      await queryAt(url, `alter database ${name} allow_connections true`);
    }
  }

  /** Replaces a database by its copy. */
  async restoreDatabase(name: string): Promise<void> {
    await queryAt(this.postgres.url, `drop database ${name} with (force)`);
    await queryAt(this.postgres.url, `alter database ${name}_backup rename to ${name}`);
  }

  async stop(): Promise<void> {
    await this.postgres.stop();
    await this.redis.stop();
    if (this.#disk === null) return;
    execFileSync('umount', ['--lazy', this.#disk]);
    rmSync(this.#disk, { recursive: true, force: true });
  }
}

function databaseOf(url: string, name: string, asWorker = true): string {
  const address = new URL(url);
  address.pathname = `/${name}`;
  if (!asWorker) return address.href;
  address.username = workerRole;
  address.password = password;
  return address.href;
}

/** A disk of a few megabytes; null where this machine does not let us make one. */
function mountSmallDisk(dataFolder: string): string | null {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') return null;
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${smallDiskMb}m`, 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    // No right to mount, as in most containers: the fault is then made in another way, and says so.
    rmSync(folder, { recursive: true });
    return null;
  }
  const { uid, gid } = statSync(dataFolder);
  chownSync(folder, uid, gid);
  return folder;
}
