import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { z } from 'zod';
import { dialects, type UnknownProducts } from '../../src/sandbox/options.ts';
import { createSandbox } from '../../src/sandbox/server/server.ts';
import { World } from '../../src/sandbox/world.ts';
import { SandboxControl } from './sandbox-control.ts';

/** The effect of a fault: the answer is a list without rows. */
export const emptyList = {
  set: [
    { path: ['data'], value: [] },
    { path: ['links'], value: {} },
  ],
};

/** Options of a sandbox that makes no orders by itself. Its time is the same in every test run. */
export const quiet = { ordersPerDay: 0, startMs: () => Date.parse('2026-05-04T08:00:00Z') };
/** Options of a sandbox that makes orders by itself. Its time is the same in every test run. */
export const lively = { ...quiet, ordersPerDay: 68 };

interface SandboxOptions {
  readonly ordersPerDay?: number;
  readonly startMs?: () => number;
  readonly strict?: boolean;
  readonly unknownProducts?: UnknownProducts;
}

/** `SANDBOX_DIALECT=rich npx vitest run …` runs tests in the other dialect. */
const firstDialect = z.enum(dialects).parse(process.env.SANDBOX_DIALECT ?? 'plain');

/**
 * Starts a strict sandbox in this process for a whole file. It is reset for each test, and its time
 * does not advance.
 */
export function useSandbox(
  clients: readonly string[] = ['default'],
  {
    ordersPerDay = 8,
    startMs = () => Date.now(),
    strict = true,
    unknownProducts,
  }: SandboxOptions = {},
): SandboxControl {
  const fixed = {
    clients,
    seed: 1,
    speed: 0,
    zone: 'Europe/Amsterdam',
    ordersPerDay,
    unknownProducts,
  };
  const options = () => ({ ...fixed, startMs: startMs() });
  let app: FastifyInstance;
  let world: World;
  const control = new SandboxControl();
  beforeAll(async () => {
    world = new World(options(), { strict, dialect: firstDialect });
    app = createSandbox(world);
    control.url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
  });
  beforeEach(() => {
    world.reset(options());
    control.dialect = firstDialect;
  });
  afterAll(() => app.close());
  return control;
}
