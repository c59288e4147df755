import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import type { Strictness } from './options.ts';
import { type SavedWorld, World } from './world.ts';

const format = 'fulfilment-sync sandbox state 4';
const stateSchema = z.looseObject({ format: z.literal(format) });

/**
 * Replaces a state file, in one step, by the state of a world. Tokens and logged requests are not
 * saved.
 */
export function saveWorld(world: World, file: string): void {
  const temporaryFile = `${file}.${process.pid}.tmp`;
  try {
    const text = JSON.stringify({ format, ...world.state });
    writeFileSync(temporaryFile, text, { mode: 0o600, flush: true });
    renameSync(temporaryFile, file);
  } catch (error) {
    rmSync(temporaryFile, { force: true });
    throw error;
  }
}

/** Loads a saved world, whose time continues. Throws an error that names a wrong file. */
export function loadWorld(file: string, speed?: number, strictness?: Strictness): World {
  try {
    const read: unknown = stateSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
    const saved = read as SavedWorld;
    const { options } = saved;
    return new World({ ...options, speed: speed ?? options.speed }, strictness, saved);
  } catch (cause) {
    throw new Error(
      `${file} cannot be read: it is incomplete, or a sandbox did not write it. ` +
        'Remove the file to start over',
      { cause },
    );
  }
}
