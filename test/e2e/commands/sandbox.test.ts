import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { address, line, orderBody, readOne, ServiceClient } from '../../helpers/client.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';
import { waitFor } from '../../helpers/wait.ts';

const processes = useProcesses();
let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
  file = join(folder, 'state.json');
});
afterEach(() => rmSync(folder, { recursive: true }));

async function start(...more: string[]) {
  const process = processes.cli(['sandbox', '--port', '0', '--state', file, ...more]);
  const line = await process.line('Sandbox at ');
  const control = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? ''));
  const client = new ServiceClient(control, 'shop-a');
  await client.logIn();
  return { process, control, client };
}

test('state and virtual time survive a stop, and a kill except for its last seconds', async () => {
  const options = ['--clients', 'shop-a,shop-b', '--unknown-products', 'accept'];
  const first = await start('--speed', '0', ...options);
  await first.control.advance(5 * 86_400);
  const order = readOne(await first.client.ask('v3.orders.create', { body: orderBody('KEEP-1') }));
  const before = await first.control.call('GET', '/_sandbox/state');
  first.process.kill('SIGTERM');
  expect(await first.process.ended).toEqual({ code: 0, signal: null });

  const second = await start();
  expect(await second.control.call('GET', '/_sandbox/state')).toEqual(before);
  // The option is kept, too.
  const included = [line('NEW-1'), address('d'), address('b')];
  await second.client.ask('v3.orders.create', { body: orderBody('KEEP-2', { included }) });
  await waitFor('the order in the file', () => readFileSync(file, 'utf8').includes('KEEP-2'));
  second.process.kill('SIGKILL');
  await second.process.ended;

  const third = await start('--speed', '0');
  const query = 'filter[externalOrderNumber][in]=KEEP-1,KEEP-2';
  const kept = (await third.client.ask('v3.orders.list', { query })).body.data;
  expect(kept.map(({ attributes }) => attributes.externalOrderNumber)).toEqual([
    'KEEP-1',
    'KEEP-2',
  ]);
  expect(kept[0]?.id).toBe(order.id);
});

test('a state file keeps its clients and lists, and is refused with others', async () => {
  const lists = join(folder, 'lists.json');
  const orderTypes = [{ id: 501, name: 'Web', code: 'WEB' }];
  writeFileSync(lists, JSON.stringify({ clients: { 'shop-a': { orderTypes } } }));
  const { process } = await start('--clients', 'shop-a', '--lists', lists);
  process.kill('SIGTERM');
  await process.ended;
  writeFileSync(lists, JSON.stringify({ orderTypes }));
  for (const [option, value, words] of [
    ['--clients', 'shop-c', 'was begun with other clients: leave out --clients'],
    ['--lists', lists, 'was begun with other lists'],
  ] as const) {
    const args = ['sandbox', '--port', '0', '--state', file, option, value];
    expect(await runCommand(args)).toEqual({ code: 2, output: expect.stringContaining(words) });
  }
});
