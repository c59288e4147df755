import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import { ruleSchema } from './faults.ts';
import { type Strictness, switchesSchema, worldOptionsSchema } from './options.ts';
import type { ClientState } from './store/client.ts';
import { World } from './world.ts';

const format = 'fulfilment-sync sandbox state 3';

const stateSchema = z.object({
  format: z.literal(format),
  nowMs: z.number(),
  started: worldOptionsSchema,
  options: worldOptionsSchema,
  switches: switchesSchema,
  faults: z.object({ random: z.number(), rules: z.array(ruleSchema) }),
  clients: z.record(
    z.string(),
    z.custom<ClientState>((value) => typeof value === 'object'),
  ),
});

/**
 * Replaces a state file, in one step, by the state of a world. Tokens and logged requests are not
 * saved.
 */
export function saveWorld(world: World, file: string): void {
  const { clock, options, started, switches, faults } = world;
  const clients = world.clientNames.map((name) => [name, world.requireClient(name).state] as const);
  const state: z.infer<typeof stateSchema> = {
    format,
    nowMs: clock.nowMs(),
    started,
    options,
    switches,
    faults: { random: faults.random.state, rules: faults.rules },
    clients: Object.fromEntries(clients),
  };

  const temporaryFile = `${file}.${process.pid}.tmp`;
  try {
    writeFileSync(temporaryFile, JSON.stringify(state), { mode: 0o600, flush: true });
    renameSync(temporaryFile, file);
  } catch (error) {
    rmSync(temporaryFile, { force: true });
    throw error;
  }
}

/** Loads a saved world, whose time continues. Throws an error that names a wrong file. */
export function loadWorld(file: string, speed?: number, strictness?: Strictness): World {
  try {
    const saved = stateSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
    const options = { ...saved.options, speed: speed ?? saved.options.speed };
    const world = new World(options, strictness, saved);

    world.faults.random.state = saved.faults.random;
    world.faults.rules = saved.faults.rules;
    return world;
  } catch (cause) {
    throw new Error(
      `${file} cannot be read: it is incomplete, or a sandbox did not write it. ` +
        'Remove the file to start over',
      { cause },
    );
  }
}
