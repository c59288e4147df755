import { expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { findPayloadProblems } from '../../../src/push/check-payload.ts';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { readStoredCodes } from '../../../src/push/setting-codes.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const pull = usePuller(database, sandbox);

const countListRequests = async () => (await sandbox.requestsTo('/settings/get')).length;
/** Replaces one list in the answers of settings/get. */
const answerWith = (list: string, value: unknown) =>
  sandbox.faults({
    operation: 'common.settings.get',
    effect: { set: [{ path: ['result', list], value }] },
  });
/** Moves the last reading of the service lists back in time. */
const ageLists = (span: string) =>
  database.query(
    `update sync.turns set next_at = next_at - $1::interval, taken_at = taken_at - $1::interval, finished_at = finished_at - $1::interval`,
    [span],
  );
/** Checks an order as `outbox check` and the API do. */
async function checkOrder(payload: unknown, client: string) {
  const [orderCreate] = outboxKinds;
  if (orderCreate?.name !== 'order.create') throw new Error('order.create is not the first kind');

  const { codes, unchecked } = await readStoredCodes(database.db, client);
  const context = { codes, owner: 'a test', operations, signal: new AbortController().signal };
  const given = { payload: JSON.stringify(payload) };
  const problems = await findPayloadProblems(orderCreate, given, context);
  return { problems: problems.map(({ text }) => text), unchecked };
}
const readOptions = (list: string) =>
  database.query(
    'select code, removed_at is not null as removed from fulfilment.setting_options where list = $1 order by id',
    [list],
  );

test('the service lists are read once for many rows, and stored with the methods per warehouse', async () => {
  for (let index = 0; index < 12; index++)
    await outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`));
  await outbox.push();
  expect(await countListRequests()).toBe(1);
  const [counts] = await database.query(`
    select count(distinct list)::int as lists, count(*)::int as options,
      (select count(*)::int from fulfilment.main_shipping_method_warehouses) as warehouses,
      (select count(*)::int from fulfilment.changes where entity = 'setting_options') as changes from fulfilment.setting_options`);
  expect(counts).toEqual({ lists: 8, options: 21, warehouses: 4, changes: 21 });
});

test('the daily job writes changes, marks removed entries, and keeps a list that came empty', async () => {
  expect(done(await pull('refresh-settings'))).toMatchObject({
    fetched: 21,
    created: 25,
    updated: 0,
    warnings: [],
  });
  expect(done(await pull('refresh-settings'))).toMatchObject({
    fetched: 21,
    created: 0,
    updated: 0,
    removed: 0,
  });
  const faults = {
    operation: 'common.settings.get',
    effect: {
      set: [
        { path: ['result', 'returnReasons'], value: [] },
        { path: ['result', 'languages'], value: [{ id: 51, name: 'Dutch', code: 'nl-NL' }] },
      ],
    },
  };
  await sandbox.faults(faults);
  expect(done(await pull('refresh-settings'))).toMatchObject({
    created: 0,
    updated: 1,
    removed: 2,
    warnings: ['the service lists lack returnReasons; the stored entries are kept'],
  });
  expect(await readOptions('languages')).toMatchObject([
    { code: 'nl-NL', removed: false },
    { removed: true },
    { removed: true },
  ]);
  expect(await readOptions('returnReasons')).toHaveLength(3);
  const [feed] = await database.query(
    'select entity, operation, key from fulfilment.changes order by seq desc limit 1',
  );
  expect(feed).toEqual({
    entity: 'setting_options',
    operation: 'removed',
    key: expect.stringMatching(/^languages:5[23]$/),
  });
});

test.each([[['returnShippingMethods', 'returnReasons']], [['mainShippingMethods']]])(
  'settings without the lists %s keep their entries, and the run names them',
  async (absent) => {
    await answerWith('paymentMethods', [{ id: 71, name: 'Invoice', code: 'INVOICE' }]);
    done(await pull('refresh-settings'));
    const present = 'countries';
    const read = async () => [
      await database.query(
        'select * from fulfilment.setting_options where list = any($1) order by id',
        [absent],
      ),
      await database.query(
        'select * from fulfilment.main_shipping_method_warehouses order by 2, 3, 4',
      ),
    ];
    const before = await read();
    await sandbox.clearFaults();
    const added = { path: ['result', present], value: [{ id: 81, name: 'New', code: 'NEW' }] };
    await sandbox.faults({
      operation: 'common.settings.get',
      effect: { set: [added, ...absent.map((list) => ({ path: ['result', list] }))] },
    });
    expect(done(await pull('refresh-settings'))).toMatchObject({
      warnings: [`the service lists lack ${absent.join(', ')}; the stored entries are kept`],
    });
    expect(await read()).toEqual(before);
    expect((await readOptions(present)).filter(({ removed }) => !removed)).toEqual([
      { code: 'NEW', removed: false },
    ]);
  },
);

test('an answer without any service list fails the run and changes nothing', async () => {
  done(await pull('refresh-settings'));
  const before = await database.query('select * from fulfilment.setting_options order by list, id');
  await sandbox.faults({
    operation: 'common.settings.get',
    effect: { set: [{ path: ['result'], value: {} }] },
  });
  expect(await pull('refresh-settings')).toMatchObject({
    status: 'failed',
    error: { message: expect.stringContaining('has none of the lists') },
  });
  expect(
    await database.query('select * from fulfilment.setting_options order by list, id'),
  ).toEqual(before);
});

test('an unknown code makes a worker read the service lists again, at most every ten minutes', async () => {
  const push = async (name: string, orderType: string) => {
    const id = await outbox.insert('order.create', name, orderPayload(name, { orderType }));
    await outbox.push();
    return outbox.row(id);
  };
  expect((await push('SO-1', 'NEW')).last_error).toContain(
    'there is no code NEW (known codes: B2B, B2C)',
  );
  await answerWith('orderTypes', [{ id: 31, name: 'New', code: 'NEW' }]);
  expect((await push('SO-2', 'NEW')).status).toBe('dead');
  expect(await countListRequests()).toBe(1);
  await ageLists('9 minutes');
  expect((await push('SO-3', 'NEW')).status).toBe('dead');
  await ageLists('2 minutes');
  expect((await push('SO-4', 'NEW')).status).toBe('done');
  expect(await countListRequests()).toBe(2);
  expect(await readOptions('orderTypes')).toEqual([
    { code: 'NEW', removed: false },
    { code: 'B2B', removed: true },
  ]);
  // A removed entry is not a valid code any more.
  await ageLists('20 minutes');
  expect((await push('SO-5', 'B2B')).last_error).toContain(
    'there is no code B2B (known codes: NEW)',
  );
});

const ofPallet = { shippingMethod: 'PALLET', fulfillFrom: 'AMS' };
const notInAms = 'shipping method PALLET is not offered in AMS (offered in: EIN)';
const unlisted: [string, Record<string, unknown>, string][] = [
  [
    'locale',
    { locale: 'xx-XX' },
    'locale: there is no code xx-XX (known codes: de-DE, fr-BE, nl-NL)',
  ],
  [
    'country',
    { deliveryAddress: { ...orderPayload('').deliveryAddress, countryCode: 'ZZ' } },
    'deliveryAddress.countryCode: there is no code ZZ (known codes: BE, DE, NL)',
  ],
  ['warehouse', ofPallet, `fulfillFrom: ${notInAms}`],
  [
    'warehouse of a line',
    {
      shippingMethod: 'PALLET',
      items: [
        { sku: 'MUG-BLUE', quantity: 1, fulfillFrom: 'EIN' },
        { sku: 'MUG-RED', quantity: 1, fulfillFrom: 'AMS' },
      ],
    },
    `items[1].fulfillFrom: ${notInAms}`,
  ],
];

test.each(unlisted)(
  'an order with a %s that the service does not list is not sent',
  async (_name, changes, problem) => {
    const payload = orderPayload('SO-1', changes);
    const id = await outbox.insert('order.create', 'SO-1', payload);
    await outbox.push();
    expect(await outbox.row(id)).toMatchObject({
      status: 'dead',
      last_error: `the payload cannot be sent: ${problem}`,
    });
    expect(await sandbox.requestsTo('/v3/orders')).toEqual([]);
    expect(await checkOrder(payload, 'default')).toEqual({ problems: [problem], unchecked: null });
    expect(await checkOrder(payload, 'other')).toEqual({
      problems: [],
      unchecked: expect.stringContaining('no service lists are stored for the client other'),
    });
  },
);

test('an update to a locale or a warehouse that the service does not list for the order is not sent', async () => {
  await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { shippingMethodId: 13, fulfillFrom: 'EIN' }),
  );
  await outbox.push();
  const update = async (change: object) => {
    const id = await outbox.insert('order.update', 'SO-1', change);
    await outbox.push();
    const { last_error } = await outbox.row(id);
    if (last_error !== null) await database.query('select fulfilment.outbox_cancel($1)', [id]);
    return last_error;
  };
  expect(await update({ locale: 'xx-XX' })).toContain('locale: there is no code xx-XX');
  expect(await update({ fulfillFrom: 'AMS' })).toContain(
    'fulfillFrom: shipping method 13 is not offered in AMS (offered in: EIN)',
  );
  expect(await update({ locale: 'de-DE', fulfillFrom: 'EIN' })).toBeNull();
});

test('an unlisted locale, country or warehouse makes a worker read the service lists again', async () => {
  done(await pull('refresh-settings'));
  await ageLists('1 hour');
  const methods = [
    { id: 13, name: 'Pallet', code: 'PALLET', shippingMethods: [{ id: 131, warehouse: 'AMS' }] },
  ];
  await sandbox.faults({
    operation: 'common.settings.get',
    effect: {
      set: [
        { path: ['result', 'languages'], value: [{ id: 51, name: 'x', code: 'xx-XX' }] },
        { path: ['result', 'mainShippingMethods'], value: methods },
      ],
    },
  });
  const id = await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { ...ofPallet, locale: 'xx-XX' }),
  );
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'done' });
  expect(await countListRequests()).toBe(2);
});

test.each([
  ['languages', [], { locale: 'xx-XX' }],
  ['languages', [{ id: 51, name: 'Dutch', code: 'nl' }], { locale: 'xx-XX' }],
  [
    'mainShippingMethods',
    [{ id: 13, name: 'Pallet', code: 'PALLET', shippingMethods: [] }],
    ofPallet,
  ],
])('a list %s that is %j is not compared', async (list, value, changes) => {
  await answerWith(list, value);
  const payload = orderPayload('SO-1', changes);
  const id = await outbox.insert('order.create', 'SO-1', payload);
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'done' });
  expect(await checkOrder(payload, 'default')).toEqual({ problems: [], unchecked: null });
});

/**
 * A payload of a return and of a label; the shipment does not matter, because the payload is
 * refused before.
 */
const returnOf = (item: Record<string, unknown>) => ({
  shipmentId: 1,
  items: [{ shipmentItemId: 1, quantity: 1, ...item }],
});
const namesOf = [
  [
    'order.create',
    'orderTypes',
    'orderType',
    'orderTypeId',
    (code: Record<string, unknown>) => orderPayload('R', code),
  ],
  ['return.create', 'returnReasons', 'items[0].reason', 'reasonId', returnOf],
] as const;

test.each(namesOf)(
  '%s: a code of %s without one id is refused with the member for ids',
  async (...names) => {
    const [kind, list, path, idMember, toPayload] = names;
    await answerWith(list, [
      { id: 91, name: 'a', code: 'TWICE' },
      { id: 92, name: 'b', code: 'TWICE' },
      { id: 93, name: 'c', code: 'ONCE' },
      { id: 94, name: 'd', code: null },
      { id: 95, name: 'e', code: '' },
    ]);
    const member = path.replace('items[0].', '');
    const push = async (code: Record<string, unknown>) => {
      await database.query(
        "update fulfilment.outbox set status = 'cancelled' where status = 'dead'",
      );
      const id = await outbox.insert(kind, 'R', toPayload(code));
      await outbox.push();
      return (await outbox.row(id)).last_error;
    };
    expect(await push({ [member]: 'TWICE' })).toBe(
      `the payload cannot be sent: ${path}: several entries have the code TWICE (ids 91, 92), so use ${idMember} instead`,
    );
    expect(await push({ [member]: 'NEVER' })).toBe(
      `the payload cannot be sent: ${path}: there is no code NEVER (known codes: ONCE, TWICE; entries without a code: ids 94, 95, which ${idMember} takes)`,
    );
    expect(await push({ [member]: 'ONCE', [idMember]: 93 })).toBe(
      `the payload cannot be sent: ${path}: give either ${member} (code) or ${idMember}`,
    );
  },
);

test('settings that cannot be read make no row dead and change no stored entry', async () => {
  await sandbox.faults({
    operation: 'common.settings.get',
    count: 1,
    effect: { set: [{ path: ['messageCode'], value: 'NOK' }] },
  });
  const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({
    status: 'pending',
    last_error: 'common.settings.get: NOK: «Settings are ok.»',
  });
  // They are not read again at once, even if the row is due.
  await database.query('update fulfilment.outbox set next_attempt_at = now()');
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({
    status: 'pending',
    last_error: expect.stringContaining('because the settings could not be read'),
  });
  expect(await countListRequests()).toBe(1);
  await outbox.hurry();
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'done' });
  const before = await database.query('select * from fulfilment.setting_options order by list, id');
  for (const [list, value] of [
    ['orderTypes', []],
    ['mainShippingMethods', [{ id: 'x' }]],
    ['returnReasons', 7],
  ] as const) {
    await sandbox.clearFaults();
    await answerWith(list, value);
    await ageLists('1 hour');
    await outbox.insert(
      'order.create',
      `SO-${list}`,
      orderPayload(`SO-${list}`, { orderType: 'UNKNOWN' }),
    );
    await outbox.push();
    expect(
      await database.query('select * from fulfilment.setting_options order by list, id'),
    ).toEqual(before);
  }
});
