import { expect, test } from 'vitest';
import { readOutboxStatus } from '../../../src/operate/sql/outbox-status.ts';
import { done } from '../../helpers/puller.ts';
import { once, usePushes } from '../../helpers/pusher.ts';
import { useEditedService } from '../../helpers/services/edited-service.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox, pull } = usePushes();
const service = useEditedService(sandbox);

const countListRequests = async () => (await sandbox.requestsTo('/settings/get')).length;
/** Replaces lists in the answers of settings/get; undefined removes one. */
const answerWith = (lists: Record<string, unknown>) =>
  sandbox.faults({
    operation: 'common.settings.get',
    effect: {
      set: Object.entries(lists).map(([list, value]) => ({ path: ['result', list], value })),
    },
  });
/** Moves the last reading of the service lists back in time. */
const ageLists = (span: string) =>
  database.query(
    `update sync.turns set next_at = next_at - $1::interval, taken_at = taken_at - $1::interval, finished_at = finished_at - $1::interval`,
    [span],
  );
const readAll = () => database.query('select * from fulfilment.setting_options order by list, id');
const readOptions = (list: string) =>
  database.query(
    'select code, removed_at is not null as removed from fulfilment.setting_options where list = $1 order by id',
    [list],
  );

test('the service lists are read once for many rows, and stored with the methods per warehouse', async () => {
  for (let index = 0; index < 12; index++) await outbox.insertOrder(`SO-${index}`);
  await outbox.push();
  expect(await countListRequests()).toBe(1);
  const [counts] = await database.query(`
    select count(distinct list)::int as lists, count(*)::int as options,
      (select count(*)::int from fulfilment.main_shipping_method_warehouses) as warehouses,
      (select count(*)::int from fulfilment.changes where entity = 'setting_options') as changes from fulfilment.setting_options`);
  expect(counts).toEqual({ lists: 8, options: 21, warehouses: 4, changes: 21 });
});

test('a main shipping method that comes without its methods keeps its warehouses', async () => {
  done(await pull('refresh-settings'));
  const readOffers = () =>
    database.count('fulfilment.main_shipping_method_warehouses where removed_at is null');
  const before = await readOffers();
  const set = (value: unknown) =>
    sandbox.faults({
      operation: 'common.settings.get',
      effect: { set: [{ path: ['result', 'mainShippingMethods', 0, 'shippingMethods'], value }] },
    });

  await set(null);
  expect(done(await pull('refresh-settings'))).toMatchObject({ removed: 0 });
  expect(await readOffers()).toBe(before);

  await sandbox.clearFaults();
  await set([]);
  done(await pull('refresh-settings'));
  expect(await readOffers()).toBeLessThan(before);
});

test('the daily job writes changes, marks removed entries, and keeps lists that are empty or absent', async () => {
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
  const readOffers = () =>
    database.query('select * from fulfilment.main_shipping_method_warehouses order by 2, 3');
  const [methods, offers] = [await readOptions('mainShippingMethods'), await readOffers()];
  await answerWith({
    mainShippingMethods: undefined,
    returnReasons: [],
    languages: [{ id: 51, name: 'Dutch', code: 'nl-NL' }],
  });
  expect(done(await pull('refresh-settings'))).toMatchObject({
    created: 0,
    updated: 1,
    removed: 2,
    warnings: [
      'the service lists lack mainShippingMethods, returnReasons; the stored entries are kept',
    ],
  });
  expect([await readOptions('mainShippingMethods'), await readOffers()]).toEqual([methods, offers]);
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

test('an answer without any service list fails the run and changes nothing', async () => {
  done(await pull('refresh-settings'));
  const before = await readAll();
  await sandbox.faults({
    operation: 'common.settings.get',
    effect: { set: [{ path: ['result'], value: {} }] },
  });
  expect(await pull('refresh-settings')).toMatchObject({
    status: 'failed',
    error: { message: expect.stringContaining('has none of the lists') },
  });
  expect(await readAll()).toEqual(before);
});

test('an unknown code makes a worker read the service lists again, at most every ten minutes', async () => {
  const push = (name: string, orderType: string) => outbox.sendOrder(name, { orderType });
  expect((await push('SO-1', 'NEW')).last_error).toContain(
    'there is no code NEW (known codes: B2B, B2C)',
  );
  await answerWith({ orderTypes: [{ id: 31, name: 'New', code: 'NEW' }] });
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

test('lists that were asked for before other workers stored theirs are read again', async () => {
  const env = service.env();
  done(await pull('refresh-settings', { env }));
  const opened = Promise.withResolvers<void>();
  service.edit((request) => (request === 'GET /settings/get' ? opened.promise : undefined));
  const before = await countListRequests();
  const slow = pull('refresh-settings', { env });
  await waitFor('the lists to be asked', async () => (await countListRequests()) > before);

  service.edit(() => undefined);
  await answerWith({ orderTypes: [{ id: 31, name: 'New', code: 'NEW' }] });
  await ageLists('1 hour');
  expect((await outbox.sendOrder('SO-1', { orderType: 'NEW' }, env)).status).toBe('done');
  opened.resolve();
  done(await slow);
  expect(await readOptions('orderTypes')).toContainEqual({ code: 'NEW', removed: false });
  expect(await countListRequests()).toBe(before + 3);
});

test('lists that others store during each reading are read five times at most', async () => {
  const env = service.env();
  done(await pull('refresh-settings', { env }));
  service.edit(async (request) => {
    if (request === 'GET /settings/get')
      await database.query(
        `update sync.turns set finished_at = sync.clock() where name = 'service-lists'`,
      );
    return undefined;
  });
  const before = await countListRequests();

  const error = { code: 'settings_unread' };
  expect(await pull('refresh-settings', { env })).toMatchObject({ status: 'failed', error });
  expect(await countListRequests()).toBe(before + 5);
});

test('lists that were stored before the clock was set back do not count as newer', async () => {
  done(await pull('refresh-settings'));
  await ageLists('-1 day');
  const before = await countListRequests();

  done(await pull('refresh-settings'));
  expect(await countListRequests()).toBe(before + 1);
});

test('an update to a locale or a warehouse that the service does not list for the order is not sent', async () => {
  await outbox.sendOrder('SO-1', { shippingMethodId: 13, fulfillFrom: 'EIN' });
  const update = async (change: object) => {
    const { id, last_error } = await outbox.send('order.update', 'SO-1', change);
    if (last_error !== null) await outbox.cancel(id);
    return last_error;
  };
  expect(await update({ locale: 'xx-XX' })).toContain('locale: there is no code xx-XX');
  expect(await update({ fulfillFrom: 'AMS' })).toContain(
    'fulfillFrom: shipping method 13 is not offered in AMS (offered in: EIN)',
  );
  expect(await update({ locale: 'de-DE', fulfillFrom: 'EIN' })).toBeNull();
});

test('settings that cannot be read make no row dead and change no stored entry', async () => {
  await sandbox.faults(
    once('common.settings.get', { set: [{ path: ['messageCode'], value: 'NOK' }] }),
  );
  const { id, ...row } = await outbox.sendOrder('SO-1');
  expect(row).toMatchObject({
    status: 'pending',
    attempts: 0,
    last_error: expect.stringContaining('common.settings.get: NOK: «Settings are ok.»'),
  });
  const settingsUnread = async () => (await readOutboxStatus(database.db))[0]?.settingsUnread;
  expect(await settingsUnread()).toBe(1);
  // They are not read again at once, even if the row is due.
  await database.query('update fulfilment.outbox set next_attempt_at = now()');
  await outbox.push();
  await outbox.expectRow(id, {
    status: 'pending',
    last_error: expect.stringContaining('because the settings could not be read'),
  });
  expect(await countListRequests()).toBe(1);
  await outbox.hurry();
  await outbox.push();
  await outbox.expectRow(id, { status: 'done' });
  expect(await settingsUnread()).toBe(0);

  const before = await readAll();
  await answerWith({ mainShippingMethods: [{ id: 'x' }] });
  await ageLists('1 hour');
  await outbox.sendOrder('SO-2', { orderType: 'UNKNOWN' });
  expect(await countListRequests()).toBe(3);
  expect(await readAll()).toEqual(before);
});
