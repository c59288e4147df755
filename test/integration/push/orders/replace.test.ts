import { describe, expect, test } from 'vitest';
import { takeOverClaims } from '../../../../src/push/sql/lost-rows.ts';
import { actOnOutbox, findCancelProblem } from '../../../../src/push/sql/operator-actions.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { lostRequest, once, short, usePushes } from '../../../helpers/pusher.ts';
import { expireHolds } from '../../../helpers/service-health.ts';

const { sandbox, outbox, database } = usePushes();
const wanted = orderPayload('SO-1', { items: [{ sku: 'MUG-BLUE', quantity: 5 }] });

/** Returns the number of each order at the service, with the pieces that it is still to ship. */
const readOrders = async () =>
  (await sandbox.orders()).map(({ resource, included }) => [
    resource.attributes.externalOrderNumber,
    included.reduce(
      (sum, { type, attributes }) => sum + (type === 'orderItem' ? (attributes.quantity ?? 0) : 0),
      0,
    ),
  ]);

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
  const { result } = await outbox.sendOrder('SO-1', {}, short);
  return Number(result?.orderId);
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
        await outbox.expectRow(id, {
          status: 'done',
          result: { replacedOrderId: former },
        });
      },
    );
  },
);

test('an order whose items are shipped is not touched', async () => {
  await createOrder();
  await sandbox.advance(2 * 86_400);
  expect(await sendReplacement(2)).toMatchObject({
    status: 'dead',
    last_error: expect.stringMatching(/cannot be replaced, because shipment \d+ has items of it/),
  });
  expect(await readOrders()).toEqual([['SO-1', 2]]);
});

/** Creates an order of which MUG-BLUE is shipped, while the list of shipments does not show it. */
async function createPartlyShipped(): Promise<void> {
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
}

test('an order that could only be cancelled in part is not created again, and the row says what is left', async () => {
  await createPartlyShipped();
  const { id, ...row } = await sendReplacement(2);
  expect(row).toMatchObject({
    status: 'dead',
    last_error: expect.stringMatching(
      /no new one was created: 2 x MUG-BLUE \(item \d+\) had been shipped already\. It keeps the number SO-1-R2/,
    ),
  });
  expect(await readOrders()).toEqual([['SO-1-R2', 2]]);
  await outbox.cancel(id);
});

test.each([
  ['leaves out', { id: 99_999, type: 'other', attributes: {} }],
  ['shows unreadably', { id: 99_999, type: 'orderItem', attributes: { quantity: 'two' } }],
])(
  'no new order is created for shipped items that the answer to the cancel %s',
  async (_how, value) => {
    await createPartlyShipped();
    await sandbox.faults(
      once('v3.orders.cancel', { set: [{ path: ['data', 'included', 0], value }] }),
    );
    expect(await sendReplacement(2)).toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining('2 x MUG-BLUE'),
    });
    expect(await readOrders()).toEqual([['SO-1-R2', 2]]);
  },
);

test.each([
  [422, 'dead'],
  [429, 'pending'],
])(
  'a replacement whose cancel gets %i says so, is not cancelled, and continues',
  async (status, became) => {
    const former = await createOrder();
    await sandbox.faults(once('v3.orders.cancel', { status }));
    const { id, ...row } = await sendReplacement(1);
    await outbox.push(short);
    await outbox.expectRow(id, {
      status: became,
      last_error: expect.stringContaining(`Order ${former} has the number SO-1-R${id} now`),
    });
    expect(row.attempts).toBe(status === 429 ? 0 : 1);

    await expect(outbox.cancel(id)).rejects.toThrow(
      `outbox row ${id} cannot be cancelled: order ${former} may be renamed`,
    );
    expect(await actOnOutbox(database.db, 'cancel', { ids: [id] }, { by: 'test' })).toEqual([]);

    await outbox.replace(id, wanted);
    await expireHolds(database);
    await outbox.pushRounds(3);
    await expectReplaced(id);
  },
);

test.each([
  [422, 'dead'],
  [429, 'pending'],
])(
  'a replacement whose rename gets %i changed nothing, and can be cancelled',
  async (status, became) => {
    await createOrder();
    await sandbox.faults(once('v3.orders.update', { status }));
    const { id } = await sendReplacement(1);
    await outbox.push(short);
    await outbox.expectRow(id, {
      status: became,
      last_error: expect.stringContaining(String(status)),
    });
    expect(await findCancelProblem(database.db, id)).toBeNull();
    await outbox.cancel(id);
    expect(await readOrders()).toEqual([['SO-1', 2]]);
  },
);

test('a replacement that lost a member of the former order continues when it is retried', async () => {
  const created = await outbox.sendOrder('SO-1', { pickUpPoint: { code: 'P' } }, short);
  expect(created.status).toBe('done');
  await sandbox.switches({ omittedRelationships: 'erase' });
  const { id, ...row } = await sendReplacement(2);
  expect(row).toMatchObject({
    status: 'dead',
    last_error: expect.stringContaining('Retry this row, or replace its payload by the same one'),
  });

  await actOnOutbox(database.db, 'retry', { ids: [id] }, { by: 'test' });
  await outbox.pushRounds(4);
  await expectReplaced(id);
});

test('a replacement that lost five workers says where its order may be', async () => {
  const former = await createOrder();
  await sandbox.faults(once('v3.orders.cancel', { status: 429 }));
  const { id } = await sendReplacement(1);
  await database.query(
    `insert into sync.outbox_attempts (outbox_id, step, by, became)
     select $1, 'taken over', 'lost', 'pending' from generate_series(1, 4)`,
    [id],
  );
  await database.query(
    `update fulfilment.outbox set status = 'sending', claim_no = 1, next_attempt_at = null,
       attempts = 1, lease_until = now() - interval '1 minute'
     where id = $1`,
    [id],
  );
  await takeOverClaims(database.db, 'test', { 'order.replace': 'look up' });
  await outbox.expectRow(id, {
    status: 'dead',
    last_error: expect.stringMatching(
      new RegExp(`lost 5 times .* order ${former} may be renamed .* ends with -R${id}`),
    ),
  });
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
  await outbox.expectRow(id, {
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
  expect(await sandbox.count('v3.orders.list', place)).toBe(1);
});
