import { expect, test } from 'vitest';
import { makeEvents } from '../../../src/operate/sql/make-events.ts';
import { registerReceivers } from '../../../src/operate/sql/receivers.ts';
import { useDatabase } from '../../helpers/database.ts';
import {
  insertShipments,
  startReceiver,
  subscribe,
  usePosting,
} from '../../helpers/event-receiver.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const services = useServices();
const startPosting = usePosting(database, sandbox);

const register = (more: object = {}) =>
  registerReceivers(database.db, [
    { name: 'default', kind: 'event', types: null, clients: null, ...more },
  ]);

/** Makes all events, and returns the types of those that were added since the last call. */
let last = 0;
async function makeAll() {
  await makeEvents(database.db);
  const rows = await database.query<{ id: number; type: string }>(
    'select id::int, type from sync.deliveries where id > $1 order by id',
    [last],
  );
  last = rows.at(-1)?.id ?? last;
  return rows.map(({ type }) => type);
}

test('what a reconciliation or backfill finds makes no event if it is old', async () => {
  last = 0;
  await sandbox.seed(3, { statuses: ['SHIPPED'] });
  for (const job of ['pull-shipments', 'pull-return-items'] as const) done(await pull(job));
  await register();
  await database.query('delete from fulfilment.shipment_items; delete from fulfilment.shipments');
  done(await pull('reconcile'));
  const found = `select from fulfilment.changes where entity = 'shipments' and operation = 'created'`;
  expect(await database.query(found)).toHaveLength(6);
  expect(await makeAll()).toEqual([]);
  // The same found by a poll is news.
  await database.query(`truncate sync.rescanned_changes; update sync.event_checkpoint set seq = 0;
    update sync.receivers set started_at = '2020-01-01'`);
  expect(new Set(await makeAll())).toEqual(new Set(['shipment.created', 'shipment.shipped']));
});

const change = (entity: string, key: string, operation: string, columns = '') =>
  `insert into fulfilment.changes (client, entity, key, operation, changed_columns)
   values ('default', '${entity}', '${key}', '${operation}', ${columns === '' ? 'null' : `'{${columns}}'`});`;

test('packages that come after shipment.shipped, and that leave the track-trace list, are events', async () => {
  const receiver = await startReceiver(services);
  await startPosting(subscribe(receiver.url, { personalData: true }));
  const types = () => receiver.taken().map(({ type }) => type);
  await insertShipments(database, 1, 1);
  await database.query(`
    begin;
    insert into fulfilment.parcels (client, shipment_id, package_number, raw, read_no) values ('default', 1, 'P1', '{}', 1);
    ${change('parcels', '1:P1', 'created')}
    update fulfilment.shipments set status = 'SHIPPED';
    insert into fulfilment.changes (client, entity, id, operation, changed_columns) values ('default', 'shipments', 1, 'updated', '{status}');
    commit`);
  await waitFor('shipment.shipped', () => types().includes('shipment.shipped'));
  await database.query(`
    begin;
    insert into fulfilment.parcels (client, shipment_id, package_number, track_and_trace_code, raw, read_no)
    values ('default', 1, 'P2', 'T2', '{}', 1);
    ${change('parcels', '1:P2', 'created')}
    commit`);
  await waitFor('the package', () => types().includes('shipment.tracking_changed'));
  // Another status is no change of tracking, nor is a code that was erased.
  await database.query(`
    update fulfilment.parcels set track_and_trace_code = 'T1' where package_number = 'P1';
    ${change('parcels', '1:P2', 'updated', 'current_track_trace_status')}
    ${change('parcels', '1:P1', 'updated', 'track_and_trace_code')}`);
  await waitFor(
    'the code',
    () => types().filter((type) => type === 'shipment.tracking_changed').length === 2,
  );
  await database.query(`
    update fulfilment.parcels set track_and_trace_code = null;
    insert into fulfilment.track_traces (client, shipment_id, package_number, external_order_number, unlisted_since, raw)
    values ('default', 1, 'P1', 'SO-7', now(), '{}');
    ${change('parcels', '1:P1', 'updated', 'track_and_trace_code')}
    ${change('track_traces', '1:P1', 'unlisted')}`);
  await waitFor('the end', () => types().includes('parcel.tracking_ended'));
  expect(types()).toEqual([
    ...[
      'shipment.created',
      'shipment.shipped',
      'shipment.tracking_changed',
      'shipment.tracking_changed',
    ],
    'parcel.tracking_ended',
  ]);
  expect(
    receiver.taken().map(({ data }) => (data.row?.parcels as unknown[] | undefined)?.length),
  ).toEqual([expect.any(Number), 1, 2, 2, undefined]);
  expect(receiver.taken().at(-1)?.data).toMatchObject({
    id: 1,
    number: 'SO-7',
    row: { package_number: 'P1' },
  });
});

test('the end of an entry without a package number is told for each package of the shipment', async () => {
  last = 0;
  await register();
  await database.query(`
    insert into fulfilment.shipments (client, id, status, raw, read_no) values ('default', 1, 'SHIPPED', '{}', 1);
    insert into fulfilment.parcels (client, shipment_id, package_number, raw, read_no)
    values ('default', 1, 'P1', '{}', 1), ('default', 1, 'P2', '{}', 1), ('default', 1, 'P3', '{}', 1);
    insert into fulfilment.track_traces (client, shipment_id, package_number, unlisted_since, raw)
    values ('default', 1, '', now(), '{}'), ('default', 1, 'P3', null, '{}');
    ${change('track_traces', '1:', 'unlisted')}`);
  expect(await makeAll()).toEqual(['parcel.tracking_ended', 'parcel.tracking_ended']);
  expect(
    await database.query(`
      select d.source_key as package, v.tracking_state as state
      from sync.deliveries d
      join fulfilment.parcel_overview v on v.shipment_id = d.source_id and v.package_number = d.source_key
      order by 1`),
  ).toEqual([
    { package: 'P1', state: 'ended' },
    { package: 'P2', state: 'ended' },
  ]);
});

test.each([
  ['is read in the first load', `update sync.freshness set loaded_at = now()`],
  ['shipped long ago', `update fulfilment.shipments set shipped_on = now() - interval '580 days'`],
])('packages of a shipment that %s are no change of tracking', async (_what, age) => {
  last = 0;
  await register({ types: ['shipment.tracking_changed'] });
  await insertShipments(database, 1, 2);
  await database.query(`
    update fulfilment.shipments set status = 'SHIPPED', shipped_on = now() - interval '1 hour';
    update fulfilment.shipment_events set seen_at = now() - interval '10 minutes';`);
  const insertParcel = (shipment: number) =>
    database.query(`
      insert into fulfilment.parcels (client, shipment_id, package_number, raw, read_no)
      values ('default', ${shipment}, 'P1', '{}', 1); ${change('parcels', `${shipment}:P1`, 'created')}`);
  await insertParcel(1);
  expect(await makeAll()).toEqual(['shipment.tracking_changed']);
  await database.query(age);
  await insertParcel(2);
  expect(await makeAll()).toEqual([]);
});

test('a receiver that is narrowed does not get rows that waited', async () => {
  last = 0;
  await register();
  await insertShipments(database, 1, 2);
  await database.query(`
    begin;
    update fulfilment.shipments set status = 'ERROR' where id = 1;
    insert into fulfilment.changes (client, entity, id, operation, changed_columns) values ('default', 'shipments', 1, 'updated', '{status}');
    commit`);
  expect(await makeAll()).toEqual(['shipment.created', 'shipment.created', 'shipment.error']);
  await register({ types: ['shipment.error'] });
  expect(
    await database.query(
      `select type, next_at is not null as due from sync.deliveries where status = 'waiting'`,
    ),
  ).toEqual([{ type: 'shipment.error', due: true }]);
});
