import { expect, test } from 'vitest';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { useVerify } from '../../helpers/processes/run-verify.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const processes = useProcesses();
const sandbox = useSandbox(['default'], { ...quiet, strict: false });
const { verifyAsJson } = useVerify(sandbox);

test('every order that was placed is on hold and cancelled in the end, and is named', async () => {
  const { report } = await verifyAsJson(['--allow-writes', '--yes', '--sku', 'MUG-BLUE']);
  const { clients } = await sandbox.call<{ clients: { orders: { resource: object; included: object[] }[] }[] }>(
    'GET',
    '/_sandbox/state?lists=orders',
  );
  const orders = clients[0]?.orders ?? [];
  expect(orders.length).toBeGreaterThan(1);
  expect(report.left).toHaveLength(orders.length);
  for (const [index, { resource, included }] of orders.entries()) {
    expect(resource).toMatchObject({ attributes: { onHold: true } });
    const number = (resource as { attributes: { externalOrderNumber: string } }).attributes.externalOrderNumber;
    expect(report.left[index]?.startsWith(`${number} (id `)).toBe(true);
    expect(report.left[index]).toContain(' is cancelled');
    const items = included.filter((one) => 'type' in one && one.type === 'orderItem');
    expect(items).toMatchObject([{ attributes: { quantity: 0 } }, { attributes: { quantity: 0 } }]);
  }
});

test('an order whose answer is lost is found by its number and cancelled', async () => {
  const effect = { noAnswer: true, afterEffect: true };
  await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect });
  const words = ['--allow-writes', '--yes', '--sku', 'MUG-BLUE'];
  const { holds, report } = await verifyAsJson(words, { HTTP_TIMEOUT_MS: '300' });
  expect(holds).toEqual(expect.arrayContaining(['request-included', 'read-back', 'order-cancel']));
  expect(report.left.every((text) => text.includes('is cancelled'))).toBe(true);
});

test('Ctrl-C ends the checks, and cancels the orders that were placed', async () => {
  await sandbox.faults({ operation: 'v3.orders.update', effect: { delayMs: 60_000 } });
  const process = processes.cli(
    [
      'service',
      'verify',
      '--base-url',
      sandbox.url.href,
      '--username',
      'default',
      '--allow-writes',
      '--yes',
      '--sku',
      'MUG-BLUE',
    ],
    { WAREHOUSE_PASSWORD: 'default', HTTP_TIMEOUT_MS: '2000' },
  );
  await waitFor('the update', async () =>
    (await sandbox.requests()).some(({ operation }) => operation === 'v3.orders.update'),
  );
  process.kill('SIGINT');
  expect(await process.ended).toMatchObject({ code: 1 });
  const left = process.lines.filter((text) => text.startsWith('Left at the service: ') && text.includes('VERIFY-'));
  expect(left.length).toBeGreaterThan(0);
  expect(left.every((text) => text.includes('is cancelled'))).toBe(true);
  const cancels = (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.cancel');
  expect(cancels).toHaveLength(left.length);
});

test('orders that the list does not show yet are cancelled, too', async () => {
  await sandbox.faults({ operation: 'v3.orders.list', effect: { lagMs: 600_000 } });
  const { differs, report } = await verifyAsJson(['--allow-writes', '--yes', '--sku', 'MUG-BLUE']);
  expect(differs).toContain('read-back');
  expect(report.left).toHaveLength(13);
  expect(report.left.every((text) => text.includes('is cancelled'))).toBe(true);
});

test('nothing is written without --yes', async () => {
  const env = { WAREHOUSE_BASE_URL: 'http://127.0.0.1:1', WAREHOUSE_USERNAME: 'x', WAREHOUSE_PASSWORD: 'x' };
  const { code, output } = await runCommand(['service', 'verify', '--allow-writes'], env);
  expect({ code, output }).toMatchObject({ code: 2, output: expect.stringMatching(/--allow-writes needs --yes/) });
});
