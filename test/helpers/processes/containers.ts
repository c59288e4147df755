/**
 * Postgres and Redis in containers. Each keeps its port when it restarts: Docker would give a
 * container that was stopped another one.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { PostgreSqlContainer } from '@testcontainers/postgresql';
import { RedisContainer } from '@testcontainers/redis';
import getPort from 'get-port';
import { getContainerRuntimeClient, type StartedTestContainer } from 'testcontainers';
import type { TestPostgres, TestRedis } from './test-servers.ts';

/** Returns true if a Docker engine answers. */
export async function hasDocker(): Promise<boolean> {
  try {
    await getContainerRuntimeClient();
    return true;
  } catch {
    // There is no Docker engine. The caller reports it.
    return false;
  }
}

/**
 * Sends a signal to the main process of a container, waits until it has ended, and removes the
 * container.
 */
async function end(
  container: StartedTestContainer,
  signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL',
): Promise<void> {
  const { container: containers } = await getContainerRuntimeClient();
  const running = containers.getById(container.getId());
  const ended = running.wait();
  await running.kill({ signal });
  await ended;
  await running.remove({ force: true, v: true });
}

/** Starts a Redis or Valkey from an image. A restart is a new container without data. */
export async function startRedisContainer(
  image: string,
  settings: readonly string[],
): Promise<TestRedis> {
  const port = await getPort({ host: '127.0.0.1' });
  const server = /valkey/.test(image) ? 'valkey-server' : 'redis-server';
  const launch = () =>
    new RedisContainer(image)
      .withExposedPorts({ container: 6379, host: port })
      .withCommand([server, ...settings])
      .start();
  let container: StartedTestContainer | null = await launch();
  const stop = async (signal: 'SIGTERM' | 'SIGKILL') => {
    const running = container;
    container = null;
    if (running !== null) await end(running, signal);
  };
  return {
    url: `redis://${container.getHost()}:${port}`,
    restart: async (downMs, signal = 'SIGTERM') => {
      await stop(signal);
      await wait(downMs);
      container = await launch();
    },
    stop: () => stop('SIGTERM'),
  };
}

/** Starts a Postgres from an image. A restart is a new container with the same volume. */
export async function startPostgresContainer(
  image: string,
  settings: Readonly<Record<string, string>>,
): Promise<TestPostgres> {
  const port = await getPort({ host: '127.0.0.1' });
  const volume = `fulfilment-sync-${randomBytes(6).toString('hex')}`;
  const password = randomBytes(12).toString('hex');
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const launch = () =>
    new PostgreSqlContainer(image)
      .withUsername('postgres')
      .withPassword(password)
      .withDatabase('postgres')
      .withEnvironment({ PGDATA: '/var/lib/postgresql/data/tests' })
      .withBindMounts([{ source: volume, target: '/var/lib/postgresql/data' }])
      .withExposedPorts({ container: 5432, host: port })
      .withCommand(['postgres', '-c', 'max_connections=200', ...flags])
      .start();
  let container: StartedTestContainer | null = await launch();
  const stop = async () => {
    const running = container;
    container = null;
    // The fast shutdown of Postgres.
    if (running !== null) await end(running, 'SIGINT');
  };
  return {
    url: `postgres://postgres:${password}@${container.getHost()}:${port}/postgres`,
    restart: async (downMs = 0) => {
      await stop();
      await wait(downMs);
      container = await launch();
    },
    stop: async () => {
      await stop();
      const { container: containers } = await getContainerRuntimeClient();
      await containers.dockerode.getVolume(volume).remove();
    },
  };
}
