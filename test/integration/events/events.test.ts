import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import type { EventSubscriber } from '../../../config/events.ts';
import asyncApi from '../../../docs/events.asyncapi.json' with { type: 'json' };
import { openDispatcher } from '../../../src/app/deps/dispatcher.ts';
import { createLogger } from '../../../src/app/logging/create-logger.ts';
import { EventPoster } from '../../../src/app/webhooks/event-poster.ts';
import { makeEvents, registerSubscribers } from '../../../src/erp/events/make-events.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { done, makeConfig, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const { insert, push } = usePusher(database, sandbox);
const services = useServices();
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()));
});

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;

/** The messages of docs/events.asyncapi.json. */
const documented = Object.values(asyncApi.components.messages) as {
  name: string;
  payload: z.core.JSONSchema.JSONSchema;
}[];

interface Received {
  readonly type: string;
  readonly timestamp: string;
  readonly data: {
    readonly client: string;
    readonly id: number | null;
    readonly number: string | null;
    readonly row: Record<string, unknown> | null;
  };
}

/** Starts a receiver that checks each signature. `answer` returns its status. */
async function startReceiver(answer: (event: Received) => number = () => 204) {
  const attempts: { readonly id: string; readonly status: number; readonly event: Received }[] = [];
  const { url } = await services.start(async (request, response) => {
    const raw = await text(request);
    const headers = request.headers as Record<string, string>;
    const event = new Webhook(secret).verify(raw, headers) as Received;
    const status = answer(event);
    attempts.push({ id: String(headers['webhook-id']), status, event });
    response.writeHead(status).end();
  });
  const taken = () => attempts.filter(({ status }) => status < 300).map(({ event }) => event);
  return { url, attempts, taken };
}

const subscribe = (url: URL, more: Partial<EventSubscriber> = {}): EventSubscriber => ({
  ...{ name: 'default', url: url.href, secret, types: null, clients: null, personalData: false },
  ...more,
});

/** Starts what a worker posts events with. */
async function startPoster(...subscribers: EventSubscriber[]) {
  const config = makeConfig(database, sandbox);
  const dispatcher = openDispatcher(config, 10_000);
  const log = createLogger('silent');
  const poster = new EventPoster({ db: database.open(), subscribers, dispatcher, timeoutMs: 5_000, log });
  closers.push(async () => {
    await poster.close();
    await dispatcher.destroy();
  });
  await poster.start();
}

const countOpen = async () =>
  (await database.query('select from sync.events where delivered_at is null and dead_at is null')).length;

/** Reads all events that a consumer at the present place of the feed makes. */
async function takeAll() {
  while ((await makeEvents(database.db)).missed);
  return database.query<{ type: string; number: string | null; ready: boolean }>(
    'select type, number, next_attempt_at <= now() as ready from sync.events order by id',
  );
}

test('an order that is taken or refused, its shipment, a return, an inbound and stock are events', async () => {
  await sandbox.seed(1, { statuses: ['READY_TO_PICK'], spreadDays: 0 });
  for (const job of ['refresh-settings', 'pull-shipments', 'pull-orders'] as const) done(await pull(job));
  const receiver = await startReceiver();
  await startPoster(subscribe(receiver.url));
  await insert('order.create', 'SO-1', orderPayload('SO-1'));
  await insert('order.create', 'SO-2', orderPayload('SO-2', { orderType: 'BY-SHIP' }));
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
    select distinct shipping_method, 'https://carrier.example/{package}/{postcode}' from fulfilment.parcel_overview
    where shipping_method is not null`);
  await sandbox.advanceUntil(async () => {
    for (const job of ['pull-shipments', 'pull-return-items', 'pull-inbounds'] as const) done(await pull(job));
    const types = (await database.query<{ type: string }>('select distinct type from sync.events')).map(
      ({ type }) => type,
    );
    return (
      types.includes('return.processed') && types.includes('inbound.completed') && types.includes('shipment.created')
    );
  }, 24);
  // Events of returns wait for those of the shipments of their orders, and these for packages.
  done(await pull('pull-parcels'));
  await waitFor('an event of each type', () => new Set(receiver.taken().map(({ type }) => type)).size === 8);
  const first = (type: string) => receiver.taken().find((event) => event.type === type);
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
    row: { status: 'SHIPPED', parcels: [{ status: 'SHIPPED', package_number: expect.any(String) }] },
  });
  expect(first('stock.changed')?.data).toMatchObject({ number: 'MUG-BLUE', row: { stock: expect.any(Number) } });
  for (const type of ['shipment.created', 'return.processed', 'inbound.completed'])
    expect(first(type)?.data.row).toMatchObject({ id: first(type)?.data.id });
  for (const { type } of receiver.taken()) expect(documented.map(({ name }) => name)).toContain(type);
  for (const { name, payload } of documented)
    expect(z.fromJSONSchema(payload).safeParse(first(name)), name).toMatchObject({ success: true });
  // Codes, and the address that is made from them and the postcode, are personal, too.
  expect(JSON.stringify(receiver.taken())).not.toMatch(
    /anna@example.com|Keizersgracht|"raw"|carrier\.example|"tracking_url"|"tracking_number"|"track_and_trace/,
  );
});

test('personal data is posted only to a subscriber that asks for it; types and clients are chosen', async () => {
  done(await pull('refresh-settings'));
  const [all, none] = [await startReceiver(), await startReceiver()];
  await startPoster(
    subscribe(all.url, { name: 'all', personalData: true, types: ['order.accepted'], clients: ['default'] }),
    subscribe(none.url, { name: 'none', clients: ['other'] }),
  );
  await insert('order.create', 'SO-1', orderPayload('SO-1'));
  await push();
  await waitFor('the event', () => all.taken().length === 1);
  expect(all.taken()[0]?.data.row).toMatchObject({
    email: 'anna@example.com',
    addresses: expect.arrayContaining([expect.objectContaining({ street1: 'Keizersgracht' })]),
  });
  expect(none.attempts).toEqual([]);
});

test('a failing event holds those of its order and no others, and keeps its id', async () => {
  done(await pull('refresh-settings'));
  let refusals = 3;
  const receiver = await startReceiver(({ data }) => (data.number === 'SO-1' && refusals-- > 0 ? 500 : 204));
  await startPoster(subscribe(receiver.url));
  for (const number of ['SO-1', 'SO-2']) await insert('order.create', number, orderPayload(number));
  await push();
  // A second outcome of the same order.
  await database.query(`
    insert into fulfilment.changes (client, entity, id, operation, changed_columns)
    select 'default', 'outbox', id, 'updated', '{status}' from fulfilment.outbox where reference = 'SO-1'`);
  await waitFor('all events', () => receiver.taken().length === 3);
  const ofFirst = receiver.attempts.filter(({ event }) => event.data.number === 'SO-1');
  expect(ofFirst.map(({ status }) => status)).toEqual([500, 500, 500, 204, 204]);
  expect(new Set(ofFirst.slice(0, 4).map(({ id }) => id)).size).toBe(1);
  expect(new Set(ofFirst.map(({ id }) => id)).size).toBe(2);
});

test('shipment.shipped waits for its packages, and each status that was seen is an event', async () => {
  done(await pull('pull-shipments'));
  await registerSubscribers(database.db, [{ name: 'default', types: null, clients: null }]);
  await sandbox.seed(1, { statuses: ['READY_TO_PICK'], spreadDays: 0 });
  done(await pull('pull-shipments'));
  const [shipment] = await database.query<{ id: number }>('select id from fulfilment.shipments');
  for (const status of ['ERROR', 'SHIPPED'] as const) {
    await sandbox.setStatus([shipment?.id ?? 0], status);
    done(await pull('pull-shipments'));
  }
  expect((await takeAll()).map(({ type, ready }) => [type, ready])).toEqual([
    ['shipment.created', true],
    ['shipment.error', true],
    ['shipment.shipped', false],
  ]);
  done(await pull('pull-parcels'));
  expect((await takeAll()).at(-1)).toMatchObject({ type: 'shipment.shipped', ready: true });
});

test('a first load makes no events, however many runs it takes', async () => {
  await registerSubscribers(database.db, [{ name: 'default', types: null, clients: null }]);
  await sandbox.seed(600);
  await sandbox.faults({ operation: 'v3.shipments.list', after: 4, count: 4, effect: { status: 500 } });
  expect((await pull('pull-shipments')).status).toBe('failed');
  expect(await takeAll()).toEqual([]);
  done(await pull('pull-shipments'));
  expect(await takeAll()).toEqual([]);
});

test('a feed that no longer has all changes is a problem, and events continue with the newest', async () => {
  await registerSubscribers(database.db, [{ name: 'default', types: null, clients: null }]);
  await database.query(`
    insert into fulfilment.changes (client, entity, id, operation) select 'default', 'orders', n, 'created' from generate_series(1, 5) n`);
  await database.query('update sync.feed_mark set pruned_until = (select max(seq) from fulfilment.changes)');
  await database.query('update fulfilment.consumers set seq = 0');
  expect(await makeEvents(database.db)).toEqual({ missed: true });
  expect(await makeEvents(database.db)).toEqual({ missed: false, more: false });
  const { output, code } = await runCommand(['status'], workerEnv(database.url, sandbox));
  expect(output).toContain('events of default: the feed no longer had all changes');
  expect(code).toBe(1);
});

test('events that were given up are a problem, and are listed and retried', async () => {
  await registerSubscribers(database.db, [{ name: 'default', types: null, clients: null }]);
  await database.query(`
    insert into sync.events (subscriber, type, client, lanes, happened_at, attempts, last_error, dead_at)
    values ('default', 'stock.changed', 'default', '{a}', now() - interval '4 days', 20, 'the receiver answered 500', now())`);
  const env = workerEnv(database.url, sandbox);
  expect((await runCommand(['status'], env)).output).toContain(
    '1 event was given up: the receiver does not take them: the receiver answered 500; check the receiver, then: fulfilment-sync events retry',
  );
  expect((await runCommand(['events', 'list'], env)).output).toContain('stock.changed');
  expect((await runCommand(['events', 'retry'], env)).output).toContain('1 event is due now.');
  expect(await countOpen()).toBe(1);
});
