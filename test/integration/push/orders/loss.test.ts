import { expect, test } from 'vitest';
import { writeSwitches } from '../../../helpers/config/operations-file.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { short, usePusher } from '../../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const createOrder = async () => {
  await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', {
      shippingMethod: 'PARCEL',
      pickUpPoint: { code: 'PUP-1' },
      metadata: { extra1: 'gift' },
    }),
  );
  await outbox.push();
};
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
  await sandbox.switches({ omittedRelationships: 'erase' });
  const [mark] = await database.query<{ seq: number }>(
    'select coalesce(max(seq), 0) as seq from fulfilment.changes',
  );
  const id = await outbox.insert('order.update', 'SO-1', { reference: 'call first' });
  const behind = await outbox.insert('order.release', 'SO-1');
  await outbox.push();
  const row = await outbox.row(id);
  expect(row).toMatchObject({ status: 'dead', attempts: 1, written_at: expect.any(Date) });
  expect(row.last_error).toMatch(
    /^the service carried the update out, but erased preferredShippingMethod, delivery/,
  );
  expect(row.last_error).toContain('deliveryAddress.street1');
  expect(row.last_error).toContain('pickUpPoint.code');
  expect(row.last_error).not.toContain('Keizersgracht');
  expect(await outbox.row(behind)).toMatchObject({ status: 'pending' });
  expect(await readOrder()).toMatchObject({ reference: 'call first', ...blank });
  const changed = await database.query(
    'select entity, operation from fulfilment.changes where seq > $1 order by seq',
    [mark?.seq],
  );
  expect(changed).toContainEqual({ entity: 'orders', operation: 'updated' });
});

test('the switch sendsRelationships sends back what the row does not name', async () => {
  await createOrder();
  await sandbox.switches({ omittedRelationships: 'erase' });
  const env = {
    WAREHOUSE_OPERATIONS_FILE: writeSwitches({ 'v3.orders.update': { sendsRelationships: true } }),
  };
  const id = await outbox.insert('order.update', 'SO-1', { reference: 'call first' });
  await outbox.push(env);
  expect(await outbox.row(id)).toMatchObject({ status: 'done', last_error: null });
  expect(await readOrder()).toMatchObject({ reference: 'call first', ...whole });
});

test('what an attempt without an answer erased is not forgotten by the next one', async () => {
  await createOrder();
  await sandbox.switches({ omittedRelationships: 'erase' });
  await sandbox.faults({
    operation: 'v3.orders.update',
    count: 1,
    effect: { noAnswer: true, afterEffect: true },
  });
  const id = await outbox.insert('order.update', 'SO-1', { reference: 'call first' });
  await outbox.push(short);
  await outbox.hurry();
  await outbox.push(short);
  const row = await outbox.row(id);
  expect(row).toMatchObject({ status: 'dead', attempts: 2 });
  expect(row.last_error).toContain('deliveryAddress.street1');
});

test('a rename that erases something is dead, also if its answer is lost', async () => {
  await createOrder();
  await sandbox.switches({ omittedRelationships: 'erase' });
  await sandbox.faults({
    operation: 'v3.orders.update',
    count: 1,
    effect: { noAnswer: true, afterEffect: true },
  });
  const id = await outbox.insert('order.rename', 'SO-1', { externalOrderNumber: 'SO-2' });
  await outbox.push(short);
  await outbox.hurry();
  await outbox.push(short);
  const row = await outbox.row(id);
  expect(row).toMatchObject({ status: 'dead', attempts: 1 });
  expect(row.last_error).toContain('deliveryAddress.street1');
});

test('an answer without the included resources is checked by reading the order', async () => {
  await createOrder();
  await sandbox.faults({
    operation: 'v3.orders.update',
    count: 1,
    effect: { set: [{ path: ['data', 'included'], value: [] }] },
  });
  const id = await outbox.insert('order.update', 'SO-1', {
    reference: 'call first',
    metadata: { extra1: null },
  });
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'done', last_error: null });
});
