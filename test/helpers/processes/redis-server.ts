import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import getPort from 'get-port';
import { Redis } from 'ioredis';
import { GenericContainer, getContainerRuntimeClient } from 'testcontainers';
import { waitFor } from '../wait.ts';

export interface TestRedis {
  readonly url: string;
  /** Ends the server and, after `downMs`, starts it again at the same address, without data. */
  readonly restart: (downMs: number, signal?: 'SIGTERM' | 'SIGKILL') => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Additional arguments of the command line of `redis-server`. */
export type RedisSettings = readonly string[];

/** Starts a Redis: a server from PATH, else a container. Returns null if there is neither. */
export async function startRedis(settings: RedisSettings = []): Promise<TestRedis | null> {
  const binary = ['redis-server', 'valkey-server'].find(isOnPath);
  if (binary !== undefined) return startServer(binary, settings);
  return (await hasDocker()) ? startContainer(settings) : null;
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
  const base = ['--bind', '127.0.0.1', '--port', String(port), '--save', '', '--appendonly', 'no', '--dir', folder];
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

async function hasDocker(): Promise<boolean> {
  try {
    await getContainerRuntimeClient();
    return true;
  } catch {
    // There is no Docker engine. The caller reports it.
    return false;
  }
}

async function startContainer(settings: RedisSettings): Promise<TestRedis> {
  const container = await new GenericContainer('redis:7')
    .withExposedPorts(6379)
    .withCommand(['redis-server', ...settings])
    .start();
  const url = `redis://${container.getHost()}:${container.getMappedPort(6379)}`;
  const restart = async (downMs: number) => {
    await container.stop({ remove: false });
    await wait(downMs);
    await container.restart();
  };
  return { url, restart, stop: async () => void (await container.stop()) };
}
