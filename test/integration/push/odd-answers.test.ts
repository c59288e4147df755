import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { lostAnswer, lostRequest, once, short, usePushes } from '../../helpers/pusher.ts';
import { useEditedService } from '../../helpers/services/edited-service.ts';

const { sandbox, outbox, database, pull, shipOrders } = usePushes();
const service = useEditedService(sandbox);

const pushRounds = (times: number) => outbox.pushRounds(times, service.env());

/** A resource of an answer. */
interface Resource {
  readonly attributes: Record<string, unknown>;
}

/** The service lists of an answer, as far as tests change them. */
interface SettingLists {
  readonly orderTypes: readonly object[];
  readonly returnReasons: readonly object[];
  readonly mainShippingMethods: readonly { readonly shippingMethods: readonly object[] }[];
}

/** Changes the resources of the answers to requests that begin so. */
const editResources = (begin: string, change: (attributes: Resource['attributes']) => void) =>
  service.edit((request, answer) => {
    if (!request.startsWith(begin)) return;
    const document = JSON.parse(answer.body) as { data: Resource | Resource[] };
    for (const { attributes } of [document.data].flat()) change(attributes);
    answer.body = JSON.stringify(document);
  });

/** Makes requests that match fail. */
const failOn = (pattern: RegExp) =>
  service.edit((request, answer) => {
    if (!pattern.test(request)) return;
    answer.status = 500;
    answer.body = '{"errors": [{"title": "broken"}]}';
  });

const slip = {
  expectedIn: 'AMS',
  expectedOn: '2026-05-20',
  items: [{ sku: 'MUG-BLUE', quantity: 5 }],
};

test('an order that cannot be read does not hold the look-ups of the others', async () => {
  editResources('GET /v3/orders', (order) => {
    if (order.externalOrderNumber === 'SO-A') order.orderedOn = 7;
  });
  await sandbox.faults({ operation: 'v3.orders.create', count: 3, effect: lostAnswer });
  for (const number of ['SO-A', 'SO-B', 'SO-C']) await outbox.insertOrder(number);

  await pushRounds(4);

  expect(await outbox.statuses()).toEqual(['unknown', 'done', 'done']);
});

test('an order without a number does not keep absences from being proven', async () => {
  await outbox.insertOrder('PORTAL-1');
  await pushRounds(1);
  editResources('GET /v3/orders', (order) => {
    if (order.externalOrderNumber === 'PORTAL-1') order.externalOrderNumber = null;
  });
  await sandbox.faults({ operation: 'v3.orders.create', count: 2, effect: lostRequest });
  for (const number of ['SO-B', 'SO-C']) await outbox.insertOrder(number);

  await pushRounds(8);

  expect(await outbox.statuses()).toEqual(['done', 'done', 'done']);
});

test('days whose list cannot be read hold only the rows that were ordered on them', async () => {
  failOn(/^GET \/v3\/orders\?.*\[orderedOn\]\[lt\]/);
  await sandbox.faults({ operation: 'v3.orders.create', count: 2, effect: lostRequest });
  await outbox.insertOrder('SO-A', { orderedOn: '1950-01-01' });
  await outbox.insertOrder('SO-B');

  await pushRounds(8);

  expect(await outbox.statuses()).toEqual(['unknown', 'done']);
});

test('an order that cannot be read by id does not hold the look-ups of other renames', async () => {
  for (const name of ['A', 'B', 'C']) await outbox.insertOrder(`SO-${name}`);
  await pushRounds(1);
  const [first] = await outbox.rows();
  await sandbox.faults({ operation: 'v3.orders.update', count: 3, effect: lostAnswer });
  for (const name of ['A', 'B', 'C'])
    await outbox.insert('order.rename', `SO-${name}`, { externalOrderNumber: `NEW-${name}` });
  await outbox.push({ ...short, ...service.env(), PUSH_CONCURRENCY: '1' });
  failOn(new RegExp(`^GET /v3/orders/${first?.result?.orderId}\\b`));
  await outbox.hurry();

  await pushRounds(4);

  expect((await outbox.statuses()).slice(3)).toEqual(['unknown', 'done', 'done']);
});

test('a slip that cannot be read holds only the look-ups of rows whose slip it may be', async () => {
  await outbox.insert('inbound_packing_slip.create', 'PO-0', slip);
  await pushRounds(1);
  await sandbox.faults({
    operation: 'v3.inboundPackingSlips.create',
    count: 2,
    effect: lostAnswer,
  });
  for (const reference of ['PO-1', 'PO-2'])
    await outbox.insert('inbound_packing_slip.create', reference, slip);
  editResources('GET /v3/inboundPackingSlips', (found) => {
    if (found.reference !== 'PO-1') found.expectedOn = 7;
  });

  await pushRounds(4);

  expect(await outbox.statuses()).toEqual(['done', 'done', 'unknown']);
});

test.each([
  ['paymentMethods', { id: 0 }],
  ['countries', { name: 31 }],
  ['languages', { 'x\0': 1 }],
])('one odd entry of %s does not stop orders', async (list, change) => {
  service.edit((request, answer) => {
    if (!request.startsWith('GET /settings/get')) return;
    const document = JSON.parse(answer.body) as { result: Record<string, object[]> };
    Object.assign(document.result[list]?.[0] ?? {}, change);
    answer.body = JSON.stringify(document);
  });
  await outbox.insertOrder('SO-A');

  await pushRounds(2);

  expect(await outbox.statuses()).toEqual(['done']);
});

test.each<[string, (lists: SettingLists) => void]>([
  ['orderTypes.0', ({ orderTypes: [first] }) => Object.assign(first ?? {}, { id: 0 })],
  [
    'returnReasons.0',
    ({ returnReasons: [first] }) =>
      Object.assign(first ?? {}, { weight: JSON.rawJSON('1e999999') }),
  ],
  [
    'mainShippingMethods.0.shippingMethods.0.warehouse',
    ({ mainShippingMethods: [first] }) =>
      // No index takes it.
      Object.assign(first?.shippingMethods[0] ?? {}, {
        warehouse: randomBytes(10_000).toString('hex'),
      }),
  ],
])(
  '%s of the settings is named if it cannot be read, and its list loses nothing',
  async (path, damage) => {
    const env = service.env();
    await pull('refresh-settings', { env });
    service.edit((request, answer) => {
      if (!request.startsWith('GET /settings/get')) return;
      const document = JSON.parse(answer.body) as { result: SettingLists };
      damage(document.result);
      answer.body = JSON.stringify(document);
    });

    const run = await pull('refresh-settings', { env });

    expect(run).toMatchObject({ status: 'done' });
    expect(JSON.stringify(run)).toContain(path);
    for (const table of ['setting_options', 'main_shipping_method_warehouses'])
      expect(await database.count(`fulfilment.${table} where removed_at is not null`)).toBe(0);
  },
);

test('an order whose shipments cannot be listed does not keep others from being settled', async () => {
  for (const name of ['A', 'B', 'C']) await outbox.insertOrder(`SO-${name}`);
  await pushRounds(1);
  const [first] = await outbox.rows();
  const env = service.env();
  await sandbox.advance(3 * 3_600);
  await pull('pull-shipments', { env });
  // The end of the list, which each poll reads, does not show these shipments any more.
  await sandbox.seed(150);
  for (let times = 0; times < 2; times++) await pull('pull-shipments', { env });
  await sandbox.advance(3 * 86_400);
  failOn(new RegExp(`^GET /v3/shipments\\?.*orderId.*\\b${first?.result?.orderId}\\b`));

  const run = await pull('pull-shipments', { env });

  expect(run).toMatchObject({ status: 'done' });
  const found = await database.query(`
    select s.status from fulfilment.shipments s
    join fulfilment.orders o on o.client = s.client and o.id = s.order_id
    where o.external_order_number in ('SO-B', 'SO-C')`);
  expect(found).toEqual([{ status: 'SHIPPED' }, { status: 'SHIPPED' }]);
});

test('an answer with a name that Postgres cannot store keeps its label', async () => {
  await outbox.sendOrder('SO-1', {}, short);
  const { shipmentId } = await shipOrders();
  const odd = [{ path: ['result', 'a\0b'], value: 1 }];
  await sandbox.faults(once('v2.returnLabel.get', { set: odd }));

  const row = await outbox.send('return_label.create', 'SO-1', { shipmentId }, short);

  expect(row).toMatchObject({ status: 'done', result: { packageNumber: expect.any(String) } });
});
