import { expect, test } from 'vitest';
import { runJob } from '../../../src/schedule/runs.ts';
import { TcpProxy } from '../../../tools/chaos/proxy.ts';
import { done, makeConfig, runInProcess, usePulls } from '../../helpers/puller.ts';
import { lively } from '../../helpers/sandbox.ts';
import { setScheduleClock } from '../../helpers/schedule-clock.ts';

const { database, sandbox, pull } = usePulls(lively);

const operation = 'v2.shipment.trackTrace';
const path = '/v2/shipment/tracktrace';
const asked = async () => (await sandbox.requestsTo(path)).length;
let hours = 0;
/** Sets the clock of schedules ahead by an hour, and by the seconds that the gate adds to it. */
const passAnHour = () => setScheduleClock(database, ++hours * 3_700);
const answerWith = (result: unknown) =>
  sandbox.faults({ operation, count: 1, effect: { set: [{ path: ['result'], value: result }] } });
const item = (shipmentId: unknown, more: Record<string, unknown> = {}) => ({
  shipmentId,
  externalOrderNumber: 'SO-1',
  packageNumber: '3S1',
  shipmentMethod: '1',
  currentTrackTraceStatus: 10,
  currentTrackTraceStatusDateTime: '2026-05-04T10:00:00',
  currentTrackTraceExceptionLevel: 0,
  ...more,
});
const traces = () =>
  database.query(`
    select shipment_id as id, package_number as package, current_track_trace_status as status,
      unlisted_since is not null as gone from fulfilment.track_traces order by 1, 2`);
const feed = async () =>
  (
    await database.query<{ key: string; operation: string }>(
      `select key, operation from fulfilment.changes where entity = 'track_traces' order by seq`,
    )
  ).map(({ key, operation }) => `${key} ${operation}`);

test('the list is requested once an hour; a run before that is skipped, counted, and due later', async () => {
  done(await pull('track-trace', { trigger: 'schedule' }));
  await database.query('update sync.jobs set next_at = now()');
  const refused = await pull('track-trace', { trigger: 'schedule' });
  expect(refused).toMatchObject({ status: 'skipped', reason: 'not_yet' });
  expect(
    await database.query(`
      select round(extract(epoch from next_at - now()) / 60)::int as minutes, skips
      from sync.jobs where job = 'track-trace'`),
  ).toEqual([{ minutes: 60, skips: 1 }]);
  await setScheduleClock(database, 3_590);
  expect(await pull('track-trace')).toMatchObject({ status: 'skipped' });
  expect(await asked()).toBe(1);
  // A scheduled run is due up to 20 s after the gate opens, depending on the client's name.
  await setScheduleClock(database, 3_626);
  done(await pull('track-trace', { trigger: 'schedule' }));
  expect(await asked()).toBe(2);
});

test('if the clock jumps ahead and back, the list is requested again after an hour', async () => {
  const days = 5 * 86_400;
  await setScheduleClock(database, days);
  done(await pull('track-trace'));
  await setScheduleClock(database, 0);
  expect(await pull('track-trace')).toMatchObject({ status: 'skipped', reason: 'not_yet' });
  await setScheduleClock(database, 3_590);
  expect(await pull('track-trace')).toMatchObject({ status: 'skipped', reason: 'not_yet' });
  expect(await asked()).toBe(1);

  await setScheduleClock(database, 3_700);
  done(await pull('track-trace'));
  expect(await asked()).toBe(2);
});

test('another key for the same account meets the same gate', async () => {
  done(await pull('track-trace'));
  await database.query(`update sync.turns set client = 'former-key'`);
  await database.query(`delete from sync.jobs`);
  expect(await pull('track-trace')).toMatchObject({ status: 'skipped', reason: 'not_yet' });
});

test.each([
  ['an expired token', { expireTokens: true, status: 401 }],
  ['a connection that breaks', { reset: true }],
  ['an answer that is no list', { set: [{ path: ['result'], value: 'x' }] }],
])(
  'after %s the list is not requested again within the hour, and the tables stay',
  async (_name, effect) => {
    await answerWith([item(1)]);
    done(await pull('track-trace'));
    await passAnHour();
    await sandbox.faults({ operation, effect });
    expect(await pull('track-trace')).toMatchObject({ status: 'failed' });
    expect(await asked()).toBe(2);
    await sandbox.clearFaults();
    expect(await pull('track-trace')).toMatchObject({ status: 'skipped', reason: 'not_yet' });
    expect(await asked()).toBe(2);
    expect(await traces()).toEqual([{ id: 1, package: '3S1', status: 10, gone: false }]);
  },
);

test('if the service cannot be reached, the job is due again after a minute', async () => {
  const proxy = await TcpProxy.start(sandbox.url);
  const never = new AbortController().signal;
  const config = makeConfig(database, sandbox, { WAREHOUSE_BASE_URL: proxy.url.href });
  const report = await runInProcess(config, database, async (deps, client) => {
    done(await runJob(deps, 'refresh-settings', { client, trigger: 'manual' }, never));
    await proxy.close();
    // The token is still valid, so the run passes the gate before it finds that the service is down.
    return runJob(deps, 'track-trace', { client, trigger: 'schedule' }, never);
  });
  expect(report).toMatchObject({ status: 'failed', error: { code: 'connect_failed' } });
  const [gate] = await database.query(`
    select g.next_at < now() + interval '61 seconds' as soon, g.next_at > now() + interval '50 seconds' as later,
      j.next_at = g.next_at as due from sync.turns g
    join sync.jobs j on j.job = g.name`);
  expect(gate).toEqual({ soon: true, later: true, due: true });
});

test('a package that leaves the list is marked, until it is back; the feed has both changes', async () => {
  await answerWith([item(1), item(2)]);
  done(await pull('track-trace'));
  await passAnHour();
  await answerWith([item(2, { currentTrackTraceStatus: 20 })]);
  expect(done(await pull('track-trace'))).toMatchObject({ created: 0, updated: 2 });
  expect(await traces()).toEqual([
    { id: 1, package: '3S1', status: 10, gone: true },
    { id: 2, package: '3S1', status: 20, gone: false },
  ]);
  await passAnHour();
  await answerWith([item(1), item(2, { currentTrackTraceStatus: 20 })]);
  done(await pull('track-trace'));
  expect(await traces()).toMatchObject([{ gone: false }, { gone: false }]);
  expect(
    await database.query(
      `select shipment_id as id, current_track_trace_status as status from fulfilment.track_trace_events order by id`,
    ),
  ).toEqual([
    { id: 1, status: 10 },
    { id: 2, status: 10 },
    { id: 2, status: 20 },
  ]);
  expect(await feed()).toEqual([
    '1:3S1 created',
    '2:3S1 created',
    '2:3S1 updated',
    '1:3S1 unlisted',
    '1:3S1 updated',
  ]);
});

const many = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => item(from + index));
const goneIds = async () => (await traces()).filter(({ gone }) => gone).map(({ id }) => id);

test.each([
  ['is null', null, 1],
  ['lacks more than half', many(1, 4), 5],
])('a list that %s marks nothing until the next one lacks the same', async (_name, cut, from) => {
  await answerWith(many(1, 10));
  done(await pull('track-trace'));
  await passAnHour();
  await answerWith(cut);
  const { warnings } = done(await pull('track-trace'));
  expect(warnings?.join()).toContain(`lacks ${11 - from} of the 10 packages`);
  expect(await goneIds()).toEqual([]);

  // What the next list shows again was never gone.
  await passAnHour();
  await answerWith([item(10)]);
  done(await pull('track-trace'));

  const gone = many(from, 9).map(({ shipmentId }) => shipmentId);
  expect(await goneIds()).toEqual(gone);
  expect((await feed()).filter((change) => change.endsWith('unlisted'))).toHaveLength(gone.length);
  // Shipments 1 to 4 are missing for the first time in the third case.
  expect(
    await database.query(
      'select shipment_id from fulfilment.track_traces where missing_since is not null',
    ),
  ).toHaveLength(9 - gone.length);
});

test('nulls, numbers as text, contradictions and duplicates are accepted', async () => {
  await answerWith([
    item(1, {
      ...{ packageNumber: null, currentTrackTraceStatusDateTime: null },
      currentTrackTraceExceptionLevel: null,
    }),
    item('2', {
      ...{ packageNumber: 77, currentTrackTraceStatus: '30' },
      currentTrackTraceExceptionLevel: '',
    }),
    item(3, {
      ...{ currentTrackTraceStatus: 50, currentTrackTraceStatusDateTime: '2026-05-05T10:00:00' },
    }),
    item(3, { currentTrackTraceStatus: 40 }),
    item(4),
    item(4),
  ]);
  const { quarantined, warnings } = done(await pull('track-trace'));
  expect(quarantined).toBe(0);
  expect(warnings?.join()).toContain('1 packages were listed more than once');
  expect(await traces()).toMatchObject([
    { id: 1, package: '', status: 10 },
    { id: 2, package: '77', status: 30 },
    { id: 3, package: '3S1', status: 50 },
    { id: 4, package: '3S1', status: 10 },
  ]);
});

test('an undecodable package is quarantined, and no package that it may be is marked', async () => {
  await answerWith([item(1), item(2), item(3)]);
  done(await pull('track-trace'));
  await passAnHour();
  await answerWith([item(1), item(2, { currentTrackTraceStatusDateTime: 'yesterday' })]);
  expect(done(await pull('track-trace'))).toMatchObject({ quarantined: 1 });
  expect(await traces()).toMatchObject([{ gone: false }, { gone: false }, { gone: true }]);
  expect(await database.query('select member_path from sync.quarantine')).toEqual([
    { member_path: 'currentTrackTraceStatusDateTime' },
  ]);
  await passAnHour();
  const long = item(1, { packageNumber: 'x'.repeat(201) });
  await answerWith([item(2), item(null), item(1, { packageNumber: 'a\u0000b' }), long]);
  expect(done(await pull('track-trace'))).toMatchObject({ quarantined: 3 });
  expect(await traces()).toMatchObject([{ gone: false }, { gone: false }, { gone: true }]);
  expect(
    await database.query('select member_path, reason from sync.quarantine order by 1'),
  ).toMatchObject([
    { member_path: '', reason: 'holds a NUL character, which Postgres cannot store' },
    { member_path: 'packageNumber', reason: 'is longer than 200 characters' },
    { member_path: 'shipmentId' },
  ]);
});

test('a package without a shipment keeps only packages with its number from being marked', async () => {
  const numbered = (shipmentId: number | null, packageNumber: string | null) =>
    item(shipmentId, { packageNumber });
  await answerWith([numbered(1, 'A'), numbered(2, 'B')]);
  done(await pull('track-trace'));

  await passAnHour();
  await answerWith([numbered(null, null), numbered(null, 'a\u0000b')]);
  done(await pull('track-trace'));
  expect(await goneIds()).toEqual([]);

  await passAnHour();
  await answerWith([numbered(null, 'A')]);
  expect(done(await pull('track-trace'))).toMatchObject({ quarantined: 1 });
  expect(await goneIds()).toEqual([2]);
});

test('a shipment that the tables do not have is read by id only once, also if it is not found', async () => {
  for (const list of [[item(999_999)], [item(999_999), item(1)], [item(999_999)]]) {
    await answerWith(list);
    done(await pull('track-trace'));
    await passAnHour();
    done(await pull('pull-shipments'));
  }
  expect(await sandbox.requestsTo('/v3/shipments/999999')).toHaveLength(1);
});
