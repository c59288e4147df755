import { expect, test } from 'vitest';
import { takenMembers } from '../../../../config/operations.ts';
import { writeSwitches } from '../../../helpers/config/operations-file.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { usePusher } from '../../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

/** Writes a file that says what updates take. Returns the environment of a worker that uses it. */
const takeMembers = (takes: readonly string[], more: object = {}) => ({
  WAREHOUSE_OPERATIONS_FILE: writeSwitches({ 'v3.orders.update': { takes, ...more } }),
});

const createOrder = () =>
  outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', {
      shippingMethod: 'PARCEL',
      reference: 'kept',
      pickUpPoint: { code: 'PUP-1' },
    }),
  );
const change = {
  deliveryAddress: {
    lastName: 'Bakker',
    street1: 'Dam',
    houseNumber: '1',
    postcode: '1012JS',
    countryCode: 'NL',
  },
  billingAddress: { lastName: 'Smit', street1: 'Rue Neuve 2', countryCode: 'FR' },
  pickUpPoint: { code: 'PUP-2' },
  shippingMethod: 'PALLET',
  orderType: 'B2B',
};
const readOrder = async () => {
  const [order] = await database.query(`
    select order_type_id, preferred_shipping_method_id, reference, pick_up_point -> 'attributes' ->> 'code' as point
    from fulfilment.orders`);
  const addresses = await database.query(
    'select role, last_name from fulfilment.order_addresses order by role',
  );
  return {
    ...order,
    ...Object.fromEntries(addresses.map(({ role, last_name }) => [String(role), last_name])),
  };
};

test.each(['inside', 'top'])(
  'an update sends all members that the service takes, included: %s',
  async (included) => {
    await sandbox.switches({ changeableRelationships: true });
    await createOrder();
    const env = takeMembers(takenMembers, { included });
    const id = await outbox.insert('order.update', 'SO-1', change);
    await outbox.push(env);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', last_error: null });
    const changed = {
      order_type_id: 32,
      preferred_shipping_method_id: 13,
      reference: 'kept',
      point: 'PUP-2',
      delivery: 'Bakker',
      billing: 'Smit',
    };
    expect(await readOrder()).toEqual(changed);
    const erase = await outbox.insert('order.update', 'SO-1', {
      pickUpPoint: null,
      shippingMethod: null,
    });
    await outbox.push(env);
    expect(await outbox.row(erase)).toMatchObject({ status: 'done' });
    expect(await readOrder()).toEqual({
      ...changed,
      point: null,
      preferred_shipping_method_id: null,
    });
  },
);

test('the members that the file does not name, and items, are refused with what can be done', async () => {
  await sandbox.switches({ changeableRelationships: true });
  await createOrder();
  const env = takeMembers(['deliveryAddress']);
  const id = await outbox.insert('order.update', 'SO-1', { ...change, items: [] });
  await outbox.push(env);
  const { status, last_error: error } = await outbox.row(id);
  expect(status).toBe('dead');
  expect(error).not.toContain('deliveryAddress:');
  expect(error).toContain(
    'items: cannot be changed by an update; order_item.cancel cancels a line',
  );
  for (const member of takenMembers.slice(1))
    expect(error).toContain(
      `${member}: the interface does not show that the service takes it in an update. If it does, add "${member}" to "takes"`,
    );
  expect(error).toContain(
    'use order.replace, which cancels the order and creates it anew with the same number',
  );
});
