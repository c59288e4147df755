import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const pull = usePuller(database, sandbox);

const asked = async () => (await sandbox.requestsTo('/settings/get')).length;
/** Sets a list of the answer of settings/get. */
const answerWith = (list: string, value: unknown) =>
  sandbox.faults({ operation: 'common.settings.get', effect: { set: [{ path: ['result', list], value }] } });
/** As if the settings had been read so long ago. */
const readAgo = (span: string) =>
  database.query(
    `update sync.settings_reads set tried_at = tried_at - $1::interval, read_at = read_at - $1::interval`,
    [span],
  );
const options = (list: string) =>
  database.query(
    'select code, removed_at is not null as removed from fulfilment.setting_options where list = $1 order by id',
    [list],
  );

test('the lists are read once for many rows, and stored whole, with the methods of each warehouse', async () => {
  for (let index = 0; index < 12; index++)
    await outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`));
  await outbox.push();
  expect(await asked()).toBe(1);
  const [counts] = await database.query(`
    select count(distinct list)::int as lists, count(*)::int as options,
      (select count(*)::int from fulfilment.main_shipping_method_warehouses) as warehouses,
      (select count(*)::int from fulfilment.changes where entity = 'setting_options') as changes from fulfilment.setting_options`);
  expect(counts).toEqual({ lists: 7, options: 20, warehouses: 4, changes: 20 });
});

test('the daily job keeps them: what changed is written, what is gone is marked, a list that is suddenly empty is kept', async () => {
  expect(done(await pull('refresh-settings'))).toMatchObject({ fetched: 20, created: 24, updated: 0, warnings: [] });
  expect(done(await pull('refresh-settings'))).toMatchObject({ fetched: 20, created: 0, updated: 0, removed: 0 });
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
    warnings: ['the settings came without returnReasons; what was there is kept'],
  });
  expect(await options('languages')).toMatchObject([
    { code: 'nl-NL', removed: false },
    { removed: true },
    { removed: true },
  ]);
  expect(await options('returnReasons')).toHaveLength(3);
  const [feed] = await database.query(
    'select entity, operation, key from fulfilment.changes order by seq desc limit 1',
  );
  expect(feed).toEqual({
    entity: 'setting_options',
    operation: 'removed',
    key: expect.stringMatching(/^languages:5[23]$/),
  });
});

test('an unknown code makes them be read again, at most every ten minutes', async () => {
  const push = async (name: string, orderType: string) => {
    const id = await outbox.insert('order.create', name, orderPayload(name, { orderType }));
    await outbox.push();
    return outbox.row(id);
  };
  expect((await push('SO-1', 'NEW')).last_error).toContain('there is no NEW; known are B2B, B2C');
  await answerWith('orderTypes', [{ id: 31, name: 'New', code: 'NEW' }]);
  expect((await push('SO-2', 'NEW')).status).toBe('dead');
  expect(await asked()).toBe(1);
  await readAgo('9 minutes');
  expect((await push('SO-3', 'NEW')).status).toBe('dead');
  await readAgo('2 minutes');
  expect((await push('SO-4', 'NEW')).status).toBe('done');
  expect(await asked()).toBe(2);
  expect(await options('orderTypes')).toEqual([
    { code: 'NEW', removed: false },
    { code: 'B2B', removed: true },
  ]);
  // What is gone is no code any more.
  await readAgo('20 minutes');
  expect((await push('SO-5', 'B2B')).last_error).toContain('there is no B2B; known are NEW');
});

test('a code that several entries have is not guessed', async () => {
  await answerWith('mainShippingMethods', [
    { id: 11, name: 'a', code: 'PARCEL' },
    { id: 12, name: 'b', code: 'PARCEL' },
  ]);
  const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { shippingMethod: 'PARCEL' }));
  await outbox.push();
  expect((await outbox.row(id)).last_error).toBe(
    'the payload cannot be sent: shippingMethod: PARCEL is the code of several (ids 11, 12); name it by shippingMethodId',
  );
});

test('settings that cannot be read make no row dead, and leave what is stored', async () => {
  await sandbox.faults({
    operation: 'common.settings.get',
    count: 1,
    effect: { set: [{ path: ['messageCode'], value: 'NOK' }] },
  });
  const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'pending', last_error: 'common.settings.get: NOK: «Settings»' });
  // Not at once again, however eager the row is.
  await database.query('update fulfilment.outbox set next_attempt_at = now()');
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({
    status: 'pending',
    last_error: expect.stringContaining('could not be read so far'),
  });
  expect(await asked()).toBe(1);
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
    await readAgo('1 hour');
    await outbox.insert('order.create', `SO-${list}`, orderPayload(`SO-${list}`, { orderType: 'UNKNOWN' }));
    await outbox.push();
    expect(await database.query('select * from fulfilment.setting_options order by list, id')).toEqual(before);
  }
});
