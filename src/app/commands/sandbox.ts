import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { defaultTimeZone } from '../../../config/files.ts';
import { CodedError, describeError } from '../../core/errors.ts';
import { createSandbox } from '../../sandbox/server/server.ts';
import { loadWorld, saveWorld } from '../../sandbox/state-file.ts';
import { usualOrdersPerDay } from '../../sandbox/store/life.ts';
import { World } from '../../sandbox/world.ts';
import { stopSignal } from '../cli/stop-signal.ts';
import { UsageError } from '../cli/usage.ts';

export interface SandboxOptions {
  readonly host: string;
  readonly port: number;
  readonly seed?: number;
  readonly clients?: string;
  readonly speed?: number;
  readonly ordersPerDay?: number;
  readonly lateChanges?: boolean;
  readonly state?: string;
}

const usualSpeed = 60;
const saveEveryMs = 5_000;
/** Saving takes no more than this share of the time, however much there is to save. */
const savingShare = 0.05;

/** Serves the sandbox until it is stopped; to this machine alone, unless told otherwise. */
export async function sandboxCommand(options: SandboxOptions): Promise<number> {
  const { host, port, state } = options;
  const world = await openWorld(options);
  // At once: a file that cannot be written is better found out now.
  if (state !== undefined) saveFirst(world, state);
  const app = createSandbox(world);
  const stopped = once(stopSignal(), 'abort');
  const address = await listen(app, host, port);
  const kept = state === undefined ? '' : `\nIts state is kept in ${state}.`;
  process.stdout.write(
    `Sandbox at ${address} for ${world.clientNames.join(', ')}; each name is user name and password.${kept}\n`,
  );
  const stopSaving = state === undefined ? undefined : keepSaved(world, state);
  await stopped;
  await app.close();
  stopSaving?.();
  return 0;
}

function saveFirst(world: World, file: string): void {
  try {
    saveWorld(world, file);
  } catch (cause) {
    throw new CodedError('state_unwritable', `${file} cannot be written: ${describeError(cause)}`, { cause });
  }
}

/** A new world, or the one that a state file holds. */
async function openWorld(options: SandboxOptions): Promise<World> {
  const names = namesOf(options.clients);
  const { state, speed, seed, ordersPerDay, lateChanges = false } = options;
  if (state !== undefined && existsSync(state)) {
    const world = await loadWorld(state, speed);
    assertSame(world, options, names);
    return world;
  }
  return new World({
    clients: names ?? ['default'],
    seed: seed ?? 1,
    speed: speed ?? usualSpeed,
    ordersPerDay: ordersPerDay ?? usualOrdersPerDay,
    lateChanges,
    startMs: Date.now(),
    zone: defaultTimeZone,
  });
}

/** What a state file holds cannot be another by an option. */
function assertSame({ started: kept }: World, given: SandboxOptions, names: string[] | null): void {
  const isSame =
    (names ?? kept.clients).join() === kept.clients.join() &&
    (given.seed ?? kept.seed) === kept.seed &&
    (given.ordersPerDay ?? kept.ordersPerDay) === kept.ordersPerDay &&
    (given.lateChanges ?? kept.lateChanges ?? false) === (kept.lateChanges ?? false);
  if (isSame) return;
  throw new UsageError(
    `${given.state} holds clients ${kept.clients.join(',')}, seed ${kept.seed} and ${kept.ordersPerDay} orders per day: leave out --clients, --seed, --orders-per-day and --late-changes, or name another file`,
  );
}

function namesOf(clients: string | undefined): string[] | null {
  if (clients === undefined) return null;
  const names = clients.split(',').map((name) => name.trim());
  if (names.some((name) => !/^[a-z][a-z0-9_-]{0,31}$/.test(name)) || new Set(names).size < names.length)
    throw new UsageError('--clients takes names that match [a-z][a-z0-9_-]{0,31}, comma separated, each once');
  return names;
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    return await app.listen({ host, port });
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE')) throw cause;
    throw new CodedError('port_taken', `Port ${port} is in use; choose another with --port (0 takes any free one)`, {
      cause,
    });
  }
}

/** Saves soon after something was changed by a call. The function returned saves for the last time. */
function keepSaved(world: World, file: string): () => void {
  let [saved, notBeforeMs] = [world.changes, 0];
  const timer = setInterval(() => {
    const startMs = performance.now();
    if (world.changes === saved || startMs < notBeforeMs) return;
    const { changes } = world;
    try {
      saveWorld(world, file);
      saved = changes;
    } catch (error) {
      // The world goes on in memory; it is tried again in a moment, and at the end.
      process.stderr.write(`${file} could not be written: ${describeError(error)}\n`);
    }
    notBeforeMs = performance.now() + (performance.now() - startMs) / savingShare;
  }, saveEveryMs);
  return () => {
    clearInterval(timer);
    saveWorld(world, file);
  };
}
