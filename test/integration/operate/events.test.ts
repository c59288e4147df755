import { expect, test } from 'vitest';
import { z } from 'zod';
import asyncApi from '../../../docs/events.asyncapi.json' with { type: 'json' };
import {
  type Attempt,
  claimDeliveries,
  returnDelivery,
  settleAttempt,
} from '../../../src/operate/sql/claim-deliveries.ts';
import { makeEvents } from '../../../src/operate/sql/make-events.ts';
import { registerReceivers } from '../../../src/operate/sql/receivers.ts';
import { retryDeliveries } from '../../../src/operate/sql/undelivered.ts';
import { acceptDatabase } from '../../../src/push/sql/push-database.ts';
import { useDatabase } from '../../helpers/database.ts';
import { startReceiver, subscribe, usePosting } from '../../helpers/event-receiver.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
// Few orders: each day until the first return is read whole.
const sandbox = useSandbox(['default'], { ...quiet, ordersPerDay: 12 });
const pull = usePuller(database, sandbox);
const { insertOrder, push } = usePusher(database, sandbox);
const services = useServices();
const startPosting = usePosting(database, sandbox);

/** Registers a receiver of all events. */
const register = () =>
  registerReceivers(database.db, [{ name: 'default', kind: 'event', types: null, clients: null }]);

/** Claims what is due for a receiver, and returns the types. */
async function claim(receiver = 'default'): Promise<string[]> {
  const turn = { receiver, underWay: 0, lastTurn: '', leaseMs: 0 };
  return (await claimDeliveries(database.db, turn)).map(({ type }) => type);
}

/** The messages of docs/events.asyncapi.json. */
const documented = Object.values(asyncApi.components.messages) as {
  name: string;
  payload: z.core.JSONSchema.JSONSchema;
}[];

/** Reads all events that a consumer at the present place of the feed makes. */
async function takeAll() {
  while ((await makeEvents(database.db)).missed);
  return database.query('select type from sync.deliveries');
}

/** Inserts an order.create that has ended, with its entry in the feed. */
const insertEnded = (number: string, status: 'done' | 'dead') =>
  database.query(
    `with row as (
      insert into fulfilment.outbox
        (kind, reference, payload, status, result, last_error, next_attempt_at, finished_at)
      select 'order.create', $1, '{}', $2, case $2 when 'done' then '{"orderId": 7}'::jsonb end,
        case $2 when 'dead' then 'refused' end, null, now()
      returning id
    )
    insert into fulfilment.changes (client, entity, id, operation, changed_columns)
    select 'default', 'outbox', id, 'updated', '{status,finished_at}' from row`,
    [number, status],
  );

test('what happens to orders, returns, inbounds and stock are events, to each receiver its own', async () => {
  await sandbox.seed(1, { statuses: ['READY_TO_PICK'], spreadDays: 0 });
  for (const job of ['refresh-settings', 'pull-shipments', 'pull-orders'] as const)
    done(await pull(job));
  const receiver = await startReceiver(services);
  const [personal, none] = [await startReceiver(services), await startReceiver(services)];
  await startPosting(
    subscribe(receiver.url),
    subscribe(personal.url, {
      name: 'personal',
      personalData: true,
      types: ['order.accepted', 'shipment.shipped'],
      clients: ['default'],
    }),
    subscribe(none.url, { name: 'none', clients: ['other'] }),
  );
  await insertOrder('SO-1');
  await insertOrder('SO-2', { orderType: 'BY-SHIP' });
  await push();
  await database.query(`insert into fulfilment.stock_watch (sku) values ('MUG-BLUE')`);
  done(await pull('pull-stock', { env: { SCHEDULE_PULL_STOCK: '1h' } }));
  const [shipment] = await database.query<{ id: number }>('select id from fulfilment.shipments');
  for (const status of ['ERROR', 'SHIPPED'] as const) {
    await sandbox.setStatus([shipment?.id ?? 0], status);
    done(await pull('pull-shipments'));
  }
  done(await pull('pull-parcels'));
  await database.query(`
    insert into fulfilment.carrier_links (shipping_method, url)
    select distinct shipping_method, 'https://carrier.example/{package}?zip={postcode}' from fulfilment.parcel_overview
    where shipping_method is not null`);
  await sandbox.advanceUntil(async () => {
    for (const job of ['pull-shipments', 'pull-return-items', 'pull-inbounds'] as const)
      done(await pull(job));
    const made = await database.query(`
      select distinct type from sync.deliveries
      where type in ('return.processed', 'inbound.completed', 'shipment.created')`);
    return made.length === 3;
  }, 24);
  const first = (type: string) => receiver.taken().find((event) => event.type === type);
  // Events of returns wait for those of the shipments of their orders, and these for packages.
  done(await pull('pull-parcels'));
  const expected = [
    'order.accepted',
    'order.rejected',
    'shipment.created',
    'shipment.shipped',
    'shipment.error',
    'return.processed',
    'inbound.completed',
    'stock.changed',
  ];
  await waitFor('an event of each type', () => expected.every((type) => first(type) !== undefined));
  // The robot ships others, too.
  const ofShipment = (type: string) =>
    receiver.taken().find((event) => event.type === type && event.data.id === shipment?.id);
  await waitFor('the shipment', () => ofShipment('shipment.shipped') !== undefined);
  expect(first('order.accepted')?.data).toMatchObject({
    client: 'default',
    number: 'SO-1',
    row: { external_order_number: 'SO-1', items: [{ sku: 'MUG-BLUE', quantity: 2 }] },
  });
  expect(first('order.rejected')?.data).toMatchObject({
    number: 'SO-2',
    row: { kind: 'order.create', status: 'dead' },
  });
  expect(ofShipment('shipment.error')).toBeDefined();
  expect(ofShipment('shipment.shipped')?.data).toMatchObject({
    row: { status: 'SHIPPED', parcels: [{ package_number: expect.any(String) }] },
  });
  await waitFor('the shipment with personal data', () =>
    personal.taken().some(({ data }) => data.id === shipment?.id),
  );
  expect(personal.taken().find(({ data }) => data.id === shipment?.id)?.data).toMatchObject({
    row: { parcels: [{ tracking_url: expect.stringMatching(/^https?:/) }] },
  });
  const accepted = personal.taken().find(({ type }) => type === 'order.accepted');
  expect(accepted?.data.row).toMatchObject({
    email: 'anna@example.com',
    addresses: expect.arrayContaining([expect.objectContaining({ street1: 'Keizersgracht' })]),
  });
  expect(new Set(personal.taken().map(({ type }) => type))).toEqual(
    new Set(['order.accepted', 'shipment.shipped']),
  );
  expect(none.attempts).toEqual([]);
  expect(first('stock.changed')?.data).toMatchObject({
    number: 'MUG-BLUE',
    row: { stock: expect.any(Number) },
  });
  for (const { type } of receiver.taken())
    expect(documented.map(({ name }) => name)).toContain(type);
  for (const { name, payload } of documented.filter((one) => first(one.name) !== undefined))
    expect(z.fromJSONSchema(payload).safeParse(first(name)), name).toMatchObject({ success: true });
  expect(JSON.stringify(receiver.taken())).not.toMatch(
    /anna@example.com|Keizersgracht|"raw"|track_and_trace|tracking_url|tracking_number|carrier\.example/,
  );
});

test('a failing event holds those of its order and no others, and keeps its id', async () => {
  done(await pull('refresh-settings'));
  let refusals = 3;
  const receiver = await startReceiver(services, ({ data }) =>
    data.number === 'SO-1' && refusals-- > 0 ? 500 : 204,
  );
  await startPosting(subscribe(receiver.url));
  for (const number of ['SO-1', 'SO-2']) await insertOrder(number);
  await push();
  // Another row of the same order.
  await database.query(`
    with other as (
      insert into fulfilment.outbox (kind, reference, payload, status, result, next_attempt_at, finished_at)
      select kind, reference, payload, status, result, null, now() from fulfilment.outbox where reference = 'SO-1'
      returning id
    )
    insert into fulfilment.changes (client, entity, id, operation, changed_columns)
    select 'default', 'outbox', id, 'updated', '{status,finished_at}' from other`);
  await waitFor('all events', () => receiver.taken().length === 3);
  const ofFirst = receiver.attempts.filter(({ event }) => event.data.number === 'SO-1');
  expect(ofFirst.map(({ status }) => status)).toEqual([500, 500, 500, 204, 204]);
  expect(new Set(ofFirst.slice(0, 4).map(({ id }) => id)).size).toBe(1);
  expect(new Set(ofFirst.map(({ id }) => id)).size).toBe(2);
});

test('an order whose outcome was unknown for a moment is one event', async () => {
  await register();
  const items = [{ sku: 'NOT-KNOWN', quantity: 1 }];
  await insertOrder('SO-1', { items });
  await push();
  expect(await database.query('select became from sync.outbox_attempts order by id')).toEqual([
    { became: 'unknown' },
    { became: 'dead' },
  ]);

  expect(await takeAll()).toEqual([{ type: 'order.rejected' }]);
});

test('an order that is refused waits for the earlier events of its number', async () => {
  await register();
  for (const status of ['done', 'dead'] as const) {
    await insertEnded('SO-1', status);
    await takeAll();
  }

  const made = 'select type, lane, next_at is null as waits from sync.deliveries order by id';
  expect(await database.query(made)).toEqual([
    { type: 'order.accepted', lane: 'default order 7', waits: false },
    { type: 'order.rejected', lane: 'default order 7', waits: true },
  ]);
});

test('a database that may be a copy posts no events until it is accepted', async () => {
  await register();
  await insertOrder('SO-1');
  await push();
  await takeAll();
  expect(await claim()).toEqual(['order.accepted']);

  await database.query("update sync.push_places set place = 'elsewhere/erp'");
  expect(await claim()).toEqual([]);
  await acceptDatabase(database.db, 'moved', 'test');
  expect(await claim()).toEqual(['order.accepted']);

  await database.query("update sync.push_database set mark = '1/2/3/4'");
  expect(await claim()).toEqual([]);
});

test('an accepted copy keeps and makes no events, until it is accepted as no copy', async () => {
  await register();
  await registerReceivers(database.db, [
    { name: 'problems', kind: 'alert', types: null, clients: null },
  ]);
  await insertOrder('SO-1');
  await push();
  await takeAll();
  await database.query(`
    insert into sync.deliveries (receiver, type, client, turn, lane, happened_at, next_at, body)
    values ('problems', 'problem.began', 'default', 'default', 'a', now(), now(), '{}')`);
  const readTypes = () => database.query('select type from sync.deliveries');

  await acceptDatabase(database.db, 'copy', 'test');
  expect(await readTypes()).toEqual([{ type: 'problem.began' }]);
  expect(await claim('problems')).toEqual(['problem.began']);

  await insertEnded('SO-2', 'dead');
  expect(await takeAll()).toEqual([{ type: 'problem.began' }]);

  await acceptDatabase(database.db, 'moved', 'test');
  const missed = "sync.receivers where missed_at is not null and kind = 'event'";
  expect(await database.count(missed)).toBe(1);
  await insertEnded('SO-3', 'dead');
  expect(await takeAll()).toEqual([{ type: 'problem.began' }, { type: 'order.rejected' }]);
  expect(await claim()).toEqual(['order.rejected']);
});

test('a first load makes no events, however many runs it takes', async () => {
  await register();
  await sandbox.seed(600);
  await sandbox.faults({
    operation: 'v3.shipments.list',
    after: 4,
    count: 4,
    effect: { status: 500 },
  });
  expect((await pull('pull-shipments')).status).toBe('failed');
  expect(await takeAll()).toEqual([]);
  done(await pull('pull-shipments'));
  expect(await takeAll()).toEqual([]);
});

test('a feed that no longer has all changes is a problem, and events continue with the newest', async () => {
  await register();
  await database.query(`
    insert into fulfilment.changes (client, entity, id, operation) select 'default', 'orders', n, 'created' from generate_series(1, 5) n`);
  await database.query(
    'update sync.feed_mark set pruned_until = (select max(seq) from fulfilment.changes)',
  );
  await database.query('update sync.event_checkpoint set seq = 0');
  expect(await makeEvents(database.db)).toEqual({ missed: true });
  expect(await makeEvents(database.db)).toEqual({ missed: false, more: false });
  const { output, code } = await runCommand(['status'], workerEnv(database.url, sandbox));
  expect(output).toContain('events of default: the feed no longer had all changes');
  expect(code).toBe(1);
});

test('events that were given up are a problem, and are listed and retried in their lane', async () => {
  await register();
  await database.query(`
    insert into sync.deliveries (receiver, type, client, turn, lane, happened_at, tries, status, last_error_code, last_error, finished_at)
    values ('default', 'stock.changed', 'default', 'default', 'a', now() - interval '4 days', 20, 'dead', 'http_500',
      'the receiver answered 500', now())`);
  await database.query(`
    insert into sync.deliveries (receiver, type, client, turn, lane, happened_at, next_at)
    values ('default', 'stock.changed', 'default', 'default', 'a', now(), now())`);
  const env = workerEnv(database.url, sandbox);
  expect((await runCommand(['status'], env)).output).toContain('1 event was given up');
  expect((await runCommand(['events', 'list'], env)).output).toContain('stock.changed');
  expect(await runCommand(['events', 'retry'], env)).toEqual({
    code: 0,
    output: '1 event that was given up is due now; 1 event waits and is tried by itself.',
  });
  const claim = { receiver: 'default', underWay: 0, lastTurn: '', leaseMs: 60_000 };
  expect((await claimDeliveries(database.db, claim)).map(({ id }) => id)).toEqual(['1']);
  expect(await runCommand(['events', 'retry'], env)).toEqual({
    code: 0,
    output: '0 events that were given up are due now; 2 events wait and are tried by themselves.',
  });
});

test.each([
  ['fails', settleAttempt],
  ['is aborted', (_db: unknown, { delivery }: Attempt) => returnDelivery(database.db, delivery)],
] as const)(
  'an event whose post %s still waits for an earlier one that was retried meanwhile',
  async (_how, end) => {
    await register();
    await database.query(`
    insert into sync.deliveries (receiver, type, client, turn, lane, happened_at, status, finished_at, next_at)
    values ('default', 'stock.changed', 'default', 'default', 'a', now(), 'dead', now(), null),
      ('default', 'stock.changed', 'default', 'default', 'a', now(), 'waiting', null, now())`);
    const claim = { receiver: 'default', underWay: 0, lastTurn: '', leaseMs: 60_000 };
    const [delivery] = await claimDeliveries(database.db, claim);
    if (delivery === undefined) throw new Error('nothing was claimed');
    await retryDeliveries(database.db, null);

    const failure = { code: 'http_500', error: 'the receiver answered 500' };
    const waiting = { status: 'waiting', delayMs: 0 } as const;
    const attempt = { receiver: 'default', delivery, end: waiting, failure };
    await end(database.db, attempt, (state) => ({ ...state, delayMs: 0 }));
    expect(
      await database.query('select id from sync.deliveries where next_at is not null'),
    ).toEqual([{ id: 1 }]);
  },
);

test('an event whose row cannot be read is tried again with pauses', async () => {
  const receiver = await startReceiver(services);
  await register();
  await insertOrder('SO-1');
  await push();
  await takeAll();
  await database.query('alter table fulfilment.orders rename to orders_away');
  await startPosting(subscribe(receiver.url));
  const tried = `select from sync.deliveries where type = 'order.accepted' and tries > 1`;
  await waitFor('two tries', async () => (await database.query(tried)).length === 1);
  await database.query('alter table fulfilment.orders_away rename to orders');
});
