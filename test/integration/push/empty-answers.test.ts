import { expect, test } from 'vitest';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { usePushes } from '../../helpers/pusher.ts';

const { database, sandbox, outbox, shipOrders } = usePushes();

const items = [
  { sku: 'MUG-BLUE', quantity: 2 },
  { sku: 'MUG-RED', quantity: 1 },
];
/** From now on, every success of these operations is a 204 without a body. */
const answerEmpty = (...operations: string[]) =>
  sandbox.faults(...operations.map((operation) => ({ operation, effect: { empty: true } })));
const createOrder = (number: string, more: object = {}) =>
  outbox.sendOrder(number, { items, ...more });

test('a change of an order that is answered without a body is settled by reading the order', async () => {
  const { result } = await createOrder('SO-1', { onHold: true });
  const orderId = result?.orderId;
  await answerEmpty(
    'v3.orders.update',
    'v2.order.release',
    'v3.orderItems.cancel',
    'v3.orders.cancel',
  );

  expect(await outbox.send('order.update', 'SO-1', { reference: 'new' })).toMatchObject({
    status: 'done',
    attempts: 1,
  });
  expect(await outbox.send('order.release', 'SO-1')).toMatchObject({
    status: 'done',
    attempts: 1,
    result: {},
  });
  expect(await outbox.send('order_item.cancel', 'SO-1', { sku: 'MUG-RED' })).toMatchObject({
    status: 'done',
    attempts: 1,
    result: { orderItemId: expect.any(Number), modified: true, quantity: 0 },
  });
  expect(await outbox.send('order.rename', 'SO-1', { externalOrderNumber: 'SO-2' })).toMatchObject({
    status: 'done',
    result: { orderId, externalOrderNumber: 'SO-2' },
  });
  expect(await outbox.send('order.cancel', 'SO-2')).toMatchObject({
    status: 'done',
    attempts: 1,
    result: {
      orderId,
      modified: true,
      modifiedItemIds: [expect.any(Number)],
      items: [
        { sku: 'MUG-BLUE', quantity: 0 },
        { sku: 'MUG-RED', quantity: 0 },
      ],
    },
  });
  expect(await outbox.send('order.cancel', 'SO-2')).toMatchObject({
    result: { modified: false, modifiedItemIds: [] },
  });
  expect(await database.query('select reference, on_hold from fulfilment.orders')).toEqual([
    { reference: 'new', on_hold: false },
  ]);
});

test.each([
  ['order.cancel', 'v3.orders.cancel', { readsBefore: 1, payload: {}, result: { modified: true } }],
  [
    'order_item.cancel',
    'v3.orderItems.cancel',
    { readsBefore: 1, payload: { sku: 'MUG-RED' }, result: { modified: true } },
  ],
  ['order.release', 'v2.order.release', { readsBefore: 0, payload: {}, result: {} }],
])(
  '%s says what it did, although the order could not be read after the empty answer',
  async (kind, operation, { readsBefore, payload, result }) => {
    await createOrder('SO-1', { onHold: true });
    await answerEmpty(operation);
    await sandbox.faults({
      ...{ operation: 'v3.orders.get', after: readsBefore, count: 1 },
      effect: { status: 425 },
    });
    const { id } = await outbox.send(kind, 'SO-1', payload);
    await outbox.hurry();
    await outbox.push();
    await outbox.expectRow(id, { status: 'done', attempts: 2, result });
  },
);

test('an order that the service no longer has after an empty answer to its cancellation is gone', async () => {
  const { result } = await createOrder('SO-1');
  await answerEmpty('v3.orders.cancel');
  // The order is read once before the cancellation.
  await sandbox.faults({ operation: 'v3.orders.get', after: 1, effect: { status: 404 } });
  expect(await outbox.send('order.cancel', 'SO-1')).toMatchObject({
    status: 'done',
    result: { orderId: result?.orderId, modified: true, items: [] },
  });
  expect(await database.count('fulfilment.orders where unlisted_since is not null')).toBe(1);
});

test('a return and a product are replaced, deleted and saved although the answers have no body', async () => {
  await createOrder('SO-1');
  const announcement = await shipOrders();
  const created = await outbox.send('return.create', 'RET-1', announcement);
  const id = created.result?.returnMerchandiseAuthorizationId;
  const authorizations = 'v3.returnMerchandiseAuthorizations';
  await answerEmpty(
    `${authorizations}.replace`,
    `${authorizations}.delete`,
    'oldest.product.add',
    'oldest.product.edit',
  );

  expect(await outbox.send('return.replace', 'RET-1', announcement)).toMatchObject({
    status: 'done',
    result: {
      returnMerchandiseAuthorizationId: id,
      items: [{ shipmentItemId: announcement.items[0]?.shipmentItemId }],
    },
  });
  expect(await outbox.send('return.delete', 'RET-1')).toMatchObject({
    status: 'done',
    attempts: 1,
    result: { id },
  });
  expect(await outbox.send('product.save', 'VASE', { name: 'Vase' })).toMatchObject({
    result: { action: 'added' },
  });
  expect(await outbox.send('product.save', 'VASE', { name: 'Tall' })).toMatchObject({
    result: { action: 'edited' },
  });
});

test('a return.replace is done, although the return could not be read after the empty answer', async () => {
  await createOrder('SO-1');
  const announcement = await shipOrders();
  await outbox.send('return.create', 'RET-1', announcement);
  await answerEmpty('v3.returnMerchandiseAuthorizations.replace');
  const operation = 'v3.returnMerchandiseAuthorizations.get';
  await sandbox.faults({ operation, count: 1, effect: { status: 400 } });
  const { id } = await outbox.send('return.replace', 'RET-1', announcement);
  await outbox.hurry();
  await outbox.push();
  await outbox.expectRow(id, { status: 'done', attempts: 2 });
});

test('what an empty answer does not prove is left to a person', async () => {
  await createOrder('SO-1');
  await answerEmpty('v3.orderAttachments.create');
  const content = Buffer.from(await writePage(['A page'])).toString('base64');
  const row = await outbox.send('order_attachment.create', 'SO-1', { filename: 'a.pdf', content });
  expect(row).toMatchObject({ status: 'unknown', next_attempt_at: null });
});
