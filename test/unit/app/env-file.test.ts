import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { runCommand } from '../../helpers/processes/run-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-env-'));
const file = join(folder, 'a file.env');
writeFileSync(file, 'LOG_LEVEL=loud\nADMIN_PORT=never\n');
afterAll(() => rmSync(folder, { recursive: true }));

test('--env-file gives the variables that the environment does not set', async () => {
  const { code, output } = await runCommand(['doctor', '--env-file', file], { LOG_LEVEL: 'info' });
  expect(code).toBe(2);
  expect(output).toContain('ADMIN_PORT');
  expect(output).not.toContain('LOG_LEVEL');
});

test('an --env-file that cannot be read is named, and nothing is done', async () => {
  const { code, output } = await runCommand(['doctor', '--env-file', join(folder, 'missing.env')]);
  expect(code).toBe(2);
  expect(output).toContain(`--env-file: ${join(folder, 'missing.env')} cannot be read: ENOENT`);
});
