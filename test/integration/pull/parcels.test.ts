import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import type { DatabaseTransaction } from '../../../src/db/pool.ts';
import { findNextReadSeconds } from '../../../src/pull/parcels.ts';
import { planParcelReads } from '../../../src/pull/sql/parcel-rows.ts';
import { drawReadNo } from '../../../src/pull/sql/stream-transaction.ts';
import { requestParcelReads } from '../../../src/pull/sql/waiting-reads.ts';
import type { Trigger } from '../../../src/schedule/decide-start.ts';
import { ServiceClient } from '../../helpers/client.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { quiet } from '../../helpers/sandbox.ts';
import { setScheduleClock } from '../../helpers/schedule-clock.ts';

const { database, sandbox, pull } = usePulls({ ...quiet, ordersPerDay: 4 });

const operation = 'v2.shipment.search';
const path = '/v2/shipment/search';
const daySeconds = 86_400;
const pullParcels = async (env: Record<string, string> = {}, trigger: Trigger = 'manual') =>
  done(await pull('pull-parcels', { env, trigger }));
const answerWith = (result: unknown, count = 1) =>
  sandbox.faults({ operation, count, effect: { set: [{ path: ['result'], value: result }] } });
const item = (id: unknown, more: Record<string, unknown> = {}) => ({
  id,
  packageNumber: '3S1',
  trackAndTraceCode: '3S1',
  currentTrackTraceStatus: '50',
  ...more,
});

interface StoredParcel {
  readonly id: number;
  readonly number: string;
  readonly status: string | null;
}
const readParcels = () =>
  database.query<StoredParcel>(`
    select shipment_id as id, package_number as number, current_track_trace_status as status
    from fulfilment.parcels where unlisted_since is null order by 1, 2`);
const readPlans = () =>
  database.query(`
    select id, case when isfinite(next_at)
      then round(extract(epoch from next_at - sync.clock()) / 86400)::int end as days, words as problem
    from sync.waiting_reads where resource = 'parcels' order by 1`);

/** Seeds shipments that were just shipped, and stores them. Returns their ids. */
async function storeShipped(count: number): Promise<number[]> {
  await sandbox.seed(count, { spreadDays: 0 });
  done(await pull('pull-shipments'));
  return await database.ids('fulfilment.shipments');
}

/** Reads a track-trace list with these packages, as if an hour had passed. */
async function list(...packages: object[]): Promise<void> {
  await database.query('delete from sync.turns');
  const effect = { set: [{ path: ['result'], value: packages }] };
  await sandbox.faults({ operation: 'v2.shipment.trackTrace', count: 1, effect });
  done(await pull('track-trace'));
}

/** Returns the packages of all shipped shipments of the sandbox, with their last status. */
async function findExpected(): Promise<StoredParcel[]> {
  const client = new ServiceClient(sandbox, 'default');
  await client.logIn();
  const { body } = await client.ask(operation, { body: {} });
  const found = body.result as {
    id: number;
    packageNumber: string | null;
    currentTrackTraceStatus: string;
  }[];
  return found
    .filter(({ packageNumber }) => packageNumber !== null)
    .map((one) => ({
      id: one.id,
      number: one.packageNumber ?? '',
      status: one.currentTrackTraceStatus,
    }))
    .sort((a, b) => a.id - b.id || (a.number < b.number ? -1 : 1));
}

test('after weeks with outages and a late start, every package has its last status', async () => {
  let passedSeconds = 0;
  const pass = async (seconds: number) => {
    await sandbox.advance(seconds);
    passedSeconds += seconds;
    await setScheduleClock(database, passedSeconds);
  };
  const pullAll = async () => {
    done(await pull('pull-shipments'));
    done(await pull('track-trace'));
    await pullParcels();
  };
  await pass(10 * daySeconds);
  for (const outageDays of [5, 0.5]) {
    for (let days = 0; days < 5; days++) {
      await pass(daySeconds);
      await pullAll();
    }
    await pass(outageDays * daySeconds);
  }
  await pass(daySeconds / 2);
  await pullAll();
  // The list lacks many packages at once, which a second list confirms.
  await pass(3_700);
  await pullAll();
  // The list does not name every package. One that it does not name is looked up when it leaves.
  const unnamed = await database.query<{ id: number }>(`
    select shipment_id as id from fulfilment.track_traces
    where package_number = '' and unlisted_since is null`);
  const isNamed = ({ id }: StoredParcel) => !unnamed.some((one) => one.id === id);
  const expected = await findExpected();
  expect(expected.length).toBeGreaterThan(50);
  expect((await readParcels()).filter(isNamed)).toEqual(expected.filter(isNamed));
});

test('a change, a lost listing and a new package reach the table, the feed and the view', async () => {
  const [id = 0] = await storeShipped(1);
  const trackAndTraceCode = 'https://carrier.example/3S1';
  await answerWith([item(id, { trackAndTraceCode, currentTrackTraceStatus: 10 })]);
  expect(await pullParcels()).toMatchObject({ fetched: 1, created: 1 });
  expect(await readPlans()).toEqual([{ id, days: 1, problem: null }]);
  expect(await pullParcels()).toMatchObject({ pages: 0 });
  const [line] = await database.query('select * from fulfilment.shipment_lines');
  expect(line).toMatchObject({
    ...{ package_numbers: ['3S1'], package_statuses: ['10'], track_trace_statuses: [10] },
    tracking_url: trackAndTraceCode,
  });
  await setScheduleClock(database, 1.1 * daySeconds);
  await answerWith(['3S2', '3S3'].map((packageNumber) => item(id, { packageNumber })));
  expect(await pullParcels()).toMatchObject({ fetched: 2, created: 2, updated: 1 });
  expect(await readParcels()).toEqual([
    { id, number: '3S2', status: '50' },
    { id, number: '3S3', status: '50' },
  ]);
  const feed = await database.query(
    `select key || ' ' || operation as entry from fulfilment.changes where entity = 'parcels' order by seq`,
  );
  expect(feed.map(({ entry }) => entry)).toEqual(
    ['3S1 created', '3S2 created', '3S3 created', '3S1 unlisted'].map((entry) => `${id}:${entry}`),
  );
});

test('a package that leaves the track-trace list is looked up, and not again; the feed says so', async () => {
  const [id = 0] = await storeShipped(1);
  const listed = { shipmentId: id, packageNumber: '3S1', currentTrackTraceStatus: 10 };
  await list(listed);
  await answerWith([item(id, { currentTrackTraceStatus: '10' })]);
  await pullParcels();
  await list({ ...listed, currentTrackTraceStatus: 30 });
  expect(await readParcels()).toEqual([{ id, number: '3S1', status: '30' }]);
  expect(await readPlans()).toMatchObject([{ days: 3 }]);
  // An empty list is believed only if the next one is empty, too.
  await list();
  expect(await readPlans()).toMatchObject([{ days: 3 }]);
  await list();
  expect(await readPlans()).toMatchObject([{ days: 0 }]);
  await answerWith([item(id, { trackAndTraceCode: 'A1', trackAndTraceBarCode: 'B1' })]);
  await pullParcels();
  expect(await readParcels()).toEqual([{ id, number: '3S1', status: '50' }]);
  expect(await readPlans()).toEqual([]);
  await list(listed);
  const feed = await database.query<{ entity: string; operation: string; columns: string[] }>(`
    select entity, operation, array(
      select name from unnest(changed_columns) name
      where name in ('track_and_trace_code', 'track_and_trace_bar_code', 'unlisted_since')) as columns
    from fulfilment.changes where entity in ('parcels', 'track_traces') order by seq`);
  expect(feed.map(({ entity, operation, columns }) => [entity, operation, ...columns])).toEqual([
    ['track_traces', 'created'],
    ['parcels', 'created'],
    ['parcels', 'updated', 'track_and_trace_code'],
    ['track_traces', 'updated'],
    ['parcels', 'updated'],
    ['track_traces', 'unlisted'],
    ['parcels', 'updated', 'track_and_trace_code', 'track_and_trace_bar_code'],
    ['track_traces', 'updated', 'unlisted_since'],
    ['parcels', 'updated'],
  ]);
});

test('the lines that a package names, its number of colli and its tracking number are columns', async () => {
  const [id = 0] = await storeShipped(1);
  const shipmentItems = [
    { shipmentItemId: 7, quantity: 2, sku: 'MUG', lotNumber: null, note: 'for Ann' },
  ];
  await answerWith([
    item(id, { numberOfColli: '2', trackingNumber: 12345678901, shipmentItems }),
    item(id, { packageNumber: '3S2', numberOfColli: { toString: 'two' } }),
  ]);
  await pullParcels();
  expect(
    await database.query('select * from fulfilment.parcels order by package_number'),
  ).toMatchObject([
    {
      ...{ number_of_colli: 2, tracking_number: '12345678901' },
      shipment_items: [{ shipmentItemId: 7, quantity: 2, sku: 'MUG', lotNumber: null }],
    },
    { number_of_colli: null, tracking_number: null, shipment_items: null },
  ]);
});

const planJob = (at: string) =>
  database.query(`update sync.jobs set next_at = ${at} where job = 'pull-parcels'`);

test('the job is due as soon as a shipment is SHIPPED, unless it is off', async () => {
  const isDue = () =>
    database.count(`sync.jobs where job = 'pull-parcels' and next_at <= sync.clock()`);
  await pullParcels();
  await planJob(`'infinity', last_finished_at = null`);
  await storeShipped(2);
  expect(await isDue()).toBe(0);
  await planJob(`now() + interval '9 minutes'`);
  await storeShipped(2);
  expect(await isDue()).toBe(1);
});

test('a page does not wait for the job whose row another transaction has locked', async () => {
  await pullParcels();
  await planJob(`now() + interval '9 minutes'`);
  await database.db.transaction().execute(async (trx) => {
    await sql`select from sync.jobs where job = 'pull-parcels' for update`.execute(trx);
    expect(await storeShipped(2)).toHaveLength(2);
  });
});

test('a service without the look-up holds the job for 15 minutes and says so', async () => {
  await storeShipped(3);
  await sandbox.faults({ operation, effect: { status: 404, html: true } });
  expect(await pull('pull-parcels', { trigger: 'schedule' })).toMatchObject({ status: 'failed' });
  expect(await sandbox.requestsTo(path)).toHaveLength(1);
  expect(
    await database.query(`
      select scope, code, round(extract(epoch from next_at - now()) / 60)::int as minutes
      from sync.service_health`),
  ).toEqual([{ scope: 'pull-parcels', code: 'wrong_path', minutes: 15 }]);
  await database.query(`update sync.jobs set next_at = sync.clock() where job = 'pull-parcels'`);
  expect(await pull('pull-parcels', { trigger: 'schedule' })).toMatchObject({ reason: 'held' });
  expect(await sandbox.requestsTo(path)).toHaveLength(1);
  await sandbox.clearFaults();
  expect(await pullParcels()).toMatchObject({ pages: 3, warnings: [] });
});

test('five refusals without an answer hold the job; later, a refusal concerns its shipment alone', async () => {
  await storeShipped(8);
  // A shipment of today may have no packages yet.
  await sandbox.advance(2 * daySeconds);
  const nok = { set: [{ path: ['messageCode'], value: 'NOK' }] };
  await sandbox.faults({ operation, effect: nok });
  expect(await pull('pull-parcels')).toMatchObject({ status: 'failed' });
  expect(await sandbox.requestsTo(path)).toHaveLength(5);
  expect(await database.query('select code from sync.service_health')).toEqual([
    { code: 'wrong_path' },
  ]);
  // Nothing is known of the shipments: each is still due.
  expect((await readPlans()).every(({ days }) => days === 0)).toBe(true);
  await sandbox.clearFaults();
  await answerWith([], 1);
  const { warnings } = await pullParcels();
  expect(warnings?.join()).toMatch(/for 1 shipments.*names no package/);
  expect(await readParcels()).toHaveLength(7);
});

test('what cannot be decoded or stored is quarantined, and released by the next answer', async () => {
  const [first = 0, second = 0] = await storeShipped(2);
  await answerWith([item(second, { packageNumber: { no: 'text' } })]);
  await answerWith([
    ...[item(first, { packageNumber: 'a\u0000b' }), item(first)],
    // Only the database refuses this one: its index takes no longer code.
    item(first, { packageNumber: '3S2', trackAndTraceCode: randomBytes(10_000).toString('hex') }),
    // One of another shipment does not count.
    item(first + 1_000, { shippingDate: 'yesterday' }),
  ]);
  expect(await pullParcels()).toMatchObject({ quarantined: 2, created: 1 });
  const kept = await database.query('select resource_id as id from sync.quarantine order by 1');
  expect(kept).toEqual([{ id: first }, { id: second }]);
  await sandbox.clearFaults();
  await setScheduleClock(database, 1.1 * daySeconds);
  await pullParcels();
  expect(await readParcels()).toHaveLength(2);
  expect(await database.query('select from sync.quarantine')).toEqual([]);
});

test('an outage during the look-ups keeps what was read; the newest shipments come first', async () => {
  const ids = await storeShipped(6);
  await sandbox.faults({ operation, after: 2, effect: { status: 500 } });
  await sandbox.faults({ operation: 'common.status.get', after: 1, effect: { status: 500 } });
  const place = await sandbox.lastPlace();
  expect(await pull('pull-parcels')).toMatchObject({ status: 'failed' });
  expect((await readParcels()).map(({ id }) => id)).toEqual(ids.slice(4));
  // Two answers, and one look-up that was sent four times.
  expect(await sandbox.requestsTo(path, place)).toHaveLength(6);
  expect(await database.query('select code, worker from sync.service_health')).toEqual([
    { code: 'no_answer', worker: 'test' },
  ]);
});

test('a look-up that fails again and again does not stop the older shipments', async () => {
  const ids = await storeShipped(3);
  // A read is sent four times at most.
  await sandbox.faults({ operation, count: 4, effect: { status: 500 } });
  const { warnings } = await pullParcels();
  expect(warnings).toEqual([expect.stringMatching(/for 1 shipments.*answered 500/)]);
  expect((await readParcels()).map(({ id }) => id)).toEqual(ids.slice(0, 2));
  expect((await readPlans()).map(({ days }) => days)).toEqual([1, 1, 0]);
});

test('a look-up that was asked before a newer list keeps the status of the list', async () => {
  const [id = 0] = await storeShipped(1);
  await answerWith([item(id, { currentTrackTraceStatus: '10' })]);
  await pullParcels();
  await database.query(
    `update fulfilment.parcels set current_track_trace_status = '30', read_no = read_no + 1000000`,
  );
  await setScheduleClock(database, 1.1 * daySeconds);
  await answerWith([item(id, { currentTrackTraceStatus: '10', trackAndTraceCode: 'A1' })]);
  expect(await pullParcels()).toMatchObject({ updated: 1 });
  expect(await database.query('select * from fulfilment.parcels')).toMatchObject([
    { current_track_trace_status: '30', track_and_trace_code: 'A1' },
  ]);
});

test('a package that comes back on the list is listed again, also while its status is null', async () => {
  const [id = 0] = await storeShipped(1);
  await answerWith([item(id), item(id, { packageNumber: '3S2' })]);
  await pullParcels();
  await database.query("update sync.waiting_reads set next_at = '-infinity'");
  await answerWith([item(id)]);
  await pullParcels();
  expect(await readParcels()).toEqual([{ id, number: '3S1', status: '50' }]);

  await list({ shipmentId: id, packageNumber: '3S2', currentTrackTraceStatus: null });
  expect(await readParcels()).toEqual([
    { id, number: '3S1', status: '50' },
    { id, number: '3S2', status: '50' },
  ]);
});

test('a look-up that is asked for while one is made is made again', async () => {
  const [id = 0] = await storeShipped(1);
  const readNo = await drawReadNo(database.db);
  const inTransaction = (work: (trx: DatabaseTransaction) => Promise<void>) =>
    database.db.transaction().execute(work);

  await inTransaction((trx) => requestParcelReads(trx, 'default', [id]));
  const plan = { reason: 'aging', problem: null, nextInSeconds: daySeconds } as const;
  await inTransaction((trx) =>
    planParcelReads(trx, 'default', [{ ...plan, shipmentId: id, readNo }]),
  );

  expect(await readPlans()).toEqual([{ id, days: 0, problem: null }]);
});

test('reconcile requests the look-ups that are missing', async () => {
  await storeShipped(2);
  await database.query(`delete from sync.waiting_reads where resource = 'parcels'`);
  await pullParcels();
  expect(await readParcels()).toEqual([]);
  const { warnings } = done(await pull('reconcile'));
  expect(warnings?.join()).toContain('2 shipped shipments had no look-up');
  await pullParcels();
  expect(await readParcels()).toHaveLength(2);
});

test('after 100 look-ups, a run begins no more than 4 in a second', async () => {
  await storeShipped(103);
  await pullParcels({ REQUESTS_PER_SECOND: '' });
  const [run] = await database.query<{ ms: number }>(
    `select extract(epoch from finished_at - started_at) * 1000 as ms from sync.runs where job = 'pull-parcels'`,
  );
  expect(Number(run?.ms)).toBeGreaterThanOrEqual(3 * 250);
});

test('look-ups follow at certain ages, and end, also if the age is not known', () => {
  const days = (ageDays: number | null, waitedDays = 0) => {
    const seconds = findNextReadSeconds({
      ageMs: ageDays === null ? null : ageDays * daySeconds * 1_000,
      waitedMs: waitedDays * daySeconds * 1_000,
    });
    return seconds === null ? null : seconds / daySeconds;
  };
  expect([0, 1, 2.5, 3, 30, 31, 90].map((age) => days(age))).toEqual([1, 2, 0.5, 4, 1, null, null]);
  expect(days(0.999)).toBeCloseTo(1 / 24);
  expect([0, 1, 3, 7, 14, 31, 99].map((waited) => days(null, waited))).toEqual([
    1,
    2,
    4,
    7,
    17,
    null,
    null,
  ]);
});

test('a shipment without packages is looked up ten times in a row at most', async () => {
  await storeShipped(1);
  await sandbox.faults({ operation, effect: { set: [{ path: ['result'], value: [] }] } });
  for (let day = 1; day <= 12; day++) {
    await pullParcels();
    await setScheduleClock(database, day * 1.1 * daySeconds);
  }
  expect(await sandbox.requestsTo(path)).toHaveLength(10);
});
