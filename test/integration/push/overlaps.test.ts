import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { readOutbox } from '../../../src/push/sql/read-outbox.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { once, usePushes } from '../../helpers/pusher.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox, pull } = usePushes();

const readStoredReference = async () =>
  (await database.query('select reference from fulfilment.orders'))[0]?.reference;
const countRereads = async () => (await database.query('select id from sync.waiting_reads')).length;

/** Pushes an order, so that the service and the tables have it. */
async function createOrder(): Promise<void> {
  await outbox.sendOrder('SO-1', { reference: 'old' });
}

test('a new payload waits until an attempt with the former one can no longer take effect', async () => {
  await createOrder();
  await sandbox.faults(once('v3.orders.update', { reset: true, effectAfterMs: 500 }));
  const { id } = await outbox.send('order.update', 'SO-1', { reference: 'older' });
  await outbox.replace(id, { reference: 'newer' });
  const place = await sandbox.lastPlace();
  await outbox.push();
  expect(await sandbox.requests(place)).toEqual([]);
  const [row] = await database.query(
    "select next_attempt_at = written_at + interval '60 seconds' as waits from fulfilment.outbox where id = $1",
    [id],
  );
  expect(row).toEqual({ waits: true });
  await waitFor('the former attempt to take effect', async () => {
    const [order] = await sandbox.orders();
    return order?.resource.attributes.reference === 'older';
  });
  await outbox.hurry();
  await outbox.push();
  await outbox.expectRow(id, { status: 'done' });
  expect(await readStoredReference()).toBe('newer');
});

describe('a poll and a push of one order at the same time', () => {
  test('if the poll writes first, the pushed order is read again at once', async () => {
    await createOrder();
    await pull('pull-orders');
    await database.query(
      "update sync.jobs set next_at = now() + interval '10 minutes' where job = 'pull-orders'",
    );
    await outbox.insert('order.update', 'SO-1', { reference: 'new' });
    await sandbox.faults(once('v3.orders.update', { delayMs: 1_500 }));
    const pushing = outbox.push();
    await waitFor(
      'the change to be under way',
      async () => (await sandbox.count('v3.orders.update')) > 0,
    );
    // Simulates a poll that asked meanwhile and stored the order without the pushed change.
    await database.query(
      "update fulfilment.orders set read_no = nextval('sync.read_no'), locale = 'x'",
    );
    await pushing;
    expect(await readStoredReference()).toBe('old');
    expect(await countRereads()).toBe(1);
    const [job] = await database.query(
      "select next_at <= clock_timestamp() as due from sync.jobs where job = 'pull-orders'",
    );
    expect(job).toEqual({ due: true });
    await pull('pull-orders');
    expect([await readStoredReference(), await countRereads()]).toEqual(['new', 0]);
  });

  test('if the push writes first, an older answer of the poll does not undo it', async () => {
    await createOrder();
    await pull('pull-orders');
    // The poll draws its number, asks, and gets its answer late, with the former state of the
    // order.
    await sandbox.faults(
      once('v3.orders.list', {
        delayMs: 2_000,
        set: [{ path: ['data', 0, 'attributes', 'reference'], value: 'old' }],
      }),
    );
    const place = await sandbox.lastPlace();
    const polling = pull('pull-orders');
    await waitFor(
      'the poll to have asked',
      async () => (await sandbox.count('v3.orders.list', place)) > 0,
    );
    await outbox.send('order.update', 'SO-1', { reference: 'new' });
    expect(await readStoredReference()).toBe('new');
    await polling;
    const operations = (await sandbox.requests(place)).map(({ operation }) => operation);
    // The same run reads the order again by id.
    expect(operations.at(-1)).toBe('v3.orders.get');
    expect([await readStoredReference(), await countRereads()]).toEqual(['new', 0]);
  });
});

describe('a row that names products', () => {
  const items = [{ sku: 'NEW', quantity: 1 }];

  test.each([
    ['order.create', orderPayload('SO-1', { items })],
    ['inbound_packing_slip.create', { expectedIn: 'AMS', expectedOn: '2026-05-06', items }],
  ])('waits for them, and is sent as soon as they are done: %s', async (kind, payload) => {
    await sandbox.faults(once('oldest.product.add', { status: 425 }));
    const id = await outbox.insert(kind, 'SO-1', payload);
    const { id: product } = await outbox.send('product.save', 'NEW', { name: 'New' });
    await outbox.expectRow(product, { status: 'pending', attempts: 1 });
    await outbox.expectRow(id, { status: 'pending', attempts: 0 });
    const open = await database.query(
      'select waits_for, because from fulfilment.outbox_open where id = $1',
      [id],
    );
    expect(open).toEqual([
      {
        waits_for: product,
        because: expect.stringContaining(
          `row ${product} (product.save of NEW) comes first and is pending`,
        ),
      },
    ]);
    expect(await readOutbox(database.db, product)).toMatchObject({ rowsBehind: [id] });
    await database.query('update fulfilment.outbox set next_attempt_at = now() where id = $1', [
      product,
    ]);
    await outbox.push();
    await outbox.expectRow(id, { status: 'done' });
    expect(await database.count('sync.outbox_waits')).toBe(0);
  });

  test('does not wait for a product row that is dead or cancelled', async () => {
    const dead = await outbox.insert('product.save', 'MUG-RED', { name: 7 });
    const cancelled = await outbox.insert('product.save', 'SOCKS-M', { name: 'Socks' });
    const ids = [];
    for (const sku of ['MUG-RED', 'SOCKS-M'])
      ids.push(await outbox.insertOrder(sku, { items: [{ sku, quantity: 1 }] }));
    await outbox.cancel(cancelled);
    await outbox.push();
    await outbox.expectRow(dead, { status: 'dead' });
    await outbox.push();
    for (const id of ids) await outbox.expectRow(id, { status: 'done' });
  });
});

test('the commit of a cancellation wakes a row that was inserted behind it before', async () => {
  const { id: dead } = await outbox.send('order.update', 'SO-1', { nonsense: 1 });
  await outbox.expectRow(dead, { status: 'dead' });
  const listener = new pg.Client(database.url);
  await listener.connect();
  const { pusher, stop } = await outbox.start();
  listener.on('notification', ({ payload = '' }) => void pusher.onNotification(payload));
  await listener.query('listen fulfilment_outbox');
  let behind = 0;
  await database.db.transaction().execute(async (erp) => {
    await sql`select fulfilment.outbox_cancel(${dead})`.execute(erp);
    behind = await outbox.insertOrder('SO-1');
    await waitFor('the row to be postponed', async () => {
      await sql`select 1`.execute(erp);
      const [row] = await database.query<{ postponed: boolean }>(
        "select next_attempt_at > now() + interval '5 minutes' as postponed from fulfilment.outbox where id = $1",
        [behind],
      );
      return row?.postponed === true;
    });
  });
  await waitFor('the row to be done', async () => (await outbox.row(behind)).status === 'done');
  await listener.end();
  await stop(1_000);
});
