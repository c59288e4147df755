import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { GenericContainer, getContainerRuntimeClient } from 'testcontainers';
import { freePort } from '../../../src/app/demo/free-port.ts';
import { waitFor } from '../wait.ts';

export interface TestRedis {
  readonly url: string;
  /** Ends it and, after `downMs`, starts it again, empty, at the same address. */
  readonly restart: (downMs: number, signal?: 'SIGTERM' | 'SIGKILL') => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Extra settings, as `redis-server` takes them on its command line. */
export type RedisSettings = readonly string[];

/** A Redis of our own: a server from PATH, else a container where a Docker engine answers, else null. */
export async function startRedis(settings: RedisSettings = []): Promise<TestRedis | null> {
  const binary = ['redis-server', 'valkey-server'].find(isOnPath);
  if (binary !== undefined) return startServer(binary, settings);
  return (await dockerAnswers()) ? startContainer(settings) : null;
}

function isOnPath(binary: string): boolean {
  try {
    execFileSync(binary, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    // Not there, or not to be run: both mean that it cannot serve us.
    return false;
  }
}

async function startServer(binary: string, settings: RedisSettings): Promise<TestRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-redis-'));
  const port = await freePort();
  const base = ['--bind', '127.0.0.1', '--port', String(port), '--save', '', '--appendonly', 'no', '--dir', folder];
  const url = `redis://127.0.0.1:${port}`;
  const launch = async () => {
    const launched = spawn(binary, [...base, ...settings], { stdio: 'ignore' });
    await waitFor('Redis to answer', () => answers(url, launched.pid));
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

/** Whether our own server answers there, not another that took the port before it. */
async function answers(url: string, pid: number | undefined): Promise<boolean> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return (await redis.info('server')).includes(`process_id:${pid}\r\n`);
  } catch {
    // Not up yet; asked again until the deadline.
    return false;
  } finally {
    redis.disconnect();
  }
}

async function dockerAnswers(): Promise<boolean> {
  try {
    await getContainerRuntimeClient();
    return true;
  } catch {
    // No engine: the caller says so.
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
