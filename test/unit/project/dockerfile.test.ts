import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { createCli } from '../../../src/cli/program.ts';
import { readEntrypoint } from '../../helpers/config/dockerfile.ts';

const commandLine = await createCli();

const file = (name: string) => new URL(`../../../${name}`, import.meta.url);
const read = (name: string) => readFileSync(file(name), 'utf8');
const manifest = JSON.parse(read('package.json')) as {
  scripts: Record<string, string>;
  bin: Record<string, string>;
};
const commands = commandLine.commands.map((command) => command.name());
const dockerfile = read('Dockerfile');

describe('Dockerfile', () => {
  const lines = dockerfile.split('\n');

  test('copies files that exist and that .dockerignore allows', () => {
    const ignored = read('.dockerignore');
    const sources = lines
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(' ').slice(1, -1));
    expect(sources.length).toBeGreaterThan(5);
    for (const source of sources) {
      expect(existsSync(file(source))).toBe(true);
      expect(ignored).toContain(`!${source}`);
    }
  });

  test('runs existing scripts, is not root, and starts the program that package.json names', () => {
    const scripts = [...dockerfile.matchAll(/npm run ([\w-]+)/g)].map(([, name]) => name ?? '');
    expect(scripts).toEqual(['build']);
    for (const script of scripts) expect(manifest.scripts[script]).toBeDefined();
    expect(lines.filter((line) => line === 'USER node').length).toBe(2);
    const program = [
      ...['node', '--max-semi-space-size=4', '--max-old-space-size-percentage=60'],
      manifest.bin['fulfilment-sync'],
    ];
    expect(readEntrypoint('worker')).toEqual(program);
    expect(readEntrypoint('sandbox')).toEqual([...program, 'sandbox', '--host', '0.0.0.0']);
    expect(commands).toContain(/CMD \["(\w+)"\]/.exec(lines.at(-2) ?? '')?.[1]);
  });
});
