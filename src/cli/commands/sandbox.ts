import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { type Command, Option } from 'commander';
import type { FastifyInstance } from 'fastify';
import { defaultTimeZone } from '../../../config/files.ts';
import { CodedError, describeError } from '../../core/errors.ts';
import {
  type Dialect,
  defaultOrdersPerDay,
  dialects,
  type UnknownProducts,
} from '../../sandbox/options.ts';
import { createSandbox } from '../../sandbox/server/server.ts';
import { loadWorld, saveWorld } from '../../sandbox/state-file.ts';
import { type ChosenLists, readListsFile } from '../../sandbox/store/service-lists.ts';
import { World } from '../../sandbox/world.ts';
import {
  addCommand,
  createStopSignal,
  exitWith,
  parseNumberWithin,
  parseWholeNumber,
  print,
  printError,
  UsageError,
} from '../command-line.ts';

interface SandboxOptions {
  readonly host: string;
  readonly port: number;
  readonly seed?: number;
  readonly clients?: string;
  readonly speed?: number;
  readonly ordersPerDay?: number;
  readonly lateChanges?: boolean;
  readonly strict?: boolean;
  readonly unknownProducts?: UnknownProducts;
  readonly dialect?: Dialect;
  readonly state?: string;
  readonly lists?: string;
}

const defaultSpeed = 60;
const saveEveryMs = 5_000;
/** Largest share of the time that saving may take. A large state is saved less often. */
const maxSavingShare = 0.05;

/** Serves the sandbox until it is stopped. By default only this machine can reach it. */
async function sandboxCommand(options: SandboxOptions): Promise<number> {
  const { host, port, state } = options;
  const world = await openWorld(options);

  // Saves at once, so that a file that cannot be written is noticed at the start.
  if (state !== undefined) saveFirst(world, state);
  const app = createSandbox(world);
  const stopped = once(createStopSignal(), 'abort');

  const address = await listen(app, host, port);
  print(
    `Sandbox at ${address} for ${world.clientNames.join(', ')}; ` +
      "the user name and the password are the client's name.",
  );
  if (state !== undefined) print(`Its state is kept in ${state}.`);

  const stopSaving = state === undefined ? undefined : startSaving(world, state);
  await stopped;
  await app.close();
  stopSaving?.();
  return 0;
}

function saveFirst(world: World, file: string): void {
  try {
    saveWorld(world, file);
  } catch (cause) {
    throw new CodedError('state_unwritable', `${file} cannot be written: ${describeError(cause)}`, {
      cause,
    });
  }
}

/** Opens the world of the state file if there is one, else creates a new world. */
async function openWorld(options: SandboxOptions): Promise<World> {
  const {
    state,
    speed,
    seed,
    ordersPerDay,
    lateChanges,
    unknownProducts,
    dialect,
    strict = false,
  } = options;
  const strictness = { strict, ...(dialect && { dialect }) };
  const clients = parseClientNames(options.clients);
  const chosen = { clients, seed, ordersPerDay, lateChanges, unknownProducts };

  if (state !== undefined && existsSync(state)) {
    const world = loadWorld(state, speed, strictness);
    const lists = openLists(options.lists, world.clientNames);
    assertSameStart(world, { ...chosen, lists }, state);
    return world;
  }

  const given = Object.fromEntries(
    Object.entries(chosen).filter(([, value]) => value !== undefined),
  );
  const fresh = {
    ...defaults,
    speed: speed ?? defaultSpeed,
    startMs: Date.now(),
    zone: defaultTimeZone,
    ...given,
  };
  return new World({ ...fresh, lists: openLists(options.lists, fresh.clients) }, strictness);
}

/** Options that a state file keeps. */
const defaults = {
  clients: ['default'],
  seed: 1,
  ordersPerDay: defaultOrdersPerDay,
  lateChanges: false,
  unknownProducts: 'refuse' as const,
};

/** Reads the lists file of the sandbox, if one is given. */
function openLists(file: string | undefined, clients: readonly string[]): ChosenLists | undefined {
  try {
    return file === undefined ? undefined : readListsFile(file, clients);
  } catch (error) {
    throw error instanceof Error ? new UsageError(error.message) : error;
  }
}

/**
 * @throws UsageError if an option differs from the state file: options cannot change a saved world
 */
function assertSameStart(
  { started }: World,
  chosen: Readonly<Record<string, unknown>>,
  file: string,
): void {
  const saved: Readonly<Record<string, unknown>> = { ...defaults, ...started };
  const others = Object.keys(chosen).filter(
    (name) => chosen[name] !== undefined && !isDeepStrictEqual(chosen[name], saved[name]),
  );
  if (others.length === 0) return;

  const names = others.map(
    (name) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
  );
  const words = `${file} was begun with other ${others.join(', ')}`;
  throw new UsageError(`${words}: leave out ${names.join(', ')}, or name another state file`);
}

function parseClientNames(clients: string | undefined): string[] | undefined {
  if (clients === undefined) return undefined;

  const names = clients.split(',').map((name) => name.trim());
  const areNames = names.every((name) => /^[a-z][a-z0-9_-]{0,31}$/.test(name));
  if (!areNames || new Set(names).size < names.length)
    throw new UsageError(
      '--clients takes names that match [a-z][a-z0-9_-]{0,31}, comma separated, each once',
    );

  return names;
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    return await app.listen({ host, port });
  } catch (cause) {
    const isTaken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
    if (!isTaken) throw new UsageError(`--host ${host}, --port ${port}: ${describeError(cause)}`);
    const message = `Port ${port} is in use; choose another with --port (0 takes any free one)`;
    throw new CodedError('port_taken', message, { cause });
  }
}

/**
 * Saves the world every few seconds if a call has changed it. The returned function stops this and
 * saves once more.
 */
function startSaving(world: World, file: string): () => void {
  let saved = world.changes;
  let notBeforeMs = 0;

  const timer = setInterval(() => {
    const startMs = performance.now();
    if (world.changes === saved || startMs < notBeforeMs) return;

    const { changes } = world;
    try {
      saveWorld(world, file);
      saved = changes;
    } catch (error) {
      // The world continues in memory. Saving is tried again soon, and at the end.
      printError(`${file} could not be written: ${describeError(error)}`);
    }

    notBeforeMs = performance.now() + (performance.now() - startMs) / maxSavingShare;
  }, saveEveryMs);

  return () => {
    clearInterval(timer);
    saveWorld(world, file);
  };
}

/** Adds `sandbox`. */
export function addSandboxCommand(cli: Command): void {
  const unknownProducts = new Option(
    '--unknown-products <rule>',
    'orders and slips with an unknown sku (refuse)',
  );
  const dialect = new Option(
    '--dialect <name>',
    'v3 answers: rich has links and products, and leaves out null',
  );

  addCommand(cli, {
    name: 'sandbox',
    description: 'serve a stand-in for the fulfilment service on this machine',
    examples: '--port 8090 --clients shop-a,shop-b --state sandbox.json',
  })
    .option(
      '--host <address>',
      'address to listen on; everybody who can reach it can control the sandbox',
      '127.0.0.1',
    )
    .option('--port <number>', 'port; 0 takes any free one', parseNumberWithin(0, 65_535), 8090)
    .option(
      '--seed <number>',
      'seed of the random events in the robot warehouse (1)',
      parseWholeNumber,
    )
    .option(
      '--clients <names>',
      'client names, comma separated; the password is the name (default)',
    )
    .option(
      '--speed <factor>',
      'virtual seconds per second; 0: only /_sandbox/advance (60)',
      parseWholeNumber,
    )
    .option(
      '--orders-per-day <number>',
      'orders that the robot adds for each client; 0: none (68)',
      parseWholeNumber,
    )
    .option(
      '--late-changes',
      'the robot also makes changes that polls cannot see, such as changes after SHIPPED',
    )
    .option(
      '--strict',
      'refuse what the interface does not show, such as unknown members or stock in bulk',
    )
    .addOption(unknownProducts.choices(['refuse', 'accept']))
    .option('--lists <file>', 'JSON file with the service lists that clients map their codes to')
    .addOption(dialect.choices(dialects))
    .option('--state <file>', 'keep the state in this file, and continue from it at the next start')
    .action(exitWith(sandboxCommand));
}
