import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { listStoredKinds } from '../../../src/push/kinds/registry.ts';
import { storeOutboxKinds } from '../../../src/push/sql/kinds.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);

/** Reads the state of an order as the role that only reads. */
const readState = (number: string) =>
  database.db.transaction().execute(async (trx) => {
    await sql`set local role fulfilment_reader`.execute(trx);
    return (
      await sql<Record<string, unknown>>`select * from fulfilment.order_state(${number})`.execute(
        trx,
      )
    ).rows[0];
  });

test('an order goes from waiting to shipped, and a refused one says why', async () => {
  expect(await readState('SO-1')).toBeUndefined();
  await outbox.insertOrder('SO-1');
  await outbox.insertOrder('SO-2', { orderType: 'NO-SUCH' });
  expect(await readState('SO-1')).toMatchObject({ order_id: null, state: 'waiting', open_rows: 1 });
  await outbox.push();
  expect(await readState('SO-1')).toMatchObject({
    ...{ order_id: expect.any(Number), state: 'accepted', waits_for: null, open_rows: 0 },
    ...{ ordered: 2, shipped: 0, tracking_urls: [] },
  });
  expect(await readState('SO-2')).toMatchObject({
    state: 'refused',
    waits_for: expect.stringContaining('NO-SUCH'),
  });
  await sandbox.advance(4 * 3_600);
  done(await pull('pull-shipments'));
  expect(await readState('SO-1')).toMatchObject({ state: 'in_warehouse', shipments: 1 });
  await sandbox.advance(3 * 86_400);
  for (const job of ['pull-shipments', 'track-trace', 'pull-parcels'] as const)
    done(await pull(job));
  expect(await readState('SO-1')).toMatchObject({
    state: 'shipped',
    shipped: 2,
    last_shipped_on: expect.any(Date),
  });
});

test('an order whose house number the service may not find waits for a check of its address', async () => {
  const deliveryAddress = {
    lastName: 'Janssen',
    street1: 'Dorpsstraat 12 next to the mill',
    postcode: '1234AB',
    countryCode: 'NL',
  };
  await outbox.insertOrder('SO-1', { deliveryAddress });
  await outbox.insertOrder('SO-2', {
    deliveryAddress: { ...deliveryAddress, street1: 'Dorpsstraat 12a' },
  });
  await outbox.push();
  expect(await readState('SO-1')).toMatchObject({ state: 'check_address' });
  expect(await readState('SO-2')).toMatchObject({ state: 'accepted' });
  const switches = {
    'v3.orders.create': { ...operations['v3.orders.create'], houseNumberCountries: ['BE'] },
  };
  await storeOutboxKinds(database.db, listStoredKinds({ ...operations, ...switches }));
  expect(await readState('SO-1')).toMatchObject({ state: 'accepted' });
  await storeOutboxKinds(database.db, listStoredKinds(operations));
});

test('cancelled, held, renamed and unlisted orders have states of their own', async () => {
  for (const number of ['A', 'B', 'C'])
    await outbox.insertOrder(number, { onHold: number === 'B' });
  await outbox.push();
  await outbox.insert('order.cancel', 'A', {});
  await outbox.insert('order.rename', 'C', { externalOrderNumber: 'C-2' });
  await outbox.insert('order.cancel', 'NEVER', {});
  await outbox.push();
  const states = async (...numbers: string[]) =>
    Promise.all(numbers.map(async (number) => (await readState(number))?.state));
  expect(await states('A', 'B', 'C', 'C-2', 'NEVER')).toEqual([
    'cancelled',
    'on_hold',
    'renamed',
    'accepted',
    'not_found',
  ]);
  await database.query(
    "update fulfilment.orders set unlisted_since = now() where external_order_number = 'B'",
  );
  expect(await states('B')).toEqual(['unlisted']);
});

test('a line keeps the pieces that were ordered first, whatever is cancelled later', async () => {
  await outbox.insertOrder('C', { items: [{ sku: 'MUG-BLUE', quantity: 5 }] });
  await outbox.push();
  const readLine = async () =>
    (
      await database.query("select * from fulfilment.order_lines where external_order_number = 'C'")
    )[0];
  // As after a partial shipment: what was not shipped is cancelled.
  await database.query('update fulfilment.order_items set quantity = 2');
  expect(await readLine()).toMatchObject({ ordered: 5, cancelled: 3, quantity: 2, to_come: 2 });
  await outbox.insert('order_item.cancel', 'C', { sku: 'MUG-BLUE' });
  await outbox.push();
  expect(await readLine()).toMatchObject({ ordered: 5, cancelled: 5, quantity: 0, to_come: 0 });
  expect(await readState('C')).toMatchObject({ state: 'cancelled', ordered: 5, cancelled: 5 });
});

test('partial shipments, returns and errors of the warehouse are counted', async () => {
  await outbox.insertOrder('P', { items: [{ sku: 'MUG-BLUE', quantity: 5 }] });
  await outbox.push();
  await database.query(`
    with o as (select id from fulfilment.orders where external_order_number = 'P'),
    s as (
      insert into fulfilment.shipments (client, id, status, order_id, raw, read_no)
      select 'default', n, case n when 1 then 'SHIPPED' else 'READY_TO_PICK' end, o.id, '{}', 1
      from o, generate_series(1, 2) n returning id)
    insert into fulfilment.shipment_items (client, id, shipment_id, sku, quantity, raw)
    select 'default', id, id, 'MUG-BLUE', id + 1, '{}' from s`);
  await database.query(`
    insert into fulfilment.return_items (client, id, order_id, quantity, raw, read_no)
    select 'default', 1, id, 1, '{}', 1 from fulfilment.orders where external_order_number = 'P'`);
  await database.query(`
    insert into fulfilment.parcels (client, shipment_id, package_number, track_and_trace_code, read_no, raw)
    values ('default', 1, 'X', 'https://track.example/X', 1, '{}'), ('default', 1, 'Y', '3SY', 1, '{}')`);
  expect(await readState('P')).toMatchObject({
    state: 'partly_shipped',
    ordered: 5,
    shipped: 2,
    returned: 1,
    shipments: 2,
    tracking_urls: ['https://track.example/X'],
  });
  await database.query("update fulfilment.shipments set status = 'ERROR' where id = 2");
  expect(await readState('P')).toMatchObject({ state: 'warehouse_error' });
  await database.query(
    "update fulfilment.parcels set current_track_trace_exception_level = '2' where package_number = 'Y'",
  );
  const dead = await outbox.insert('order.update', 'P', {});
  await outbox.push();
  expect(await database.query('select * from fulfilment.order_overview')).toMatchObject([
    {
      ...{ ordered: 5, shipped: 2, to_come: 3, returned: 1, shipments: 2, parcels: 2 },
      problem: expect.stringMatching(
        `^shipments with the status ERROR: 2; parcels with an exception level: Y; outbox row ${dead} \\(order.update\\) is dead: `,
      ),
    },
  ]);
});
