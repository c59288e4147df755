import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test, vi } from 'vitest';
import { rememberEnvironment } from '../../../config/env-file.ts';
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
  expect(output).toContain(
    `--env-file: ${join(folder, 'missing.env')} cannot be read: there is no such file`,
  );
});

test.each([
  ['WAREHOUSE_PASSWORD=s3cret#more', /line 2: WAREHOUSE_PASSWORD .*#/],
  ['WAREHOUSE_PASSWORD=s3cret#more\r', /line 2: WAREHOUSE_PASSWORD .*#/],
  ['export WAREHOUSE_PASSWORD = #s3cret', null],
  ['WAREHOUSE_PASSWORD=#s3cret', /line 2: WAREHOUSE_PASSWORD .*#/],
  ["WAREHOUSE_PASSWORD='s3'cret'", /line 2: WAREHOUSE_PASSWORD .*quotation mark/],
  ['WAREHOUSE_PASSWORD="s3cret', /line 2: WAREHOUSE_PASSWORD .*quotation mark/],
  ['WAREHOUSE_PASSWORD="s3cret\\"more"', /line 2: WAREHOUSE_PASSWORD .*quotation mark/],
  ['WAREHOUSE_PASSWORD="s3cret#more" # comment', null],
  ['WAREHOUSE_PASSWORD=s3cret # comment', null],
  ['# WAREHOUSE_PASSWORD=s3cret#more', null],
  ['OTHER="s3cret', null],
])('of an --env-file, %j is refused if it would be cut, without its value', (line, words) => {
  const cut = join(folder, 'cut.env');
  writeFileSync(cut, `LOG_LEVEL=info\n${line}\nADMIN_PORT=1`);
  const read = () => rememberEnvironment(cut);
  if (words === null) expect(read).not.toThrow();
  else {
    expect(read).toThrow(words);
    expect(read).not.toThrow(/s3/);
  }
});

test('a changed --env-file replaces its former lines, and not the variables of the process', () => {
  const changing = join(folder, 'changing.env');
  writeFileSync(changing, 'TEST_OWN=file\nTEST_CHANGED=1\nTEST_GONE=1\n');
  vi.stubEnv('TEST_OWN', 'own').stubEnv('TEST_CHANGED', '1').stubEnv('TEST_GONE', '1');
  try {
    const before = { ...process.env };
    const inPresentEnvironment = rememberEnvironment(changing);
    writeFileSync(changing, 'TEST_OWN=other\nTEST_CHANGED=2\nTEST_NEW=1\n');
    const fail = () => {
      throw new Error('wrong');
    };
    expect(() => inPresentEnvironment(fail)).toThrow('wrong');
    expect({ ...process.env }).toEqual(before);
    const { TEST_OWN, TEST_CHANGED, TEST_GONE, TEST_NEW } = inPresentEnvironment(() => ({
      ...process.env,
    }));
    expect([TEST_OWN, TEST_CHANGED, TEST_GONE, TEST_NEW]).toEqual(['own', '2', undefined, '1']);
    rmSync(changing);
    expect(() => inPresentEnvironment(() => null)).toThrow(
      `--env-file: ${changing} cannot be read: there is no such file`,
    );
    expect(process.env.TEST_CHANGED).toBe('2');
  } finally {
    delete process.env.TEST_NEW;
    vi.unstubAllEnvs();
  }
});
