import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'rolldown';
import config from '../../../rolldown.config.ts';

/**
 * Builds what users run, into a folder of this process: two test runs do not meet, and `dist` stays as it is. The folder
 * is inside the project, because the packages outside the bundle are found from there.
 * @returns the program, and what deletes it
 */
export async function buildBundle(): Promise<{ program: string; remove: () => void }> {
  const dir = fileURLToPath(new URL(`../../../node_modules/.cache/bundle-${process.pid}`, import.meta.url));
  await build({ ...config, output: { ...config.output, dir } });
  return { program: `${dir}/main.js`, remove: () => rmSync(dir, { recursive: true, force: true }) };
}
