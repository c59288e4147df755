import { describe, expect, test } from 'vitest';
import { orderPayload } from '../../helpers/order-payload.ts';
import { once, short, usePushes } from '../../helpers/pusher.ts';
import { useEditedService } from '../../helpers/services/edited-service.ts';

const { database, sandbox, outbox } = usePushes();
const service = useEditedService(sandbox);

const readHoldCodes = async () =>
  (
    await database.query(
      "select code from sync.service_health where send_window is not null or scope = 'client' order by 1",
    )
  ).map(({ code }) => code);
const countPosts = () => sandbox.count('v3.orders.create');

test('a limit without Retry-After slows the rows down: few are refused, and no attempt is used', async () => {
  const taken: number[] = [];
  let refused = 0;
  service.refuse((request) => {
    const nowMs = performance.now();
    while (taken[0] !== undefined && taken[0] < nowMs - 1_000) taken.shift();
    if (taken.length < 20 || /\/(token|status\/get)$/.test(request)) {
      taken.push(nowMs);
      return null;
    }
    refused++;
    return 429;
  });
  for (let index = 0; index < 100; index++) await outbox.insertOrder(`SO-${index}`);
  const open = () =>
    database.query("select from fulfilment.outbox where status in ('pending', 'sending') limit 1");
  while ((await open()).length > 0) await outbox.push({ ...service.env(), PUSH_MAX_ATTEMPTS: '2' });
  const counts = await database.query(
    'select status, attempts, count(*)::int from fulfilment.outbox group by 1, 2',
  );
  expect(counts).toEqual([{ status: 'done', attempts: 1, count: 100 }]);
  expect(refused).toBeLessThan(50);
});

describe('a look-up', () => {
  const pushUnknownOrders = async (count = 1) => {
    await sandbox.faults({
      operation: 'v3.orders.create',
      effect: { status: 500, afterEffect: true },
    });
    for (let index = 0; index < count; index++) await outbox.insertOrder(`SO-${index}`);
    await outbox.push(short);
  };

  test('that gets Retry-After holds all pushes of the client', async () => {
    await pushUnknownOrders();
    await sandbox.faults({
      operation: 'v3.orders.list',
      effect: { status: 429, retryAfter: '600' },
    });
    await outbox.hurry();
    await outbox.push(short);
    expect(await readHoldCodes()).toEqual(['asked_to_wait']);
    const place = await sandbox.lastPlace();
    await outbox.hurry();
    await outbox.sendOrder('SO-9', {}, short);
    expect(await sandbox.requests(place)).toEqual([]);
    await sandbox.clearFaults();
    await database.query('update sync.service_health set next_at = now()');
    await outbox.push(short);
    expect(await outbox.statuses()).toEqual(['done', 'done']);
  });

  /** Inserts unknown orders, enough for two look-up requests. */
  const insertTwoBatches = () =>
    database.query(
      `insert into fulfilment.outbox (kind, reference, payload, status, claim_no, attempts, written_at)
       select 'order.create', 'SO-' || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('SO-' || n)), 'unknown',
         nextval('sync.read_no'), 1, now() from generate_series(1, 150) n`,
      [JSON.stringify(orderPayload('?'))],
    );
  test.each([
    ['is divided if its answer cannot be read, so that the others are looked up', 1, 0, 4],
    ['finds the one order of many whose answer cannot be read', 8, 1, 19],
    ['is not made for each number while no answer can be read', 1_000, 150, 29],
  ])('%s', async (_what, unreadable, failed, mostRequests) => {
    await insertTwoBatches();
    await sandbox.faults({
      operation: 'v3.orders.list',
      count: unreadable,
      effect: { invalidJson: true },
    });
    await outbox.push(short);
    const missed = "last_error = 'not found at the service yet; looked up again'";
    expect(await database.count(`fulfilment.outbox where not (${missed})`)).toBe(failed);
    expect(await sandbox.count('v3.orders.list')).toBeLessThanOrEqual(mostRequests);
  });

  test('whose credentials are refused holds the client, so that they are tried only once', async () => {
    await pushUnknownOrders();
    await database.query('delete from sync.service_health');
    const wrong = { ...short, WAREHOUSE_PASSWORD: 'wrong' };
    const place = await sandbox.lastPlace();
    for (let round = 0; round < 3; round++) {
      await outbox.hurry();
      await outbox.push(wrong);
    }
    expect(await readHoldCodes()).toEqual(['credentials_refused']);
    expect((await sandbox.requests(place)).map(({ operation }) => operation)).toEqual([
      'common.token',
    ]);
    // Only look-ups are due. They find out whether the service accepts the credentials again.
    await database.query('update sync.service_health set next_at = now()');
    await outbox.hurry();
    await outbox.push(short);
    await outbox.push(short);
    expect(await outbox.statuses()).toEqual(['done']);
  });

  test('that finds the sent orders ends the hold of their kind', async () => {
    await pushUnknownOrders(20);
    expect(await readHoldCodes()).toEqual(['kind_failing']);
    const sent = await countPosts();
    expect(sent).toBeLessThan(20);
    await sandbox.clearFaults();
    await outbox.hurry();
    await outbox.push(short);
    expect(await readHoldCodes()).toEqual([]);
    expect(await outbox.statuses()).toEqual(Array(20).fill('done'));
    expect(await countPosts()).toBe(20);
  });
});

test('a 404 does not hold a kind that any worker has carried out before', async () => {
  await outbox.insertOrder('SO-1', { onHold: true });
  await outbox.send('order.release', 'SO-1');
  expect(await database.query('select kind, method, path from sync.proven_kinds')).toEqual([
    { kind: 'order.release', method: 'POST', path: '/v2/order/release' },
  ]);
  await sandbox.faults(once('v2.order.release', { status: 404, html: true }));
  await outbox.insertOrder('SO-2', { onHold: true });
  const { last_error } = await outbox.send('order.release', 'SO-2');
  expect(last_error).toBe('v2.order.release: answered 404');
  expect(await readHoldCodes()).not.toContain('wrong_path');
});
