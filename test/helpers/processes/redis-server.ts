import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import getPort from 'get-port';
import { Redis } from 'ioredis';

import { waitFor } from '../wait.ts';
import { hasDocker, startRedisContainer } from './containers.ts';
import { redisImage, redisUrl, type TestRedis } from './test-servers.ts';

/** Additional arguments of the command line of `redis-server`. */
export type RedisSettings = readonly string[];

/** Image of the container if no server is on PATH. */
const usualImage = 'redis:7';

/**
 * Starts a Redis: the image of TEST_REDIS_IMAGE, else a server from PATH, else a container. Returns
 * null if there is none.
 */
export async function startRedis(settings: RedisSettings = []): Promise<TestRedis | null> {
  if (redisImage !== null) return startRedisContainer(redisImage, settings);
  const binary = ['redis-server', 'valkey-server'].find(isOnPath);
  if (binary !== undefined) return startServer(binary, settings);
  return (await hasDocker()) ? startRedisContainer(usualImage, settings) : null;
}

/**
 * Returns the Redis of one test file: the one of TEST_REDIS_URL, which is left running, or a new
 * one.
 */
export async function openRedis(): Promise<TestRedis | null> {
  if (redisUrl === null) return startRedis();
  const restart = () =>
    Promise.reject(new Error('the Redis of TEST_REDIS_URL cannot be restarted by tests'));
  return { url: chooseDatabase(redisUrl), restart, stop: () => Promise.resolve() };
}

/**
 * Returns the URL with a database of this test process: files that run at the same time must not
 * flush each other.
 */
function chooseDatabase(url: string): string {
  const address = new URL(url);
  address.pathname = `/${Number(process.env.VITEST_POOL_ID ?? 0) % 16}`;
  return address.href;
}

function isOnPath(binary: string): boolean {
  try {
    execFileSync(binary, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    // The program does not exist or cannot run.
    return false;
  }
}

async function startServer(binary: string, settings: RedisSettings): Promise<TestRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-redis-'));
  const port = await getPort({ host: '127.0.0.1' });
  const base = [
    '--bind',
    '127.0.0.1',
    '--port',
    String(port),
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    folder,
  ];
  const url = `redis://127.0.0.1:${port}`;
  const launch = async () => {
    const launched = spawn(binary, [...base, ...settings], { stdio: 'ignore' });
    await waitFor('Redis to answer', () => isAnswering(url, launched.pid));
    return launched;
  };
  let server = await launch();
  return {
    url,
    restart: async (downMs, signal = 'SIGTERM') => {
      await end(server, signal);
      await wait(downMs);
      server = await launch();
    },
    stop: async () => {
      await end(server, 'SIGTERM');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function end(server: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const ended = once(server, 'exit');
  server.kill(signal);
  await ended;
}

/** Returns true if the process `pid` answers there, and not another server that took the port. */
async function isAnswering(url: string, pid: number | undefined): Promise<boolean> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return (await redis.info('server')).includes(`process_id:${pid}\r\n`);
  } catch {
    // The server is not ready. The caller asks again until the deadline.
    return false;
  } finally {
    redis.disconnect();
  }
}
