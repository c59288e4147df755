import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], quiet);
const guide = readFileSync(new URL('../../../docs/sandbox.md', import.meta.url), 'utf8');

test('the commands of the session in docs/sandbox.md print what the page shows', async () => {
  const [, afterTitle = ''] = guide.split('\n## A session\n');
  const [session = ''] = afterTitle.split('\n## ');
  const commands = [...session.matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block).join('\n');
  const expected = [...commands.matchAll(/^# => (.*)$/gm)].map(([, line]) => line);
  expect(expected.length).toBeGreaterThan(5);
  const script = commands.replace('http://127.0.0.1:8090', sandbox.url.origin);
  expect(script).not.toBe(commands);
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script]);
  expect(stdout.trimEnd().split('\n')).toEqual(expected);
});
