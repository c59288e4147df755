import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { createSandbox } from '../../src/sandbox/server/server.ts';
import { World } from '../../src/sandbox/world.ts';
import { SandboxControl } from './sandbox-control.ts';

/** Without orders of its own, and in the same days whenever the tests run. */
export const quiet = { ordersPerDay: 0, startMs: () => Date.parse('2026-05-04T08:00:00Z') };
/** With orders of its own, in the same days whenever the tests run. */
export const lively = { ...quiet, ordersPerDay: 68 };

/** A sandbox in this process, in which time stands still. It serves the whole file, and starts over with each test. */
export function useSandbox(
  clients: readonly string[] = ['default'],
  { ordersPerDay = 68, startMs = () => Date.now() } = {},
): SandboxControl {
  const options = () => ({ clients, seed: 1, speed: 0, startMs: startMs(), zone: 'Europe/Amsterdam', ordersPerDay });
  let app: FastifyInstance;
  let world: World;
  const control = new SandboxControl();
  beforeAll(async () => {
    world = new World(options());
    app = createSandbox(world);
    control.url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
  });
  beforeEach(() => world.reset(options()));
  afterAll(() => app.close());
  return control;
}
