import { expect, test } from 'vitest';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { useVerify } from '../../helpers/processes/run-verify.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const processes = useProcesses();
const sandbox = useSandbox(['default'], { ...quiet, strict: false });
const { verifyAsJson } = useVerify(sandbox);

test('every order but the released one is on hold; all are cancelled in the end, and named', async () => {
  const { report } = await verifyAsJson(['--allow-writes', '--yes', '--sku', 'MUG-BLUE']);
  const { clients } = await sandbox.call<{
    clients: { orders: { resource: object; included: object[] }[] }[];
  }>('GET', '/_sandbox/state?lists=orders');
  const orders = clients[0]?.orders ?? [];
  expect(orders.length).toBeGreaterThan(1);
  expect(report.left).toHaveLength(orders.length);
  const isOnHold = ({ resource }: (typeof orders)[number]) =>
    (resource as { attributes: { onHold: boolean } }).attributes.onHold;
  expect(orders.filter(isOnHold)).toHaveLength(orders.length - 1);
  for (const [index, { resource, included }] of orders.entries()) {
    const number = (resource as { attributes: { externalOrderNumber: string } }).attributes
      .externalOrderNumber;
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
  await waitFor('the update', async () => (await sandbox.count('v3.orders.update')) > 0);
  process.kill('SIGINT');
  expect(await process.ended).toMatchObject({ code: 1 });
  const left = process.lines.filter(
    (text) => text.startsWith('Left at the service: ') && text.includes('VERIFY-'),
  );
  expect(left.length).toBeGreaterThan(0);
  expect(left.every((text) => text.includes('is cancelled'))).toBe(true);
  const cancels = (await sandbox.requests()).filter(
    ({ operation }) => operation === 'v3.orders.cancel',
  );
  expect(cancels).toHaveLength(left.length);
});

test('orders that the list does not show yet are cancelled, too', async () => {
  await sandbox.faults({ operation: 'v3.orders.list', effect: { lagMs: 600_000 } });
  const { differs, report } = await verifyAsJson(['--allow-writes', '--yes', '--sku', 'MUG-BLUE']);
  expect(differs).toContain('read-back');
  expect(report.left).toHaveLength(15);
  expect(report.left.every((text) => text.includes('is cancelled'))).toBe(true);
});

const authorizations = 'v3.returnMerchandiseAuthorizations';
const goodsChecks = [
  `${authorizations}.create`,
  `${authorizations}.replace`,
  `${authorizations}.delete`,
].concat('v3.inboundPackingSlips.create');
const verifyGoods = () => verifyAsJson(['--allow-goods-writes', '--yes', '--sku', 'MUG-BLUE']);

test('a return and goods are announced only with a flag of their own; the return is removed', async () => {
  await sandbox.seed(2);
  const { holds, differs, report } = await verifyGoods();
  expect(differs).toEqual([]);
  expect(holds).toEqual(expect.arrayContaining(goodsChecks.map((name) => `route-${name}`)));
  expect(report.left).toEqual([
    expect.stringMatching(/^return VERIFY-\w+ \(id \d+\) is removed$/),
    expect.stringMatching(/^slip VERIFY-\w+ \(id \d+\) stays: tell the warehouse/),
  ]);
  const after = await sandbox.lastPlace();
  await verifyAsJson(['--allow-writes', '--yes', '--sku', 'MUG-BLUE']);
  const asked = (await sandbox.requests(after)).map(({ operation }) => operation ?? '');
  expect(asked.filter((operation) => goodsChecks.includes(operation))).toEqual([]);
});

test.each([
  [
    '--allow-writes',
    'v3.orders.get',
    ['data', 'included', 4, 'attributes', 'name'],
    'pick-up-point',
  ],
  ['--allow-writes', 'v3.orders.get', ['data', 'attributes', 'onHold'], 'route-v2.order.release'],
  [
    '--allow-writes',
    'v3.orderAttachments.create',
    ['data', 'attributes', 'filename'],
    'attachment',
  ],
  [
    '--allow-goods-writes',
    `${authorizations}.get`,
    ['data', 'attributes', 'comments'],
    `route-${authorizations}.create`,
  ],
  [
    '--allow-goods-writes',
    `${authorizations}.get`,
    ['data', 'included', 0, 'attributes', 'quantity'],
    `route-${authorizations}.replace`,
  ],
  [
    '--allow-goods-writes',
    `${authorizations}.get`,
    ['data', 'id'],
    `route-${authorizations}.create`,
  ],
  [
    '--allow-goods-writes',
    'v3.inboundPackingSlips.list',
    ['data', 0, 'attributes', 'expectedOn'],
    'route-v3.inboundPackingSlips.create',
  ],
])('%s: a service whose %s lacks %j differs', async (flag, operation, path, check) => {
  await sandbox.seed(4);
  await sandbox.faults({ operation, effect: { set: [{ path }] } });
  const { differs, unknown } = await verifyAsJson([flag, '--yes', '--sku', 'MUG-BLUE']);
  expect({ differs, unknown }).toMatchObject({ differs: expect.arrayContaining([check]) });
});

test('what could not be removed, and what may exist, is named', async () => {
  await sandbox.seed(1);
  const lost = { noAnswer: true, afterEffect: true };
  await sandbox.faults(
    { operation: `${authorizations}.delete`, effect: { status: 403 } },
    { operation: 'v3.inboundPackingSlips.create', effect: lost },
  );
  const words = ['--allow-goods-writes', '--yes', '--sku', 'MUG-BLUE'];
  const { unknown, report } = await verifyAsJson(words, { HTTP_TIMEOUT_MS: '300' });
  expect(unknown).toEqual(
    expect.arrayContaining([
      `route-${authorizations}.delete`,
      'route-v3.inboundPackingSlips.create',
    ]),
  );
  expect(report.left).toEqual([
    expect.stringMatching(/is still announced; remove it by hand$/),
    expect.stringMatching(/^slip VERIFY-\w+ may exist/),
  ]);
});

test('nothing is written without --yes', async () => {
  const env = {
    WAREHOUSE_BASE_URL: 'http://127.0.0.1:1',
    WAREHOUSE_USERNAME: 'x',
    WAREHOUSE_PASSWORD: 'x',
  };
  const { code, output } = await runCommand(['service', 'verify', '--allow-writes'], env);
  expect({ code, output }).toMatchObject({
    code: 2,
    output: expect.stringMatching(/Writing needs --yes/),
  });
});
