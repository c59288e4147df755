import { describe, expect, test } from 'vitest';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { lostRequest, once, short, usePushes } from '../../../helpers/pusher.ts';

const { sandbox, outbox } = usePushes();
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

/** Inserts the replacement, and pushes some rounds. */
const sendReplacement = async (rounds: number) => {
  const id = await outbox.insert('order.replace', 'SO-1', wanted);
  await outbox.pushRounds(rounds);
  return outbox.row(id);
};
const expectReplaced = async (id: number) =>
  expect(await readOrders()).toEqual([
    [`SO-1-R${id}`, 0],
    ['SO-1', 5],
  ]);

async function createOrder(): Promise<number> {
  const { id } = await outbox.sendOrder('SO-1', {}, short);
  return Number((await outbox.row(id)).result?.orderId);
}

test('order.replace keeps the number and leaves nothing of the former order to ship', async () => {
  const former = await createOrder();
  const { id, ...row } = await outbox.send('order.replace', 'SO-1', wanted, short);
  expect(row).toMatchObject({
    status: 'done',
    attempts: 1,
    result: { orderItems: [{ sku: 'MUG-BLUE' }], replacedOrderId: former },
  });
  await expectReplaced(id);
});

describe.each(['v3.orders.update', 'v3.orders.cancel', 'v3.orders.create'] as const)(
  'no answer to %s',
  (operation) => {
    test.each([true, false])(
      'is settled by reading the former order, carried out: %s',
      async (afterEffect) => {
        const former = await createOrder();
        await sandbox.switches({ repeatedNumbers: true });
        await sandbox.faults({ operation, count: 1, effect: { reset: true, afterEffect } });
        const { id, status } = await sendReplacement(1);
        expect(status).toBe('unknown');
        await outbox.pushRounds(4);
        await expectReplaced(id);
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
  await sandbox.faults(once('v3.orders.update', { status: 422 }));
  expect(await sendReplacement(2)).toMatchObject({
    status: 'dead',
    last_error: expect.stringContaining('422'),
  });
  expect(await readOrders()).toEqual([['SO-1', 2]]);
});

test('an order whose items are shipped is not touched', async () => {
  await createOrder();
  await sandbox.advance(2 * 86_400);
  expect(await sendReplacement(2)).toMatchObject({
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
  await outbox.sendOrder('SO-1', { items, allowPartialDelivery: true }, short);
  await sandbox.advance(2 * 86_400);
  // The list of shipments does not show the shipment yet.
  await sandbox.faults(once('v3.shipments.list', { set: [{ path: ['data'], value: [] }] }));
  expect(await sendReplacement(2)).toMatchObject({
    status: 'dead',
    last_error: expect.stringMatching(
      /no new one was created: 2 x MUG-BLUE \(item \d+\) had been shipped already\. It keeps the number SO-1-R2/,
    ),
  });
  expect(await readOrders()).toEqual([['SO-1-R2', 2]]);
});

test('a new order that is refused can be corrected: the row then creates it', async () => {
  const former = await createOrder();
  await sandbox.faults(once('v3.orders.create', { status: 422 }));
  const { id, ...row } = await sendReplacement(3);
  expect(row).toMatchObject({
    status: 'dead',
    last_error: expect.stringContaining(
      `The replaced order ${former} is cancelled and has the number SO-1-R${id}`,
    ),
  });
  await outbox.replace(id, wanted);
  await outbox.pushRounds(3);
  expect(await outbox.row(id)).toMatchObject({
    status: 'done',
    result: { replacedOrderId: former },
  });
  await expectReplaced(id);
});

test('the new orders of several rows are looked up by one search', async () => {
  const numbers = ['SO-1', 'SO-2'];
  for (const number of numbers) await outbox.sendOrder(number, {}, short);
  await sandbox.faults({ operation: 'v3.orders.create', count: 2, effect: lostRequest });
  for (const number of numbers)
    await outbox.insert('order.replace', number, orderPayload(number, { items: wanted.items }));
  await outbox.push(short);
  const unknown = await outbox.rows(`status = 'unknown'`);
  expect(unknown.map(({ reference }) => reference)).toEqual(numbers);

  await outbox.hurry();
  const place = await sandbox.lastPlace();
  await outbox.push(short);
  const requests = await sandbox.requests(place);
  const searches = requests.filter(({ operation }) => operation === 'v3.orders.list');
  expect(searches).toHaveLength(1);
});
