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
  const first = await start(
    '--clients',
    'shop-a,shop-b',
    '--speed',
    '0',
    '--seed',
    '7',
    '--unknown-products',
    'accept',
  );
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

test('only the option makes a sandbox strict, whatever its state file', async () => {
  const search = { body: { sku: 'MUG-BLUE' } };
  const lenient = await start('--clients', 'shop-a', '--speed', '0');
  expect((await lenient.client.ask('oldest.product.search', search)).body.messageCode).toBe('OK');
  const bulk = { path: { all: 'false' } };
  expect((await lenient.client.ask('oldest.stock.bulk', bulk)).body.result).not.toEqual([]);
  lenient.process.kill('SIGTERM');
  await lenient.process.ended;
  const strict = await start('--strict');
  expect((await strict.client.ask('oldest.product.search', search)).body.messageCode).toBe('NOK');
  expect((await strict.client.ask('oldest.stock.bulk', bulk)).status).toBe(404);
  strict.process.kill('SIGTERM');
  await strict.process.ended;
  const continued = await start();
  expect(
    (await continued.client.ask('oldest.stock.bulk', bulk)).body.result,
    'what was told is kept',
  ).toEqual([]);
});

test('a state file with other clients is refused', async () => {
  const { process } = await start('--clients', 'shop-a', '--seed', '7');
  process.kill('SIGTERM');
  await process.ended;
  const args = ['sandbox', '--port', '0', '--state', file, '--clients', 'shop-c'];
  const { code, output } = await runCommand(args);
  expect(code).toBe(2);
  expect(output).toMatch(/was begun with other clients: leave out --clients, or/);
});

test('a state file keeps its service lists', async () => {
  const lists = join(folder, 'lists.json');
  const orderTypes = [{ id: 501, name: 'Web', code: 'WEB' }];
  writeFileSync(lists, JSON.stringify({ clients: { 'shop-a': { orderTypes } } }));
  const { process } = await start('--clients', 'shop-a', '--lists', lists);
  process.kill('SIGTERM');
  await process.ended;
  const { process: again } = await start('--lists', lists);
  again.kill('SIGTERM');
  await again.ended;
  writeFileSync(lists, JSON.stringify({ orderTypes }));
  const refused = await runCommand(['sandbox', '--port', '0', '--state', file, '--lists', lists]);
  expect(refused.code).toBe(2);
  expect(refused.output).toContain('was begun with other lists');
});
