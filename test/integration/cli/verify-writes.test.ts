import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { useVerify } from '../../helpers/processes/run-verify.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const processes = useProcesses();
const sandbox = useSandbox(['default'], { ...quiet, strict: false });
const { verifyAsJson } = useVerify(sandbox);

const mug = ['--yes', '--sku', 'MUG-BLUE'];
const oneWrite = ['--allow-writes', ...mug];

/** Returns the orders at the service. */
async function listOrders() {
  const { clients } = await sandbox.call<{
    clients: { orders: { resource: { attributes: object }; included: object[] }[] }[];
  }>('GET', '/_sandbox/state?lists=orders');
  return clients[0]?.orders ?? [];
}

test('one order is placed on hold, changed and cancelled; nothing else is written', async () => {
  const after = await sandbox.lastPlace();
  const { holds, differs, report, output } = await verifyAsJson(oneWrite);
  expect(differs).toEqual([]);
  const steps = ['create', 'found', 'update', 'rename', 'cancel'].map((name) => `order-${name}`);
  expect(holds).toEqual(expect.arrayContaining([...steps, 'attachment', 'item-cancel']));
  expect(output).toContain('This places ONE order on hold');
  const orders = await listOrders();
  expect(orders).toMatchObject([
    {
      resource: {
        attributes: {
          onHold: true,
          reference: 'verify-changed',
          externalOrderNumber: expect.stringMatching(/^VERIFY-[0-9a-f]{10}-renamed$/),
        },
      },
    },
  ]);
  const lines = orders[0]?.included.filter((one) => 'type' in one && one.type === 'orderItem');
  expect(lines).toMatchObject([{ attributes: { quantity: 0 } }, { attributes: { quantity: 0 } }]);
  expect(report.left).toEqual([expect.stringMatching(/^VERIFY-\w+ \(id \d+\) is cancelled/)]);
  const created = (await sandbox.requests(after)).filter(
    ({ method, operation = '' }) => method === 'POST' && /create|add|release/.test(operation ?? ''),
  );
  expect(created.map(({ operation }) => operation)).toEqual([
    'v3.orders.create',
    'v3.orderAttachments.create',
  ]);
});

test('an order whose answer is lost is found by its number and cancelled', async () => {
  const effect = { noAnswer: true, afterEffect: true };
  await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect });
  const { holds, report } = await verifyAsJson(oneWrite, { HTTP_TIMEOUT_MS: '300' });
  expect(holds).toEqual(expect.arrayContaining(['order-create', 'order-cancel']));
  expect(report.left).toEqual([expect.stringContaining('is cancelled')]);
});

test('Ctrl-C ends the checks, and cancels the order', async () => {
  await sandbox.faults({ operation: 'v3.orders.update', effect: { delayMs: 60_000 } });
  const process = processes.cli(['service', 'verify', ...oneWrite], {
    WAREHOUSE_BASE_URL: sandbox.url.href,
    WAREHOUSE_USERNAME: 'default',
    WAREHOUSE_PASSWORD: 'default',
    HTTP_TIMEOUT_MS: '2000',
  });
  await waitFor('the update', async () => (await sandbox.count('v3.orders.update')) > 0);
  process.kill('SIGINT');
  expect(await process.ended).toMatchObject({ code: 1 });
  const left = process.lines.filter((text) => text.startsWith('Left at the service: VERIFY-'));
  expect(left).toEqual([expect.stringContaining('is cancelled')]);
  expect(await sandbox.count('v3.orders.cancel')).toBe(1);
});

test.each([
  ['v3.orders.list', { lagMs: 600_000 }, 'is cancelled'],
  ['v3.orders.cancel', { status: 403 }, 'may exist'],
])('with %s that answers %j, what is left is said: it %s', async (operation, effect, words) => {
  await sandbox.faults({ operation, effect });
  const { report } = await verifyAsJson(oneWrite);
  expect(report.left).toEqual([expect.stringMatching(`^VERIFY-\\w+ .*${words}`)]);
});

test('an order that is refused because of its article leads to --sku', async () => {
  const { report } = await verifyAsJson(['--allow-writes', '--yes', '--sku', 'NO-SUCH']);
  expect(report.judgements).toContainEqual(
    expect.objectContaining({ id: 'order-create', remedy: expect.stringContaining('--sku') }),
  );
});

test.each([
  [[], 'Writing needs --yes'],
  [['--yes'], 'name its client with --client'],
])('nothing is written with %j', async (words, reason) => {
  const one = { username: 'x', password: 'x', baseUrl: 'http://127.0.0.1:1' };
  const file = join(mkdtempSync(join(tmpdir(), 'verify-')), 'clients.json');
  const keys = words.length === 0 ? ['a'] : ['a', 'b'];
  writeFileSync(file, JSON.stringify(keys.map((key) => ({ ...one, key, username: key }))));
  const env = { WAREHOUSE_CLIENTS_FILE: file };
  const { code, output } = await runCommand(['service', 'verify', '--allow-writes', ...words], env);
  expect({ code, output }).toMatchObject({ code: 2, output: expect.stringContaining(reason) });
});
