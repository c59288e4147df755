import { expect, test } from 'vitest';
import { retryRefused } from '../../../src/erp/client-holds.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const holds = () =>
  database.query('select client, kind, code, until > now() as held from sync.push_holds order by kind');
/** As if the time of all holds had gone by. */
const holdsRunOut = () => database.query("update sync.push_holds set until = now() - interval '1 second'");

test('wrong credentials park the client: no attempt is burnt, and it goes on by itself once they are right', async () => {
  const wrong = { WAREHOUSE_PASSWORD: 'wrong' };
  const ids = [
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1')),
    await outbox.insert('product.save', 'X', { name: 'X' }),
  ];
  await outbox.push(wrong);
  expect(await holds()).toEqual([{ client: 'default', kind: '', code: 'credentials_refused', held: true }]);
  for (const id of ids) expect(await outbox.row(id)).toMatchObject({ status: 'pending', attempts: 0 });
  const tokens = (await sandbox.requestsTo('/token')).length;
  await outbox.push(wrong);
  expect((await sandbox.requestsTo('/token')).length).toBe(tokens);
  const [open] = await database.query('select because from fulfilment.outbox_open order by id limit 1');
  expect(open?.because).toBe('The service refused username and password; check them with whoever issued them');
  await holdsRunOut();
  await outbox.push(wrong);
  expect((await holds())[0]).toMatchObject({ code: 'credentials_refused', held: true });
  await holdsRunOut();
  await outbox.hurry();
  await outbox.push();
  for (const id of ids) expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
  expect(await holds()).toEqual([]);
});

test('an assumed path that the service does not have parks the kind, and no other', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { onHold: true }));
  const release = await outbox.insert('order.release', 'SO-1');
  await sandbox.faults({ operation: 'v2.order.release', count: 1, effect: { status: 404, html: true } });
  const other = await outbox.insert('order.create', 'SO-2', orderPayload('SO-2'));
  await outbox.push();
  expect(await outbox.row(release)).toMatchObject({ status: 'pending', attempts: 0 });
  expect((await outbox.row(release)).last_error).toMatch(
    /^v2\.order\.release: answered 404: its method and path are assumed .* Set them with WAREHOUSE_OPERATIONS_FILE$/,
  );
  expect(await outbox.row(other)).toMatchObject({ status: 'done' });
  expect(await holds()).toEqual([{ client: 'default', kind: 'order.release', code: 'kind_parked', held: true }]);
  await outbox.push();
  expect(await outbox.row(release)).toMatchObject({ status: 'pending' });
  await holdsRunOut();
  await outbox.hurry();
  await outbox.push();
  expect(await outbox.row(release)).toMatchObject({ status: 'done', attempts: 1 });
  expect(await holds()).toEqual([]);
});

test('an outage opens the breaker: what waits burns no attempt, and one push goes first when it may be over', async () => {
  await sandbox.faults({ operation: 'v3.orders.create', effect: { status: 502, html: true } });
  for (let index = 0; index < 40; index++) await outbox.insert('product.save', `P-${index}`, { name: 'P' });
  await sandbox.faults({ operation: 'oldest.product.search', effect: { status: 502, html: true } });
  await outbox.push({ PUSH_CONCURRENCY: '4' });
  expect(await holds()).toEqual([{ client: 'default', kind: '', code: 'breaker_open', held: true }]);
  const [tried] = await database.query('select sum(attempts)::int as attempts from fulfilment.outbox');
  expect(tried?.attempts).toBeLessThan(20);
  // Still away: only the question whether it is up is asked.
  await sandbox.faults({ operation: 'common.status.get', count: 1, effect: { status: 502, html: true } });
  await holdsRunOut();
  let place = await sandbox.lastPlace();
  await outbox.push();
  expect((await sandbox.requests(place)).map(({ operation }) => operation)).toEqual(['common.status.get']);
  // Up, but not well: one push finds it out.
  await holdsRunOut();
  await outbox.hurry();
  place = await sandbox.lastPlace();
  await outbox.push();
  expect(
    (await sandbox.requests(place)).map(({ operation }) => operation).filter((name) => name !== 'common.token'),
  ).toEqual(['common.status.get', 'oldest.product.search']);
  await sandbox.clearFaults();
  await holdsRunOut();
  await outbox.hurry();
  await outbox.push();
  expect(await database.query('select status, count(*)::int from fulfilment.outbox group by 1')).toEqual([
    { status: 'done', count: 40 },
  ]);
  expect(await holds()).toEqual([]);
});

test('Retry-After makes all pushes of the client wait, at most a quarter of an hour', async () => {
  await sandbox.faults({ operation: 'oldest.product.add', count: 1, effect: { status: 429, retryAfter: '7200' } });
  const first = await outbox.insert('product.save', 'A', { name: 'A' });
  await outbox.push();
  const second = await outbox.insert('product.save', 'B', { name: 'B' });
  await outbox.push();
  expect(await outbox.row(first)).toMatchObject({ status: 'pending', attempts: 1 });
  expect(await outbox.row(second)).toMatchObject({ status: 'pending', attempts: 0 });
  const [hold] = await database.query(
    "select code, until < now() + interval '15 minutes' as bounded, until > now() + interval '14 minutes' as held from sync.push_holds",
  );
  expect(hold).toEqual({ code: 'retry_after', bounded: true, held: true });
  await holdsRunOut();
  await outbox.hurry();
  await outbox.push();
  expect((await outbox.rows()).map(({ status }) => status)).toEqual(['done', 'done']);
});

test('a row that fails too often is dead, saying so; retried by hand it counts anew', async () => {
  await sandbox.faults({ operation: 'oldest.product.add', effect: { status: 429 } });
  const id = await outbox.insert('product.save', 'A', { name: 'A' });
  for (let round = 0; round < 3; round++) {
    await outbox.push({ PUSH_MAX_ATTEMPTS: '3' });
    await outbox.hurry();
  }
  expect(await outbox.row(id)).toMatchObject({
    status: 'dead',
    attempts: 3,
    last_error:
      'oldest.product.add: answered 429: «A fault of the sandbox»; given up after 3 attempts (PUSH_MAX_ATTEMPTS)',
  });
  await database.query('select fulfilment.outbox_replace($1, \'{"name": "A"}\')', [id]);
  await outbox.push({ PUSH_MAX_ATTEMPTS: '3' });
  expect(await outbox.row(id)).toMatchObject({ status: 'pending', attempts: 4 });
  await database.query(
    "update fulfilment.outbox set bounded_from = now() - interval '4 days', next_attempt_at = now()",
  );
  await outbox.push();
  expect((await outbox.row(id)).last_error).toContain('given up after 96 hours (PUSH_MAX_AGE)');
});

test('a worker that starts has refused credentials and parked kinds tried at once, and waits as it was asked to', async () => {
  await database.query(`
    insert into sync.push_holds (client, kind, code, reason, until, probe)
    select 'default', kind, code, 'x', now() + interval '15 minutes', probe
    from (values ('', 'credentials_refused', true), ('order.release', 'kind_parked', true), ('product.save', 'retry_after', false))
      as h (kind, code, probe)`);
  await retryRefused(database.db, ['default']);
  const due = await database.query('select code from sync.push_holds where until <= clock_timestamp() order by code');
  expect(due.map(({ code }) => code)).toEqual(['credentials_refused', 'kind_parked']);
});
