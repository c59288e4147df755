import { expect, test } from 'vitest';
import { endHoldWaits } from '../../../src/service/sql/service-health.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { expireHolds, insertHealth } from '../../helpers/service-health.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const readHolds = () =>
  database.query(
    'select client, scope, code, next_at > now() as held from sync.service_health order by scope',
  );

test('wrong credentials hold the client without using attempts; correct ones end the hold', async () => {
  const wrong = { WAREHOUSE_PASSWORD: 'wrong' };
  const ids = [
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1')),
    await outbox.insert('product.save', 'X', { name: 'X' }),
  ];
  await outbox.push(wrong);
  expect(await readHolds()).toEqual([
    { client: 'default', scope: 'client', code: 'credentials_refused', held: true },
  ]);
  for (const id of ids)
    expect(await outbox.row(id)).toMatchObject({ status: 'pending', attempts: 0 });
  const tokens = (await sandbox.requestsTo('/token')).length;
  await outbox.push(wrong);
  expect((await sandbox.requestsTo('/token')).length).toBe(tokens);
  const [open] = await database.query(
    'select because from fulfilment.outbox_open order by id limit 1',
  );
  expect(open?.because).toBe(
    'The service refused the user name and password; check them with the issuer',
  );
  await expireHolds(database);
  await outbox.push(wrong);
  expect((await readHolds())[0]).toMatchObject({ code: 'credentials_refused', held: true });
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push();
  for (const id of ids) expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
  // Two rows are done, so the send window is three. A few more successes end the hold.
  expect(await database.query('select send_window from sync.service_health')).toEqual([
    { send_window: 3 },
  ]);
  for (let index = 0; index < 13; index++)
    await outbox.insert('product.save', `P-${index}`, { name: 'X' });
  await outbox.push();
  expect(await readHolds()).toEqual([]);
});

test('an attempt and its hold keep the code, the HTTP status and the operation of a failure', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { onHold: true }));
  await outbox.insert('order.release', 'SO-1');
  await sandbox.faults({ operation: 'v2.order.release', effect: { status: 404, html: true } });
  await outbox.push();
  const codes = { error_code: 'http_status', http_status: 404, operation: 'v2.order.release' };
  const columns = 'error_code, http_status, operation';
  expect(
    await database.query(`select ${columns} from sync.outbox_attempts where error is not null`),
  ).toEqual([codes]);
  expect(await database.query(`select ${columns} from sync.service_health`)).toEqual([codes]);
});

test('silence that one worker has met holds its own claims, and no other worker', async () => {
  const silent = { code: 'no_answer', sendWindow: 0, untilInMs: 600_000 } as const;
  await insertHealth(database, { ...silent, worker: 'other' });
  const first = await outbox.insert('product.save', 'A', { name: 'A' });
  await outbox.push();
  expect(await outbox.row(first)).toMatchObject({ status: 'done' });

  await insertHealth(database, { ...silent, worker: 'test' });
  const second = await outbox.insert('product.save', 'B', { name: 'B' });
  await outbox.push();
  expect(await outbox.row(second)).toMatchObject({ status: 'pending', attempts: 0 });
});

test('a hold has begun with its own cause, not with that of an outage that is over', async () => {
  await insertHealth(database, { code: 'no_answer', sendWindow: 3, minutes: 20 });
  const readSince = async () =>
    (await database.query('select since from sync.service_health'))[0]?.since;
  const at = await readSince();
  await outbox.insert('product.save', 'X', { name: 'X' });
  await outbox.push();
  expect(await readSince()).toEqual(at);
  await outbox.insert('product.save', 'Y', { name: 'Y' });
  await outbox.push({ WAREHOUSE_PASSWORD: 'wrong' });
  expect(await readHolds()).toMatchObject([{ code: 'credentials_refused', held: true }]);
  expect(await readSince()).not.toEqual(at);
});

test('an assumed path that the service does not have holds its kind, and no other', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { onHold: true }));
  const release = await outbox.insert('order.release', 'SO-1');
  await sandbox.faults({
    operation: 'v2.order.release',
    count: 1,
    effect: { status: 404, html: true },
  });
  const other = await outbox.insert('order.create', 'SO-2', orderPayload('SO-2'));
  await outbox.push();
  expect(await outbox.row(release)).toMatchObject({ status: 'pending', attempts: 0 });
  expect((await outbox.row(release)).last_error).toMatch(
    /^v2\.order\.release: answered 404: its method and path are assumed .* Set the right method and path in WAREHOUSE_OPERATIONS_FILE, or confirm the assumed ones there with "documented": true$/,
  );
  expect(await outbox.row(other)).toMatchObject({ status: 'done' });
  expect(await readHolds()).toEqual([
    { client: 'default', scope: 'order.release', code: 'wrong_path', held: true },
  ]);
  await outbox.push();
  expect(await outbox.row(release)).toMatchObject({ status: 'pending' });
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push();
  expect(await outbox.row(release)).toMatchObject({ status: 'done', attempts: 1 });
  expect(await readHolds()).toMatchObject([{ scope: 'order.release', held: false }]);
});

test('an outage holds the client: waiting rows use no attempt, and only status/get is asked', async () => {
  await sandbox.faults({ operation: '*', effect: { status: 502, html: true } });
  for (let index = 0; index < 40; index++)
    await outbox.insert('product.save', `P-${index}`, { name: 'P' });
  await outbox.push({ PUSH_CONCURRENCY: '4' });
  expect(await readHolds()).toEqual([
    { client: 'default', scope: 'client', code: 'no_answer', held: true },
  ]);
  const [total] = await database.query(
    'select sum(attempts)::int as attempts from fulfilment.outbox',
  );
  expect(total?.attempts).toBeLessThan(20);
  const reason = await database.query('select reason from sync.service_health');
  expect(reason).toEqual([{ reason: 'common.status.get: answered 502' }]);
  await expireHolds(database);
  const place = await sandbox.lastPlace();
  await outbox.push();
  expect((await sandbox.requests(place)).map(({ operation }) => operation)).toEqual([
    'common.status.get',
  ]);
  await sandbox.clearFaults();
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push();
  expect(
    await database.query('select status, count(*)::int from fulfilment.outbox group by 1'),
  ).toEqual([{ status: 'done', count: 40 }]);
  expect(await readHolds()).toEqual([]);
});

test('failing rows of a kind hold only that kind; after one success the others are sent', async () => {
  await sandbox.faults({ operation: 'oldest.product.search', effect: { status: 500 } });
  for (let index = 0; index < 20; index++)
    await outbox.insert('product.save', `P-${index}`, { name: 'P' });
  const other = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push({ PUSH_CONCURRENCY: '4' });
  expect(await outbox.row(other)).toMatchObject({ status: 'done' });
  expect(await readHolds()).toMatchObject([{ scope: 'product.save', code: 'kind_failing' }]);
  const [total] = await database.query(
    "select sum(attempts)::int as attempts from fulfilment.outbox where kind = 'product.save'",
  );
  expect(total?.attempts).toBeLessThan(10);
  const [open] = await database.query(
    'select because from fulfilment.outbox_open where attempts = 0 limit 1',
  );
  expect(open?.because).toMatch(/^oldest\.product\.search: answered 500/);
  await sandbox.clearFaults();
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push({ PUSH_CONCURRENCY: '4' });
  expect(
    await database.query('select status, count(*)::int from fulfilment.outbox group by 1'),
  ).toEqual([{ status: 'done', count: 21 }]);
  expect(await readHolds()).toEqual([]);
});

test('when the hold of a kind ends, its rows are sent even if many rows of other kinds wait', async () => {
  await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 20 } });
  for (let index = 0; index < 60; index++)
    await outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`));
  const last = await outbox.insert('product.save', 'P', { name: 'P' });
  await insertHealth(database, { scope: 'product.save', code: 'kind_failing', untilInMs: 500 });
  await outbox.push({ PUSH_CONCURRENCY: '1' });
  const done = await database.query<{ id: number }>(
    "select a.outbox_id as id from sync.outbox_attempts a where a.became = 'done' order by a.id",
  );
  const place = done.map(({ id }) => id).indexOf(last);
  expect(place).toBeLessThan(60);
});

test('Retry-After holds all pushes of the client, for 15 minutes at most', async () => {
  await sandbox.faults({
    operation: 'oldest.product.add',
    count: 1,
    effect: { status: 429, retryAfter: '7200' },
  });
  const first = await outbox.insert('product.save', 'A', { name: 'A' });
  await outbox.push();
  const second = await outbox.insert('product.save', 'B', { name: 'B' });
  await outbox.push();
  // A 429 does not count as an attempt of the row.
  for (const id of [first, second])
    expect(await outbox.row(id)).toMatchObject({ status: 'pending', attempts: 0 });
  const [hold] = await database.query(
    "select code, next_at < now() + interval '15 minutes' as bounded, next_at > now() + interval '14 minutes' as held from sync.service_health",
  );
  expect(hold).toEqual({ code: 'asked_to_wait', bounded: true, held: true });
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push();
  expect((await outbox.rows()).map(({ status }) => status)).toEqual(['done', 'done']);
});

test('a row that fails too often is dead and says why; a new payload starts a new count', async () => {
  await sandbox.faults({ operation: 'oldest.product.add', effect: { status: 425 } });
  const id = await outbox.insert('product.save', 'A', { name: 'A' });
  for (let round = 0; round < 3; round++) {
    await outbox.push({ PUSH_MAX_ATTEMPTS: '3' });
    await outbox.hurry();
  }
  expect(await outbox.row(id)).toMatchObject({
    status: 'dead',
    attempts: 3,
    last_error:
      'oldest.product.add: answered 425: «A fault of the sandbox»; given up after 3 attempts (PUSH_MAX_ATTEMPTS)',
  });
  await database.query('select fulfilment.outbox_replace($1, \'{"name": "A"}\')', [id]);
  await outbox.push({ PUSH_MAX_ATTEMPTS: '3' });
  expect(await outbox.row(id)).toMatchObject({ status: 'pending', attempts: 4 });
  await database.query(
    "update fulfilment.outbox set limits_from = now() - interval '4 days', next_attempt_at = now()",
  );
  await outbox.push();
  expect((await outbox.row(id)).last_error).toContain('given up after 96 hours (PUSH_MAX_AGE)');
});

test('a worker that starts ends all holds, except those that Retry-After asked for', async () => {
  const holds = [
    ...([
      ['order.release', 'wrong_path'],
      ['order.update', 'kind_failing'],
    ] as const),
    ...([
      ['client', 'credentials_refused'],
      ['product.save', 'asked_to_wait'],
    ] as const),
  ];
  for (const [scope, code] of holds)
    await insertHealth(database, { scope, code, untilInMs: 900_000 });
  await endHoldWaits(database.db, ['default']);
  const due = await database.query(
    'select code from sync.service_health where next_at <= clock_timestamp() order by code',
  );
  expect(due.map(({ code }) => code)).toEqual([
    'credentials_refused',
    'kind_failing',
    'wrong_path',
  ]);
});
