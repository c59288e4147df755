import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';

/** The program that every end-to-end test runs (test/helpers/global-setup.ts). */
const bundle = process.env.TEST_PROGRAM ?? '';

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

test('an --env-file that is missing is named by the program, not by Node', () => {
  chmodSync(bundle, 0o755);
  const { status, stderr } = spawnSync(bundle, ['doctor', '--env-file', '/missing'], {
    encoding: 'utf8',
    env: { PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
  });
  expect(stderr).toContain('--env-file: /missing cannot be read: there is no such file');
  expect(status).toBe(2);
});
