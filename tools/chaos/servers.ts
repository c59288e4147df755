import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { migrateDatabase } from '../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../src/core/logger.ts';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../test/helpers/processes/embedded-postgres.ts';
import { memoryFolder } from '../../test/helpers/processes/memory-folder.ts';
import { startRedis } from '../../test/helpers/processes/redis-server.ts';
import { postgresBin, type TestRedis } from '../../test/helpers/processes/test-servers.ts';
import { waitFor } from '../../test/helpers/wait.ts';

const template = 'chaos_template';
const password = 'chaos';
/**
 * The role that owns the campaign's database and that workers use. It is no superuser: limits do
 * not apply to those.
 */
export const workerRole = 'chaos_worker';
/**
 * Size of the disk for a tablespace that faults can fill. It can be made only on Linux, as root.
 */
const smallDiskMb = 64;

const ballast = 'ballast';

/**
 * The database of one campaign. Workers use `url`; the campaign itself uses `superUrl`, as a
 * superuser.
 */
export interface ChaosDatabase {
  readonly name: string;
  readonly url: string;
  readonly superUrl: string;
}

/** Executes one statement on a new connection. */
export async function queryAt<T extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 20_000 });
  // A broken connection makes the statement fail, and the caller gets that error.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<T>(text, values)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** A Postgres and a Redis for campaigns that run one after the other, and may break them. */
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
    if (redis === null)
      throw new Error('chaos needs redis-server or valkey-server on PATH, or a Docker engine');
    const postgres = await startEmbeddedPostgres({}, memoryFolder(), postgresBin);
    await queryAt(
      postgres.url,
      `create role ${workerRole} login password '${password}' createrole`,
    );
    await queryAt(postgres.url, `create database ${template} owner ${workerRole}`);
    await migrateDatabase(toDatabaseUrl(postgres.url, template), silentLogger);
    const [data] = await queryAt<{ data_directory: string }>(postgres.url, 'show data_directory');
    const disk = mountSmallDisk(data?.data_directory ?? '');
    if (disk !== null) await queryAt(postgres.url, `create tablespace small location '${disk}'`);
    return new Servers(postgres, redis, disk);
  }

  /** True if there is a disk that can be filled. */
  get hasSmallDisk(): boolean {
    return this.#disk !== null;
  }

  /** Fills the small disk. */
  fillDisk(): void {
    if (this.#disk === null) throw new Error('there is no small disk');
    const { bavail, bsize } = statfsSync(this.#disk);
    try {
      writeFileSync(join(this.#disk, ballast), Buffer.alloc(Number(bavail) * Number(bsize)));
    } catch (error) {
      // Postgres has taken some space meanwhile, so the disk is full anyway.
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
    }
  }

  freeDisk(): void {
    if (this.#disk !== null) rmSync(join(this.#disk, ballast), { force: true });
  }

  /** Creates a migrated database, on the small disk if asked for and if there is one. */
  async createDatabase(onSmallDisk = false): Promise<ChaosDatabase> {
    const name = `chaos_${++this.#databases}`;
    const place = onSmallDisk && this.#disk !== null ? 'tablespace small' : '';
    await waitFor('the template to be free', async () => {
      try {
        await queryAt(
          this.postgres.url,
          `create database ${name} template ${template} owner ${workerRole} ${place}`,
        );
        return true;
      } catch (error) {
        // Another session is still connected to the template.
        if (error instanceof Error && 'code' in error && error.code === '55006') return false;
        throw error;
      }
    });
    return {
      name,
      url: toDatabaseUrl(this.postgres.url, name),
      superUrl: toDatabaseUrl(this.postgres.url, name, false),
    };
  }

  async dropDatabase(name: string): Promise<void> {
    await queryAt(this.postgres.url, `drop database if exists ${name} with (force)`);
    await queryAt(this.postgres.url, `drop database if exists ${name}_backup with (force)`);
  }

  /** Copies a whole database. Its connections end, and no new ones are accepted meanwhile. */
  async backUpDatabase(name: string): Promise<void> {
    const { url } = this.postgres;
    await queryAt(url, `alter database ${name} allow_connections false`);
    try {
      await queryAt(
        url,
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
        [name],
      );
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

function toDatabaseUrl(url: string, name: string, asWorker = true): string {
  const address = new URL(url);
  address.pathname = `/${name}`;
  if (!asWorker) return address.href;
  address.username = workerRole;
  address.password = password;
  return address.href;
}

/** Mounts a small disk, and returns its path; null if this machine does not allow it. */
function mountSmallDisk(dataFolder: string): string | null {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') return null;
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${smallDiskMb}m`, 'tmpfs', folder], {
      stdio: 'ignore',
    });
  } catch {
    // Most containers do not allow mounts. The fault then works in another way.
    rmSync(folder, { recursive: true });
    return null;
  }
  const { uid, gid } = statSync(dataFolder);
  chownSync(folder, uid, gid);
  return folder;
}
