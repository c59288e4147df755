import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], quiet);
const script = readFileSync(
  new URL('../../../docs/programs/sandbox-session.sh', import.meta.url),
  'utf8',
);

test('the session of docs/programs prints what its comments say', async () => {
  const expected = [...script.matchAll(/^# => (.*)$/gm)].map(([, line]) => line);
  expect(expected.length).toBeGreaterThan(5);
  const commands = script.replace('http://127.0.0.1:8090', sandbox.url.origin);
  expect(commands).not.toBe(script);
  const { stdout } = await promisify(execFile)('bash', ['-c', commands]);
  expect(stdout.trimEnd().split('\n')).toEqual(expected);
});
