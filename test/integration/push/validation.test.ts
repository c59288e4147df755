import { describe, expect, test } from 'vitest';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const address = orderPayload('?').deliveryAddress;
const withAddress = (changes: Record<string, unknown>) => ({
  deliveryAddress: { ...address, ...changes },
});
const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Changes to a valid payload of order.create, each with the problem that is reported for it. */
const orders: [string, Record<string, unknown>, string][] = [
  [
    'unknown order type',
    { orderType: 'B2X' },
    'orderType: there is no code B2X (known codes: B2B, B2C)',
  ],
  [
    'several at once',
    {
      orderType: 'X',
      locale: undefined,
      items: [{ sku: '', quantity: 1.5 }],
      ...withAddress({ postcode: null }),
    },
    'locale: is missing; items[0].sku: must not be empty; items[0].quantity: must be a whole number; orderType: there is no code X (known codes: B2B, B2C); deliveryAddress.postcode: is required for NL',
  ],
  [
    'another number',
    { externalOrderNumber: 'SO-2' },
    'externalOrderNumber: must equal the reference of the row, "SO-1"',
  ],
  [
    'a document that is not a pdf',
    { attachments: [{ filename: 'a.pdf', content: base64('hello') }] },
    'attachments[0].content: is not a pdf document',
  ],
  [
    'a broken pdf',
    { attachments: [{ filename: 'a.pdf', content: base64('%PDF-1.7 hello') }] },
    'attachments[0].content: is a pdf document that cannot be read',
  ],
];

test('a row whose payload cannot be sent is dead at once and names every problem', async () => {
  // All rows are of one lane. Open rows are cancelled, so that the first row does not block the
  // others.
  const ids = new Map<string, number>();
  for (const [name, changes] of orders) {
    await database.query(
      "update fulfilment.outbox set status = 'cancelled', next_attempt_at = null, finished_at = now() where status = 'pending'",
    );
    ids.set(name, await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', changes)));
    await outbox.push();
    await database.query("update fulfilment.outbox set status = 'cancelled' where status = 'dead'");
  }
  const rows = await outbox.rows();
  expect(rows.map(({ last_error }) => last_error)).toEqual(
    orders.map(([, , errors]) => `the payload cannot be sent: ${errors}`),
  );
  expect(rows.map(({ attempts }) => attempts)).toEqual(orders.map(() => 0));
  expect(await sandbox.requestsTo('/v3/orders')).toEqual([]);
  // The settings are read once, although several codes are unknown.
  expect(await sandbox.requestsTo('/settings/get')).toHaveLength(1);
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
  for (const [index, changes] of accepted.entries())
    await outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`, changes));
  await outbox.push();
  expect((await outbox.rows()).map(({ status, last_error }) => [status, last_error])).toEqual(
    accepted.map(() => ['done', null]),
  );
  const notes = (await outbox.rows()).flatMap(
    ({ result }) => (result as { note?: string }).note ?? [],
  );
  expect(notes).toHaveLength(streetsWithDoubt.length);
  expect(notes[0]).toContain('street1 does not end with a number');
});

/**
 * Rows that are refused by the worker or the service: kind, reference, payload and `last_error`.
 */
const others: [string, string, unknown, string][] = [
  [
    'order.update',
    'SO-404',
    { reference: 'x' },
    'the service has no order with the number SO-404; once it has, retry this row, or replace its payload by the same one',
  ],
  [
    'order.release',
    'x'.repeat(51),
    {},
    'the payload cannot be sent: reference: must have 1 to 50 characters, because no order with that number is in the tables, and the service searches only for such numbers',
  ],
  [
    'order.create',
    'SO-1',
    orderPayload('SO-1', { items: [{ sku: 'MUG-RED', quantity: 3 }] }),
    'the service already has one that no attempt of this row created: it has 2 x MUG-BLUE, but the row asks for 3 x MUG-RED. Cancel this row; a changed one needs another number, or order.replace',
  ],
  [
    'return.delete',
    'RET-404',
    {},
    'no announced return with the reference RET-404 is known here; name it by returnMerchandiseAuthorizationId',
  ],
  [
    'inbound_packing_slip.create',
    'PO-1',
    { expectedIn: 'ROT', expectedOn: '2026-05-11', items: [{ sku: 'A', quantity: 1 }] },
    'v3.inboundPackingSlips.create: answered 422: «Warehouse ROT does not belong to the fulfilment strategy (AMS, EIN)»',
  ],
  [
    'order.crate',
    'SO-1',
    {},
    `there is no kind order.crate; cancel this row, and insert it with one of ${outboxKinds
      .map(({ name }) => name)
      .sort()
      .join(', ')}`,
  ],
];

test('a row that is refused is dead, and its last_error says why', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  const errors: (string | null)[] = [];
  for (const [kind, reference, payload] of others) {
    const id = await outbox.insert(kind, reference, payload);
    await outbox.push();
    const row = await outbox.row(id);
    expect([kind, row.status]).toEqual([kind, 'dead']);
    errors.push(row.last_error);
    await database.query("update fulfilment.outbox set status = 'cancelled' where status = 'dead'");
  }
  expect(errors).toEqual(others.map(([, , , text]) => text));
});

test('an item that an order has twice must be named by its id', async () => {
  const items = [
    { sku: 'MUG-BLUE', quantity: 1 },
    { sku: 'MUG-BLUE', quantity: 2 },
  ];
  const create = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { items }));
  await outbox.push();
  const [first] = ((await outbox.row(create)).result?.orderItems ?? []) as { id: number }[];
  const bySku = await outbox.insert('order_item.cancel', 'SO-1', { sku: 'MUG-BLUE' });
  await outbox.push();
  expect((await outbox.row(bySku)).last_error).toMatch(
    /^order SO-1 has several items with the sku MUG-BLUE; name one by orderItemId: \d+ \(MUG-BLUE\), \d+ \(MUG-BLUE\)$/,
  );
  await database.query('select fulfilment.outbox_replace($1, $2)', [
    bySku,
    JSON.stringify({ orderItemId: first?.id }),
  ]);
  await outbox.push();
  expect(await outbox.row(bySku)).toMatchObject({
    status: 'done',
    result: { orderItemId: first?.id, quantity: 0 },
  });
});

describe('a payload with more problems than anybody can read', () => {
  const readErrors = async () =>
    (await outbox.rows()).map((row) => [row.status, row.last_error ?? '']);

  test('such as 740,000 empty items, is dead with a short reason', async () => {
    await database.query(
      `insert into fulfilment.outbox (kind, reference, payload)
       select 'order.create', 'SO-1', jsonb_build_object('externalOrderNumber', 'SO-1', 'items',
         (select jsonb_agg('{}'::jsonb) from generate_series(1, 740000)))`,
    );
    await outbox.push();
    expect(await readErrors()).toEqual([
      ['dead', expect.stringMatching(/payload: holds more than 100000 values/)],
    ]);
  });

  test('is dead with the first 100 of them, in at most 4 KB', async () => {
    const items = Array.from({ length: 4_000 }, () => ({}));
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { items }));
    const members = Object.fromEntries(
      Array.from({ length: 4_000 }, (_, n) => [`ü${'x'.repeat(90)}${n}`, n]),
    );
    await outbox.insert('order.update', 'SO-2', members);
    await outbox.push();
    const [first, second] = (await readErrors()) as [string, string][];
    expect(first).toEqual([
      'dead',
      expect.stringMatching(/items\[49\]\.quantity: is missing; and more$/),
    ]);
    expect(second?.[0]).toBe('dead');
    for (const error of [first?.[1] ?? '', second?.[1] ?? ''])
      expect(Buffer.byteLength(error)).toBeLessThan(4_097);
    expect(second?.[1]).toMatch(/x…$/);
  });
});

describe('attempts of a row that was never sent', () => {
  /** Reads the attempts and the history of a row. */
  const readTries = async (id: number) => {
    const steps = await database.query(
      'select step, became from sync.outbox_attempts where outbox_id = $1',
      [id],
    );
    const { status, attempts } = await outbox.row(id);
    return { status, attempts, history: steps.map(({ step, became }) => `${step} ${became}`) };
  };
  const dead = { status: 'dead', attempts: 0, history: ['checked dead'] };

  test.each<[string, string, unknown]>([
    ['an unknown order', 'order.update', { reference: 'new' }],
    ['an unknown order to cancel', 'order.cancel', {}],
    ['an unknown order of an item', 'order_item.cancel', { sku: 'A' }],
    ['an unknown return', 'return.delete', {}],
    ['a wrong payload', 'order.create', { nonsense: 1 }],
    ['an unknown kind', 'order.invent', {}],
  ])('are 0, and its history says that it was only checked: %s', async (_name, kind, payload) => {
    const id = await outbox.insert(kind, 'SO-9', payload);
    await outbox.push();
    expect(await readTries(id)).toEqual(dead);
  });

  test('are 0 while its order cannot be read, and it is given up after PUSH_MAX_ATTEMPTS tries', async () => {
    await sandbox.faults({ operation: 'v3.orders.list', effect: { status: 404 } });
    const id = await outbox.insert('order.update', 'SO-9', { reference: 'new' });
    for (const status of ['pending', 'dead']) {
      await outbox.push({ PUSH_MAX_ATTEMPTS: '2' });
      expect(await outbox.row(id)).toMatchObject({ status, attempts: 0 });
      await outbox.hurry();
    }
  });
});
