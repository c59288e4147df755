import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'rolldown';
import config from '../../../rolldown.config.ts';

/**
 * Builds the program that users run into a folder of this process, so that test runs do not share
 * it and `dist` is not changed. The folder is inside the project, because packages outside the
 * bundle are resolved from there.
 * @returns the path of the program, and a function that deletes the folder
 */
export async function buildBundle(): Promise<{ program: string; remove: () => void }> {
  const dir = fileURLToPath(
    new URL(`../../../node_modules/.cache/bundle-${process.pid}`, import.meta.url),
  );
  await build({ ...config, output: { ...config.output, dir } });
  return { program: `${dir}/main.js`, remove: () => rmSync(dir, { recursive: true, force: true }) };
}
