import { expect, test } from 'vitest';
import { takenMembers } from '../../../../config/operations.ts';
import { writeSwitches } from '../../../helpers/config/operations-file.ts';
import { usePushes } from '../../../helpers/pusher.ts';

const { database, sandbox, outbox } = usePushes();

const createOrder = () =>
  outbox.insertOrder('SO-1', {
    shippingMethod: 'PARCEL',
    reference: 'kept',
    pickUpPoint: { code: 'PUP-1' },
  });
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

test('an update sends all members that the service takes', async () => {
  await sandbox.switches({ changeableRelationships: true });
  await createOrder();
  const takes = { 'v3.orders.update': { takes: takenMembers, included: 'top' } };
  const env = { WAREHOUSE_OPERATIONS_FILE: writeSwitches(takes) };
  expect(await outbox.send('order.update', 'SO-1', change, env)).toMatchObject({
    status: 'done',
    last_error: null,
  });
  const changed = {
    order_type_id: 32,
    preferred_shipping_method_id: 13,
    reference: 'kept',
    point: 'PUP-2',
    delivery: 'Bakker',
    billing: 'Smit',
  };
  expect(await readOrder()).toEqual(changed);
  const erase = { pickUpPoint: null, shippingMethod: null };
  expect(await outbox.send('order.update', 'SO-1', erase, env)).toMatchObject({ status: 'done' });
  expect(await readOrder()).toEqual({
    ...changed,
    point: null,
    preferred_shipping_method_id: null,
  });
});
