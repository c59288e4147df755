import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { useProcesses } from '../../helpers/processes/processes.ts';

const processes = useProcesses();
const root = fileURLToPath(new URL('../../..', import.meta.url));
/** The program that every end-to-end test runs (test/helpers/global-setup.ts). */
const bundle = process.env.TEST_PROGRAM ?? '';

test('a stack trace of the bundle names the line of the TypeScript source', async () => {
  const preload =
    "AbortController.prototype.abort = () => { throw new Error('thrown inside our code') }";
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(preload)}`;
  const sandbox = processes.cli(['sandbox', '--port', '0'], { NODE_OPTIONS });
  await sandbox.line('Sandbox at ');
  sandbox.kill('SIGTERM');
  await sandbox.ended;
  const source = readFileSync(join(root, 'src/cli/command-line.ts'), 'utf8').split('\n');
  const line = source.findIndex((text) => text.includes('stop.abort()')) + 1;
  expect(sandbox.output).toMatch(new RegExp(`src/cli/command-line\\.ts:${line}:\\d+`));
});

test('an older Node is refused before anything is loaded, with what to do', () => {
  const preload = "Object.defineProperty(process.versions, 'node', { value: '20.20.2' })";
  const { status, stderr } = spawnSync(
    process.execPath,
    [`--import=data:text/javascript,${encodeURIComponent(preload)}`, bundle, 'status'],
    { encoding: 'utf8', env: { PATH: process.env.PATH } },
  );
  expect(stderr).toContain('needs Node 24 or newer; this is Node 20.20.2');
  expect(stderr).toContain('nvm install 24');
  expect(status).toBe(2);
});
