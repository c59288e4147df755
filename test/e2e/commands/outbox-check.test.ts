import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';

const processes = useProcesses();
const folder = mkdtempSync(join(tmpdir(), 'outbox-check-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes a payload to a file and returns its name. */
function write(payload: unknown): string {
  const file = join(folder, 'payload.json');
  writeFileSync(file, typeof payload === 'string' ? payload : JSON.stringify(payload));
  return file;
}
const check = (kind: string, payload: unknown, ...options: string[]) =>
  runCommand(['outbox', 'check', kind, write(payload), ...options]);

describe('outbox check without a database', () => {
  test('finds no problem in a valid payload, and says that codes were not checked', async () => {
    expect(await check('order.create', orderPayload('SO-1', { orderType: 'NO SUCH' }))).toEqual({
      code: 0,
      output:
        'No problems were found in this payload of order.create.\nCodes were not checked: name the client with --client',
    });
    expect((await check('order.cancel', {}, '--client', 'default')).output).toMatch(
      /^Codes were not checked: DATABASE_URL is not set$/m,
    );
  });

  test('ends with 2 for an unknown kind, naming the known ones, and for a missing file', async () => {
    const unknown = await check('order.crate', {});
    expect(unknown.code).toBe(2);
    for (const { name } of outboxKinds) expect(unknown.output).toContain(name);
    const nothing = join(folder, 'nothing.json');
    const missing = await runCommand(['outbox', 'check', 'order.cancel', nothing]);
    expect(missing).toMatchObject({
      code: 2,
      output: expect.stringMatching(/nothing\.json cannot be read: there is no such file$/m),
    });
  });

  test('names the place at which a text is not JSON, if Node names it', async () => {
    expect((await check('order.create', '{\n  "a": 1')).output).toMatch(/line 2 column 9\b/);
  });

  test('reads standard input', async () => {
    const cli = processes.cli(['outbox', 'check', 'order.cancel', '-']);
    expect((await cli.ended).code).toBe(1);
    expect(cli.output).toMatch(/^payload: is not JSON that can be read: /);
  });
});
