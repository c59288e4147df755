import { expect, test } from 'vitest';
import { writeSwitches } from '../../../helpers/config/operations-file.ts';
import { lostAnswer, once, short, usePushes } from '../../../helpers/pusher.ts';

const { database, sandbox, outbox } = usePushes();

/** Makes an order at a service whose updates erase what they do not name. */
const createOrder = async () => {
  await outbox.sendOrder('SO-1', {
    shippingMethod: 'PARCEL',
    pickUpPoint: { code: 'PUP-1' },
    metadata: { extra1: 'gift' },
  });
  await sandbox.switches({ omittedRelationships: 'erase' });
};
const change = { reference: 'call first' };
const readOrder = async () => {
  const [order] = await database.query(`
    select o.reference, o.preferred_shipping_method_id is not null as has_method, o.pick_up_point is not null as has_point,
      a.street1
    from fulfilment.orders o
    left join fulfilment.order_addresses a on a.order_id = o.id and a.role = 'delivery'`);
  return order;
};
const whole = { has_method: true, has_point: true, street1: 'Keizersgracht' };
const blank = { has_method: false, has_point: false, street1: null };

test('an update that erases what its row does not name is dead, and the tables show what was lost', async () => {
  await createOrder();
  expect(await readOrder()).toMatchObject(whole);
  const id = await outbox.insert('order.update', 'SO-1', change);
  const { status } = await outbox.send('order.release', 'SO-1');
  expect(status).toBe('pending');
  const row = await outbox.row(id);
  expect(row).toMatchObject({ status: 'dead', attempts: 1, written_at: expect.any(Date) });
  expect(row.last_error).toMatch(
    /^the service carried the update out, but erased preferredShippingMethod, delivery/,
  );
  expect(row.last_error).toContain('pickUpPoint.code');
  expect(row.last_error).not.toContain('Keizersgracht');
  expect(await readOrder()).toMatchObject({ ...change, ...blank });
  expect(
    await database.count("fulfilment.changes where entity = 'orders' and operation = 'updated'"),
  ).toBe(1);
});

test('the switch sendsRelationships sends back what the row does not name', async () => {
  await createOrder();
  const env = {
    WAREHOUSE_OPERATIONS_FILE: writeSwitches({ 'v3.orders.update': { sendsRelationships: true } }),
  };
  expect(await outbox.send('order.update', 'SO-1', change, env)).toMatchObject({
    status: 'done',
    last_error: null,
  });
  expect(await readOrder()).toMatchObject({ ...change, ...whole });
});

test.each([
  ['order.update', change, 2],
  ['order.rename', { externalOrderNumber: 'SO-2' }, 1],
])('what an %s without an answer erased is not forgotten', async (kind, payload, attempts) => {
  await createOrder();
  await sandbox.faults(once('v3.orders.update', lostAnswer));
  const { id } = await outbox.send(kind, 'SO-1', payload, short);
  await outbox.hurry();
  await outbox.push(short);
  await outbox.expectRow(id, {
    status: 'dead',
    attempts,
    last_error: expect.stringContaining('deliveryAddress.street1'),
  });
});

test('an answer without the included resources is checked by reading the order', async () => {
  await createOrder();
  await sandbox.switches({ omittedRelationships: 'keep' });
  await sandbox.faults(
    once('v3.orders.update', { set: [{ path: ['data', 'included'], value: [] }] }),
  );
  const payload = { ...change, metadata: { extra1: null } };
  expect(await outbox.send('order.update', 'SO-1', payload)).toMatchObject({
    status: 'done',
    last_error: null,
  });
});
