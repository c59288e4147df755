import { expect, test } from 'vitest';
import { endHoldWaits } from '../../../src/service/sql/service-health.ts';
import { once, usePushes } from '../../helpers/pusher.ts';
import { expireHolds, insertHealth } from '../../helpers/service-health.ts';

const { database, sandbox, outbox } = usePushes();

const readHolds = () =>
  database.query(
    'select client, scope, code, next_at > now() as held from sync.service_health order by scope',
  );

/** Expects all rows to be done, and no hold. */
const expectAllDone = async () => {
  expect(new Set(await outbox.statuses())).toEqual(new Set(['done']));
  expect(await readHolds()).toEqual([]);
};
const countAttempts = async () =>
  (await outbox.rows()).reduce((sum, { attempts }) => sum + attempts, 0);
const insertProducts = async (count: number) => {
  for (let index = 0; index < count; index++)
    await outbox.insert('product.save', `P-${index}`, { name: 'P' });
};

test('wrong credentials hold the client without using attempts; correct ones end the hold', async () => {
  const wrong = { WAREHOUSE_PASSWORD: 'wrong' };
  const ids = [
    await outbox.insertOrder('SO-1'),
    await outbox.insert('product.save', 'X', { name: 'X' }),
  ];
  await outbox.push(wrong);
  const refused = [{ scope: 'client', code: 'credentials_refused', held: true }];
  expect(await readHolds()).toMatchObject(refused);
  for (const id of ids) await outbox.expectRow(id, { status: 'pending', attempts: 0 });
  const tokens = await sandbox.count('common.token');
  await outbox.push(wrong);
  expect(await sandbox.count('common.token')).toBe(tokens);
  expect(await outbox.readBecause(ids[0] ?? 0)).toBe(
    'The service refused the user name and password; check them with the issuer',
  );
  await expireHolds(database);
  await outbox.push(wrong);
  expect(await readHolds()).toMatchObject(refused);
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push();
  for (const id of ids) await outbox.expectRow(id, { status: 'done', attempts: 1 });
  // Two rows are done, so the send window is three. A few more successes end the hold.
  await insertProducts(13);
  await outbox.push();
  expect(await readHolds()).toEqual([]);
});

test('a token request whose path is wrong holds the client, and names the base URL as the reason', async () => {
  const id = await outbox.insertOrder('SO-1');
  await outbox.push({ WAREHOUSE_BASE_URL: new URL('wrong/', sandbox.url).href });

  expect(await readHolds()).toMatchObject([{ code: 'credentials_refused', held: true }]);
  expect(await outbox.readBecause(id)).toBe(
    'The service answered POST /token with 404; check the base URL',
  );
});

test('silence that one worker has met holds its own claims, and no other worker', async () => {
  const silent = { code: 'no_answer', sendWindow: 0, untilInMs: 600_000 } as const;
  await insertHealth(database, { ...silent, worker: 'other' });
  expect(await outbox.send('product.save', 'A', { name: 'A' })).toMatchObject({ status: 'done' });

  await insertHealth(database, { ...silent, worker: 'test' });
  expect(await outbox.send('product.save', 'B', { name: 'B' })).toMatchObject({
    status: 'pending',
    attempts: 0,
  });
});

test('an assumed path that the service does not have holds its kind, and no other', async () => {
  await outbox.insertOrder('SO-1', { onHold: true });
  const release = await outbox.insert('order.release', 'SO-1');
  await sandbox.faults(once('v2.order.release', { status: 404, html: true }));
  const other = await outbox.sendOrder('SO-2');
  const row = await outbox.row(release);
  expect(row).toMatchObject({ status: 'pending', attempts: 0 });
  expect(row.last_error).toMatch(
    /^v2\.order\.release: answered 404: its method and path are assumed .* Set the right method and path in WAREHOUSE_OPERATIONS_FILE, or confirm the assumed ones there with "documented": true$/,
  );
  expect(other).toMatchObject({ status: 'done' });
  expect(await readHolds()).toMatchObject([
    { scope: 'order.release', code: 'wrong_path', held: true },
  ]);
  const codes = { error_code: 'http_status', http_status: 404, operation: 'v2.order.release' };
  const select = 'select error_code, http_status, operation from';
  expect(await database.query(`${select} sync.outbox_attempts where error is not null`)).toEqual([
    codes,
  ]);
  expect(await database.query(`${select} sync.service_health`)).toEqual([codes]);
  await outbox.push();
  await outbox.expectRow(release, { status: 'pending' });
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push();
  await outbox.expectRow(release, { status: 'done', attempts: 1 });
  expect(await readHolds()).toMatchObject([{ scope: 'order.release', held: false }]);
});

test('an outage holds the client: waiting rows use no attempt, and only status/get is asked', async () => {
  await sandbox.faults({ operation: '*', effect: { status: 502, html: true } });
  await insertProducts(40);
  await outbox.push({ PUSH_CONCURRENCY: '4' });
  expect(await readHolds()).toMatchObject([{ scope: 'client', code: 'no_answer', held: true }]);
  expect(await countAttempts()).toBeLessThan(20);
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
  await expectAllDone();
});

test('failing rows of a kind hold only that kind; after one success the others are sent', async () => {
  await sandbox.faults({ operation: 'oldest.product.search', effect: { status: 500 } });
  await insertProducts(20);
  const other = await outbox.sendOrder('SO-1', {}, { PUSH_CONCURRENCY: '4' });
  expect(other).toMatchObject({ status: 'done' });
  expect(await readHolds()).toMatchObject([{ scope: 'product.save', code: 'kind_failing' }]);
  expect(await countAttempts()).toBeLessThan(11);
  const [waiting] = await outbox.rows('attempts = 0');
  expect(await outbox.readBecause(waiting?.id ?? 0)).toMatch(
    /^oldest\.product\.search: answered 500/,
  );
  await sandbox.clearFaults();
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push({ PUSH_CONCURRENCY: '4' });
  await expectAllDone();
});

test('when the hold of a kind ends, its rows are sent even if many rows of other kinds wait', async () => {
  await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 20 } });
  for (let index = 0; index < 60; index++) await outbox.insertOrder(`SO-${index}`);
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
  await sandbox.faults(once('oldest.product.add', { status: 429, retryAfter: '7200' }));
  const { id: first } = await outbox.send('product.save', 'A', { name: 'A' });
  const { id: second } = await outbox.send('product.save', 'B', { name: 'B' });
  // A 429 does not count as an attempt of the row.
  for (const id of [first, second]) await outbox.expectRow(id, { status: 'pending', attempts: 0 });
  const [hold] = await database.query(
    "select code, next_at < now() + interval '15 minutes' as bounded, next_at > now() + interval '14 minutes' as held from sync.service_health",
  );
  expect(hold).toEqual({ code: 'asked_to_wait', bounded: true, held: true });
  await expireHolds(database);
  await outbox.hurry();
  await outbox.push();
  expect(await outbox.statuses()).toEqual(['done', 'done']);
});

test('a row that fails too often is dead and says why; a new payload starts a new count', async () => {
  await sandbox.faults({ operation: 'oldest.product.add', effect: { status: 425 } });
  const id = await outbox.insert('product.save', 'A', { name: 'A' });
  await outbox.pushRounds(3, { PUSH_MAX_ATTEMPTS: '3' });
  await outbox.expectRow(id, {
    status: 'dead',
    attempts: 3,
    last_error: expect.stringContaining('given up after 3 attempts (PUSH_MAX_ATTEMPTS)'),
  });
  await outbox.replace(id, { name: 'A' });
  await outbox.push({ PUSH_MAX_ATTEMPTS: '3' });
  await outbox.expectRow(id, { status: 'pending', attempts: 4 });
  await database.query(
    "update fulfilment.outbox set limits_from = now() - interval '4 days', next_attempt_at = now()",
  );
  await outbox.push();
  expect((await outbox.row(id)).last_error).toContain('given up after 96 hours (PUSH_MAX_AGE)');
});

test('a worker that starts ends all holds, except those that Retry-After asked for', async () => {
  const holds = [
    ['order.release', 'wrong_path'],
    ['order.update', 'kind_failing'],
    ['client', 'credentials_refused'],
    ['product.save', 'asked_to_wait'],
  ] as const;
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
