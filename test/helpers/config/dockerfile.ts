import { readFileSync } from 'node:fs';

/** Returns the words of the entry point of a target of the Dockerfile. */
export function readEntrypoint(target: string): string[] {
  const dockerfile = readFileSync(new URL('../../../Dockerfile', import.meta.url), 'utf8');
  const stage = dockerfile.split(` AS ${target}\n`)[1] ?? '';
  return JSON.parse(/^ENTRYPOINT (.+)$/m.exec(stage)?.[1] ?? '[]') as string[];
}
