import { describe, expect, test } from 'vitest';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { done } from '../../helpers/puller.ts';
import { lostAnswer, once, usePushes } from '../../helpers/pusher.ts';

const { database, sandbox, outbox, pull, shipOrders } = usePushes();

test('an order is created completely, and is in the tables when the row is done', async () => {
  const page = (await writePage(['Packing slip'])).toString('base64');
  const payload = orderPayload('SO-1', {
    orderType: 'B2B',
    shippingMethod: 'PALLET',
    reference: 'R-1',
    orderedOn: '2026-05-03',
    preferredShippingDate: '2026-05-20',
    allowPartialDelivery: true,
    onHold: true,
    metadata: { extra1: 'one', extra5: null },
    items: [
      { sku: 'MUG-BLUE', quantity: 2, price: '9.95', vat: 0.21, metadata: { extra6: 'six' } },
      {
        sku: 'DISCOUNT',
        quantity: 1,
        price: -1.5,
        vat: '0.21',
        name: 'Voucher',
        channelIdentifier: null,
      },
    ],
    billingAddress: { lastName: 'Bakker', street1: 'Rue Neuve', countryCode: 'FR' },
    pickUpPoint: { code: 'PUP-7' },
    attachments: [
      { filename: 'a.pdf', content: page },
      { filename: 'b.pdf', content: page },
    ],
  });
  const row = await outbox.send('order.create', 'SO-1', payload);
  expect(row).toMatchObject({ status: 'done', attempts: 1, last_error: null });
  const [order] = await database.query('select * from fulfilment.orders');
  expect(order).toMatchObject({
    id: row.result?.orderId,
    external_order_number: 'SO-1',
    reference: 'R-1',
    order_type_id: 32,
    preferred_shipping_method_id: 13,
    preferred_shipping_date: '2026-05-20',
    on_hold: true,
    metadata: { extra1: 'one' },
    pick_up_point: { attributes: { code: 'PUP-7' } },
  });
  const items = await database.query(
    'select id, sku, quantity, price, vat from fulfilment.order_items order by id',
  );
  expect(items.map(({ id: itemId, sku }) => ({ id: itemId, sku }))).toEqual(row.result?.orderItems);
  expect(items).toMatchObject([
    { price: '9.95', vat: '0.21' },
    { price: '-1.5', vat: '0.21' },
  ]);
  const addresses = await database.query(
    'select role, last_name from fulfilment.order_addresses order by role',
  );
  expect(addresses).toEqual([
    { role: 'billing', last_name: 'Bakker' },
    { role: 'delivery', last_name: 'de Vries' },
  ]);
  // The first document is sent with the order. A follow-up row sends the second one.
  const [, attachment] = await outbox.rows();
  expect(attachment).toMatchObject({
    kind: 'order_attachment.create',
    reference: 'SO-1',
    status: 'done',
  });
  const changes = await database.query(
    "select entity, operation from fulfilment.changes where entity like 'order%'",
  );
  expect(changes).toHaveLength(5);
  // The next poll reads the same order that the push stored.
  expect(done(await pull('pull-orders'))).toMatchObject({ created: 0, updated: 0, unchanged: 1 });
});

test('update, release, item cancellation and cancellation reach the order', async () => {
  const items = [
    { sku: 'MUG-BLUE', quantity: 2 },
    { sku: 'MUG-RED', quantity: 1 },
  ];
  await outbox.sendOrder('SO-1', {
    onHold: true,
    items,
    metadata: { extra1: 'a', extra2: 'b' },
    preferredShippingDate: '2026-05-06',
  });
  await sandbox.advance(7 * 86_400);
  const change = {
    reference: 'new',
    phoneNumber: '',
    metadata: { extra2: null, extra3: 'c' },
  };
  const update = await outbox.insert('order.update', 'SO-1', change);
  const release = await outbox.insert('order.release', 'SO-1');
  const again = await outbox.insert('order.release', 'SO-1');
  const item = await outbox.insert('order_item.cancel', 'SO-1', { sku: 'MUG-RED' });
  const cancelled = await outbox.send('order.cancel', 'SO-1');
  const [order] = await database.query(
    'select id, reference, phone_number, metadata, email from fulfilment.orders',
  );
  await outbox.expectRow(update, {
    status: 'done',
    result: {
      orderId: order?.id,
      note: 'preferredShippingDate 2026-05-06 had passed and was sent as null',
    },
  });
  expect(order).toMatchObject({
    reference: 'new',
    phone_number: null,
    metadata: { extra1: 'a', extra3: 'c' },
    email: 'anna@example.com',
  });
  await outbox.expectRow(release, { status: 'done', result: {} });
  // The service refuses the second release, because the order is released already. So the row is
  // done.
  await outbox.expectRow(again, { status: 'done', result: {} });
  expect((await outbox.row(item)).result).toMatchObject({ modified: true, quantity: 0 });
  expect(cancelled.result).toMatchObject({
    orderId: order?.id,
    modified: true,
    modifiedItemIds: [expect.any(Number)],
    items: [
      { sku: 'MUG-BLUE', quantity: 0 },
      { sku: 'MUG-RED', quantity: 0 },
    ],
  });
  expect(await database.query('select distinct quantity from fulfilment.order_items')).toEqual([
    { quantity: 0 },
  ]);
});

test('a return is announced, replaced and deleted', async () => {
  await outbox.sendOrder('SO-1');
  const payload = { ...(await shipOrders()), comments: 'broken' };
  const shipmentItemId = payload.items[0]?.shipmentItemId;
  const create = await outbox.insert('return.create', 'RET-1', payload);
  const label = await outbox.send('return_label.create', 'SO-1', {
    shipmentId: payload.shipmentId,
    shippingMethod: 'RETURN_PARCEL',
  });
  const created = await outbox.row(create);
  expect(created).toMatchObject({
    status: 'done',
    result: { status: 'PENDING', items: [{ id: expect.any(Number), shipmentItemId }] },
  });
  expect(label.result).toMatchObject({
    mimeType: 'application/pdf',
    shippingMethodId: '21',
  });
  const replaced = await outbox.send('return.replace', 'RET-1', {
    ...payload,
    comments: 'all of it',
    items: [{ shipmentItemId, quantity: 2, reason: 'REGRET' }],
  });
  const id = created.result?.returnMerchandiseAuthorizationId;
  expect(replaced.result?.returnMerchandiseAuthorizationId).toBe(id);
  const stored = () =>
    database.query(`
      select a.id, a.comments, a.status, a.unlisted_since is not null as gone, i.quantity, i.reason_code, i.shipment_item_id
      from fulfilment.return_merchandise_authorizations a
      join fulfilment.return_merchandise_authorization_items i on i.return_merchandise_authorization_id = a.id`);
  const [mirrored] = await stored();
  expect(mirrored).toMatchObject({
    comments: 'all of it',
    quantity: 2,
    reason_code: 'REGRET',
    shipment_item_id: shipmentItemId,
    gone: false,
  });
  expect(await outbox.send('return.delete', 'RET-1')).toMatchObject({ result: { id } });
  expect(await stored()).toMatchObject([{ gone: true }]);
  expect(
    await outbox.send('return.delete', 'RET-1', {
      returnMerchandiseAuthorizationId: mirrored?.id,
    }),
  ).toMatchObject({ status: 'done' });
});

/** Ships an order, and announces the return RET-1 of one of its lines. */
async function announceReturn(): Promise<void> {
  await outbox.sendOrder('SO-1');
  await outbox.send('return.create', 'RET-1', await shipOrders());
}

/** Expects that the tables have this number of announced returns that are listed. */
const expectListed = async (count: number) =>
  expect(
    await database.count(
      'fulfilment.return_merchandise_authorizations where unlisted_since is null',
    ),
  ).toBe(count);

test('return.delete is dead if the service still has the return that it does not find', async () => {
  await announceReturn();
  await sandbox.faults(once('v3.returnMerchandiseAuthorizations.delete', { status: 404 }));

  expect(await outbox.send('return.delete', 'RET-1')).toMatchObject({
    status: 'dead',
    last_error: expect.stringContaining('the service still has the announced return'),
  });
  await expectListed(1);
});

test('return.delete is done if its answer was lost and the return is gone, whatever was proven before', async () => {
  await announceReturn();
  await database.query('delete from sync.proven_kinds');

  await sandbox.faults(once('v3.returnMerchandiseAuthorizations.delete', lostAnswer));
  const { id } = await outbox.send('return.delete', 'RET-1');
  await outbox.pushRounds(2);
  await outbox.expectRow(id, { status: 'done' });
});

test('return.delete is done if its answer was lost and reading the return is refused', async () => {
  await announceReturn();
  const reading = 'v3.returnMerchandiseAuthorizations.get';
  await sandbox.faults(once('v3.returnMerchandiseAuthorizations.delete', lostAnswer), {
    operation: reading,
    effect: { status: 403 },
  });
  const { id } = await outbox.send('return.delete', 'RET-1');
  await outbox.pushRounds(2);
  await outbox.expectRow(id, { status: 'done' });
});

test('return.delete is done if its answer was lost and a reading has missed the return since', async () => {
  await announceReturn();
  await sandbox.faults(once('v3.returnMerchandiseAuthorizations.delete', lostAnswer));
  const { id } = await outbox.send('return.delete', 'RET-1');
  await database.query(
    'update fulfilment.return_merchandise_authorizations set unlisted_since = now()',
  );
  await outbox.hurry();
  await outbox.push();
  await outbox.expectRow(id, { status: 'done', result: { id: expect.any(Number) } });
});

test('return.delete is certainly not carried out after a 404 whose check gets no answer', async () => {
  await announceReturn();
  for (const operation of ['delete', 'get'] as const)
    await sandbox.faults({
      operation: `v3.returnMerchandiseAuthorizations.${operation}`,
      effect: { status: operation === 'get' ? 500 : 404 },
    });

  const row = await outbox.send('return.delete', 'RET-1');
  expect(row).toMatchObject({ status: 'pending', attempts: 1, written_at: null });
  await expectListed(1);
});

test('return.delete trusts no 404 of paths that were never right', async () => {
  await announceReturn();
  for (const operation of ['delete', 'get'] as const)
    await sandbox.faults({
      operation: `v3.returnMerchandiseAuthorizations.${operation}`,
      effect: { status: 404 },
    });

  const row = await outbox.send('return.delete', 'RET-1');
  expect(row).toMatchObject({
    status: 'dead',
    last_error: expect.stringContaining('paths are assumed and were never right so far'),
  });
  await expectListed(1);

  await database.query(`
    insert into sync.proven_kinds (client, kind, method, path)
    values ('default', 'v3.returnMerchandiseAuthorizations.get', 'GET',
      '/v3/returnMerchandiseAuthorizations/{id}')`);
  await actOnOutbox(database.db, 'retry', { ids: [row.id] }, { by: 'test' });
  await outbox.push();
  await outbox.expectRow(row.id, { status: 'done' });
  await expectListed(0);
});

test('order.cancel reads the order again if the answer does not show all of its items', async () => {
  await outbox.sendOrder('SO-1');
  await sandbox.advance(2 * 86_400);
  await sandbox.faults(
    once('v3.orders.cancel', { set: [{ path: ['data', 'included'], value: [] }] }),
  );
  expect((await outbox.send('order.cancel', 'SO-1')).result).toMatchObject({
    modified: false,
    items: [{ sku: 'MUG-BLUE', quantity: 2 }],
  });
});

test.each([
  ['order.cancel', {}, 'v3.orders.cancel'],
  ['order_item.cancel', { sku: 'MUG-BLUE' }, 'v3.orderItems.cancel'],
])('%s whose answer was lost says that it cancelled', async (kind, payload, operation) => {
  await outbox.sendOrder('SO-1');
  await sandbox.faults(once(operation, lostAnswer));
  const id = await outbox.insert(kind, 'SO-1', payload);
  await outbox.pushRounds(3);
  await outbox.expectRow(id, {
    status: 'done',
    result: { modified: true, note: expect.stringContaining('whose answer was lost') },
  });
});

test('the next poll reads what an answer does not show: a release, a return label', async () => {
  await outbox.insertOrder('SO-1', { onHold: true, orderedOn: '2026-01-01' });
  await outbox.send('order.release', 'SO-1');
  const onHold = () => database.query('select on_hold from fulfilment.orders');
  expect(await onHold()).toEqual([{ on_hold: true }]);
  // The order is older than any lookback, so it is read by id.
  await pull('pull-orders');
  await pull('pull-orders');
  expect(await onHold()).toEqual([{ on_hold: false }]);
  const { shipmentId } = await shipOrders();
  await outbox.send('return_label.create', 'SO-1', { shipmentId });
  await pull('pull-shipments');
  expect(
    await database.query('select return_label is not null as labelled from fulfilment.shipments'),
  ).toEqual([{ labelled: true }]);
  expect(
    await database.query("select * from sync.waiting_reads where resource <> 'parcels'"),
  ).toEqual([]);
});

test('an announced return is read again until its lines have their return items', async () => {
  await announceReturn();
  await sandbox.advance(30 * 86_400);
  const returned = () =>
    database.query('select return_item_id from fulfilment.return_merchandise_authorization_items');
  expect(await returned()).toEqual([{ return_item_id: null }]);
  done(await pull('reconcile'));
  expect(await returned()).toEqual([{ return_item_id: expect.any(Number) }]);
  const place = await sandbox.lastPlace();
  done(await pull('reconcile'));
  expect(
    (await sandbox.requests(place)).filter(({ path }) => path.includes('Authorizations')),
  ).toEqual([]);
});

test('an inbound packing slip is announced; a product is added, then changed', async () => {
  const slip = await outbox.insert('inbound_packing_slip.create', 'PO-7', {
    expectedIn: 'AMS',
    expectedOn: '2026-05-11',
    metadata: { purchases: 'P-1' },
    items: [{ sku: 'MUG-BLUE', quantity: 40 }],
  });
  const add = await outbox.insert('product.save', 'VASE', {
    name: 'Vase',
    weight: '1.20',
    barcode: '871',
  });
  const edited = await outbox.send('product.save', 'VASE', { name: 'Vase, tall' });
  const [stored] = await database.query(
    'select id, reference, expected_in from fulfilment.inbound_packing_slips',
  );
  expect(stored).toMatchObject({ reference: 'PO-7', expected_in: 'AMS' });
  expect((await outbox.row(slip)).result).toEqual({
    inboundPackingSlipId: stored?.id,
    items: [{ id: expect.any(Number), sku: 'MUG-BLUE' }],
  });
  expect((await outbox.row(add)).result).toEqual({ action: 'added' });
  expect(edited.result).toEqual({ action: 'edited' });
});

describe('a product that the search does not show', () => {
  /** A search that finds nothing, although the product exists. */
  const hidden = {
    operation: 'oldest.product.search',
    effect: {
      set: [
        { path: ['messageCode'], value: 'NOK' },
        { path: ['result'], value: null },
      ],
    },
  };
  const save = async (product: object, sku = 'VASE') => {
    await database.query("update fulfilment.outbox set status = 'cancelled' where status = 'dead'");
    return outbox.send('product.save', sku, product);
  };

  test.each([
    ['NOK', []],
    ['409', [{ operation: 'oldest.product.add', effect: { status: 409 } }]],
  ])('is changed if the service answers to the add that it exists: %s', async (_answer, faults) => {
    await save({ name: 'Vase' });
    await sandbox.faults(hidden, ...faults);
    expect(await save({ name: 'Vase, tall' })).toMatchObject({
      status: 'done',
      result: { action: 'edited' },
    });
  });
});
