import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { short, usePusher } from '../../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';
import type { FaultRule } from '../../../helpers/sandbox-control.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const wanted = orderPayload('SO-1', { items: [{ sku: 'MUG-BLUE', quantity: 5 }] });

interface SandboxOrder {
  resource: { id: number; attributes: { externalOrderNumber: string } };
  included: { type: string; attributes: { quantity?: number } }[];
}
/** Returns the number of each order at the service, with the pieces that it is still to ship. */
async function readOrders(): Promise<[string, number][]> {
  const token = await sandbox.call<{ clients: { orders: SandboxOrder[] }[] }>(
    'GET',
    '/_sandbox/state',
  );
  return (token.clients[0]?.orders ?? []).map(({ resource, included }) => [
    resource.attributes.externalOrderNumber,
    included.reduce(
      (sum, { type, attributes }) => sum + (type === 'orderItem' ? (attributes.quantity ?? 0) : 0),
      0,
    ),
  ]);
}

async function createOrder(): Promise<number> {
  const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push(short);
  return Number((await outbox.row(id)).result?.orderId);
}

test('order.replace keeps the number and leaves nothing of the former order to ship', async () => {
  const former = await createOrder();
  const id = await outbox.insert('order.replace', 'SO-1', wanted);
  await outbox.push(short);
  expect(await outbox.row(id)).toMatchObject({
    status: 'done',
    attempts: 1,
    result: {
      orderId: expect.any(Number),
      orderItems: [{ sku: 'MUG-BLUE' }],
      replacedOrderId: former,
    },
  });
  expect(await readOrders()).toEqual([
    [`SO-1-R${id}`, 0],
    ['SO-1', 5],
  ]);
});

describe.each(['v3.orders.update', 'v3.orders.cancel', 'v3.orders.create'] as const)(
  'no answer to %s',
  (operation) => {
    test.each([true, false])(
      'is settled by reading the former order, carried out: %s',
      async (afterEffect) => {
        const former = await createOrder();
        await sandbox.switches({ repeatedNumbers: true });
        await sandbox.faults({ operation, count: 1, effect: { noAnswer: true, afterEffect } });
        const id = await outbox.insert('order.replace', 'SO-1', wanted);
        await outbox.pushRounds(1);
        expect(await outbox.row(id)).toMatchObject({ status: 'unknown' });
        await outbox.pushRounds(4);
        expect(await readOrders()).toEqual([
          [`SO-1-R${id}`, 0],
          ['SO-1', 5],
        ]);
        expect(await outbox.row(id)).toMatchObject({
          status: 'done',
          result: { replacedOrderId: former },
        });
      },
    );
  },
);

test('a refused rename is dead, and nothing was changed', async () => {
  await createOrder();
  const refusal: FaultRule['effect'] = { status: 422 };
  await sandbox.faults({ operation: 'v3.orders.update', count: 1, effect: refusal });
  const id = await outbox.insert('order.replace', 'SO-1', wanted);
  await outbox.pushRounds(2);
  expect(await outbox.row(id)).toMatchObject({
    status: 'dead',
    last_error: expect.stringContaining('422'),
  });
  expect(await readOrders()).toEqual([['SO-1', 2]]);
});

test('an order whose items are shipped is not touched', async () => {
  await createOrder();
  await sandbox.advance(2 * 86_400);
  const id = await outbox.insert('order.replace', 'SO-1', wanted);
  await outbox.pushRounds(2);
  expect(await outbox.row(id)).toMatchObject({
    status: 'dead',
    last_error: expect.stringMatching(/cannot be replaced, because shipment \d+ has items of it/),
  });
  expect(await readOrders()).toEqual([['SO-1', 2]]);
});

test('an order that could only be cancelled in part is not created again, and the row says what is left', async () => {
  for (const warehouse of ['AMS', 'EIN'])
    await sandbox.call('POST', '/_sandbox/stock', {
      client: 'default',
      sku: 'TEA-500',
      warehouse,
      quantity: 0,
    });
  const items = [
    { sku: 'MUG-BLUE', quantity: 2 },
    { sku: 'TEA-500', quantity: 3 },
  ];
  await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { items, allowPartialDelivery: true }),
  );
  await outbox.push(short);
  await sandbox.advance(2 * 86_400);
  // The list of shipments does not show the shipment yet.
  await sandbox.faults({
    operation: 'v3.shipments.list',
    count: 1,
    effect: { set: [{ path: ['data'], value: [] }] },
  });
  const id = await outbox.insert('order.replace', 'SO-1', wanted);
  await outbox.pushRounds(2);
  expect(await outbox.row(id)).toMatchObject({
    status: 'dead',
    last_error: expect.stringMatching(
      /no new one was created: 2 x MUG-BLUE \(item \d+\) had been shipped already\. It keeps the number SO-1-R2/,
    ),
  });
  expect(await readOrders()).toEqual([['SO-1-R2', 2]]);
});

test('a new order that is refused can be corrected: the row then creates it', async () => {
  const former = await createOrder();
  await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { status: 422 } });
  const id = await outbox.insert('order.replace', 'SO-1', wanted);
  await outbox.pushRounds(3);
  const row = await outbox.row(id);
  expect(row).toMatchObject({ status: 'dead' });
  expect(row.last_error).toContain(
    `The replaced order ${former} is cancelled and has the number SO-1-R${id}`,
  );
  await database.query('select fulfilment.outbox_replace($1, $2)', [id, JSON.stringify(wanted)]);
  await outbox.pushRounds(3);
  expect(await outbox.row(id)).toMatchObject({
    status: 'done',
    result: { replacedOrderId: former },
  });
  expect(await readOrders()).toEqual([
    [`SO-1-R${id}`, 0],
    ['SO-1', 5],
  ]);
});
