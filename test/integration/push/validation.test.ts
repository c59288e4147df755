import { expect, test } from 'vitest';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePushes } from '../../helpers/pusher.ts';

const { sandbox, outbox } = usePushes();

const address = orderPayload('?').deliveryAddress;
const withAddress = (changes: Record<string, unknown>) => ({
  deliveryAddress: { ...address, ...changes },
});
test('a row whose payload cannot be sent is dead at once and names every problem', async () => {
  const changes = {
    externalOrderNumber: 'SO-2',
    orderType: 'X',
    locale: undefined,
    items: [{ sku: '', quantity: 1.5 }],
    ...withAddress({ postcode: null }),
  };
  expect(await outbox.sendOrder('SO-1', changes)).toMatchObject({
    status: 'dead',
    attempts: 0,
    last_error:
      'the payload cannot be sent: locale: is missing; items[0].sku: must not be empty; items[0].quantity: must be a whole number; ' +
      'externalOrderNumber: must equal the reference of the row, "SO-1"; orderType: there is no code X (known codes: B2B, B2C); deliveryAddress.postcode: is required for NL',
  });
  expect(await sandbox.requestsTo('/v3/orders')).toEqual([]);
});

/** Streets with a number that is not at their end. */
const streetsWithDoubt = ['12 Rue Haute', 'Keizersgracht 12, 2e etage', 'Am Markt 5 Hinterhaus'];

test('addresses and ids that the service can use are accepted', async () => {
  await sandbox.faults({
    operation: 'common.settings.get',
    effect: {
      set: [
        { path: ['result', 'countries', 0, 'code'], value: 'FR' },
        { path: ['result', 'countries', 3], value: { id: 64, name: 'Netherlands', code: 'NL' } },
      ],
    },
  });
  const accepted = [
    withAddress({ houseNumber: undefined, street1: 'Keizersgracht 12-a' }),
    withAddress({ houseNumber: undefined, street1: 'Hauptstr. 5/7' }),
    ...streetsWithDoubt.map((street1) => withAddress({ houseNumber: undefined, street1 })),
    withAddress({ countryCode: 'FR', houseNumber: undefined, postcode: undefined }),
    { orderType: undefined, orderTypeId: 32, shippingMethodId: 12 },
  ];
  for (const [index, changes] of accepted.entries()) await outbox.sendOrder(`SO-${index}`, changes);
  expect((await outbox.rows()).map(({ status, last_error }) => [status, last_error])).toEqual(
    accepted.map(() => ['done', null]),
  );
  const notes = (await outbox.rows()).flatMap(
    ({ result }) => (result as { note?: string }).note ?? [],
  );
  expect(notes).toHaveLength(streetsWithDoubt.length);
  expect(notes[0]).toContain('street1 does not end with a number');
});

/** Rows that are refused: kind, reference, payload, attempts, and a part of `last_error`. */
const others: [string, string, unknown, number, string][] = [
  [
    'order.update',
    'SO-404',
    { reference: 'x' },
    0,
    'the service has no order with the number SO-404; once it has, retry this row',
  ],
  ['order.cancel', 'SO-404', {}, 0, 'the service has no order with the number SO-404'],
  ['order.release', 'x'.repeat(51), {}, 1, 'reference: must have 1 to 50 characters'],
  [
    'order.create',
    'SO-1',
    orderPayload('SO-1', { items: [{ sku: 'MUG-RED', quantity: 3 }] }),
    1,
    'it has 2 x MUG-BLUE, but the row asks for 3 x MUG-RED. Cancel this row; a changed one needs another number',
  ],
  [
    'return.delete',
    'RET-404',
    {},
    0,
    'no announced return with the reference RET-404 is known here; name it by returnMerchandiseAuthorizationId',
  ],
  [
    'inbound_packing_slip.create',
    'PO-1',
    { expectedIn: 'ROT', expectedOn: '2026-05-11', items: [{ sku: 'A', quantity: 1 }] },
    1,
    'answered 422: «Warehouse ROT does not belong to the fulfilment strategy (AMS, EIN)»',
  ],
  ['order.crate', 'SO-1', {}, 0, 'there is no kind order.crate; cancel this row, and insert it'],
];

test.each(others)(
  '%s of %s is dead if it is refused, and says why',
  async (kind, reference, payload, attempts, error) => {
    await outbox.sendOrder('SO-1');
    expect(await outbox.send(kind, reference, payload)).toMatchObject({
      status: 'dead',
      attempts,
      last_error: expect.stringContaining(error),
    });
  },
);

test('an item that an order has twice must be named by its id', async () => {
  const items = [
    { sku: 'MUG-BLUE', quantity: 1 },
    { sku: 'MUG-BLUE', quantity: 2 },
  ];
  const { result } = await outbox.sendOrder('SO-1', { items });
  const [first] = (result?.orderItems ?? []) as { id: number }[];
  const { id: bySku, last_error } = await outbox.send('order_item.cancel', 'SO-1', {
    sku: 'MUG-BLUE',
  });
  expect(last_error).toMatch(
    /^order SO-1 has several items with the sku MUG-BLUE; name one by orderItemId: \d+ \(MUG-BLUE\), \d+ \(MUG-BLUE\)$/,
  );
  await outbox.replace(bySku, { orderItemId: first?.id });
  await outbox.push();
  await outbox.expectRow(bySku, {
    status: 'done',
    result: { orderItemId: first?.id, quantity: 0 },
  });
});

test('the problems of a payload are stored in at most 4 KB', async () => {
  const members = Object.fromEntries(
    Array.from({ length: 4_000 }, (_, n) => [`ü${'x'.repeat(90)}${n}`, n]),
  );
  const { status, last_error } = await outbox.send('order.update', 'SO-2', members);
  expect(status).toBe('dead');
  expect(Buffer.byteLength(last_error ?? '')).toBeLessThan(4_097);
});

test('a row whose order cannot be read PUSH_MAX_ATTEMPTS times is dead, without an attempt', async () => {
  await sandbox.faults({ operation: 'v3.orders.list', effect: { status: 404 } });
  const id = await outbox.insert('order.update', 'SO-9', { reference: 'new' });
  for (const status of ['pending', 'dead']) {
    await outbox.push({ PUSH_MAX_ATTEMPTS: '2' });
    await outbox.expectRow(id, { status, attempts: 0 });
    await outbox.hurry();
  }
});
