import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const short = { HTTP_TIMEOUT_MS: '300' };

const codes = async () =>
  (await database.query('select code from sync.push_holds where send_window is not null order by 1')).map(
    ({ code }) => code,
  );
const posts = async () => (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.create').length;

/** A server before the sandbox that refuses what comes faster than `limit` requests a second, as a proxy does. */
async function startLimiter(limit: number) {
  const taken: number[] = [];
  let refused = 0;
  const server = createServer((incoming, outgoing) => {
    const nowMs = performance.now();
    while (taken[0] !== undefined && taken[0] < nowMs - 1_000) taken.shift();
    if (taken.length >= limit && incoming.url !== '/token' && incoming.url !== '/status/get') {
      refused++;
      outgoing.writeHead(429, { 'content-type': 'text/html' }).end('<html>Slow down</html>');
      return;
    }
    taken.push(nowMs);
    const { method, headers, url = '/' } = incoming;
    const further = forward(new URL(url, sandbox.url), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(further);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, refused: () => refused, close: () => new Promise((resolve) => server.close(resolve)) };
}

test('a limit without Retry-After slows the sending down until it fits: no attempt is burnt, few rows are refused', async () => {
  const limiter = await startLimiter(20);
  for (let index = 0; index < 100; index++)
    await outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`));
  const open = () => database.query("select from fulfilment.outbox where status in ('pending', 'sending') limit 1");
  while ((await open()).length > 0) await outbox.push({ WAREHOUSE_BASE_URL: limiter.url, PUSH_MAX_ATTEMPTS: '2' });
  const ended = await database.query('select status, attempts, count(*)::int from fulfilment.outbox group by 1, 2');
  expect(ended).toEqual([{ status: 'done', attempts: 1, count: 100 }]);
  expect(limiter.refused()).toBeLessThan(50);
  const [rate] = await database.query('select per_second < 500 as kept from sync.push_rates');
  expect(rate).toEqual({ kept: true });
  await limiter.close();
});

test('one row that is refused as too fast again and again waits longer each time, and slows nobody down', async () => {
  const id = await outbox.insert('product.save', 'P', { name: 'P' });
  await sandbox.faults({ operation: 'oldest.product.search', effect: { status: 429 } });
  for (let times = 0; times < 4; times++) {
    await database.query("update sync.push_rates set allowance = 1, lowered_at = now() - interval '1 minute'");
    await outbox.hurry();
    await outbox.push();
  }
  expect(await outbox.rows()).toMatchObject([{ id, status: 'pending', attempts: 0, unburnt: 4 }]);
  const [rate] = await database.query('select refused from sync.push_rates');
  expect(rate).toEqual({ refused: 3 });
});

describe('a look-up', () => {
  const unknown = async (count = 1) => {
    await sandbox.faults({ operation: 'v3.orders.create', effect: { status: 500, afterEffect: true } });
    for (let index = 0; index < count; index++)
      await outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`));
    await outbox.push(short);
  };

  test('that is asked to wait waits, and so does all of the client', async () => {
    await unknown();
    await sandbox.faults({ operation: 'v3.orders.list', effect: { status: 429, retryAfter: '600' } });
    await outbox.hurry();
    await outbox.push(short);
    expect(await codes()).toEqual(['retry_after']);
    const [row] = await database.query(
      "select next_attempt_at > now() + interval '9 minutes' as waits from fulfilment.outbox",
    );
    expect(row).toEqual({ waits: true });
    const place = await sandbox.lastPlace();
    await outbox.hurry();
    await outbox.insert('order.create', 'SO-9', orderPayload('SO-9'));
    await outbox.push(short);
    expect(await sandbox.requests(place)).toEqual([]);
    await sandbox.clearFaults();
    await database.query('update sync.push_holds set until = now()');
    await outbox.push(short);
    expect((await outbox.rows()).map(({ status }) => status)).toEqual(['done', 'done']);
  });

  /** As many orders as fill two requests, of which it is not known what became. */
  const twoBatches = () =>
    database.query(
      `insert into fulfilment.outbox (kind, reference, payload, status, claim_no, attempts, written_at)
       select 'order.create', 'SO-' || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('SO-' || n)), 'unknown',
         nextval('sync.read_no'), 1, now() from generate_series(1, 150) n`,
      [JSON.stringify(orderPayload('?'))],
    );
  const listed = async () =>
    (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.list').length;

  test('that is asked to wait is the last of its round, also where more numbers are to be asked for', async () => {
    await twoBatches();
    await sandbox.faults({ operation: 'v3.orders.list', effect: { status: 429, retryAfter: '600' } });
    await outbox.push(short);
    expect(await listed()).toBe(1);
    expect(await database.query('select lookups, count(*)::int from fulfilment.outbox group by 1')).toEqual([
      { lookups: 1, count: 150 },
    ]);
  });

  test('whose answer cannot be read does not keep other numbers from being asked for', async () => {
    await twoBatches();
    await sandbox.faults({ operation: 'v3.orders.list', count: 1, effect: { invalidJson: true } });
    await outbox.push(short);
    expect(await listed()).toBe(2);
    const words = await database.query('select last_error, count(*)::int from fulfilment.outbox group by 1 order by 2');
    expect(words).toMatchObject([
      { last_error: 'not at the service so far; looked up again', count: 50 },
      { last_error: expect.stringContaining('the look-up is tried again'), count: 100 },
    ]);
  });

  test('whose credentials are refused holds the client: the door is not knocked at again and again', async () => {
    await unknown();
    await database.query('delete from sync.push_holds');
    const wrong = { ...short, WAREHOUSE_PASSWORD: 'wrong' };
    const place = await sandbox.lastPlace();
    for (let times = 0; times < 3; times++) {
      await outbox.hurry();
      await outbox.push(wrong);
    }
    expect(await codes()).toEqual(['credentials_refused']);
    expect((await sandbox.requests(place)).map(({ operation }) => operation)).toEqual(['common.token']);
    // Only look-ups are due: whether the door is open again is found out all the same.
    await database.query('update sync.push_holds set until = now()');
    await outbox.hurry();
    await outbox.push(short);
    await outbox.push(short);
    expect((await outbox.rows()).map(({ status }) => status)).toEqual(['done']);
  });

  test('that finds what was sent shows that the service works: it is not held for answering late', async () => {
    await unknown(20);
    expect(await codes()).toEqual(['kind_failing']);
    const sent = await posts();
    expect(sent).toBeLessThan(20);
    await sandbox.clearFaults();
    await outbox.hurry();
    await outbox.push(short);
    expect(await codes()).toEqual([]);
    expect((await outbox.rows()).map(({ status }) => status)).toEqual(Array(20).fill('done'));
    expect(await posts()).toBe(20);
  });
});

describe('an operation that is refused', () => {
  test('with 401, by a service that lets others in, burns no attempt and few tokens', async () => {
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { onHold: true }));
    await outbox.push();
    await sandbox.faults({ operation: 'v2.order.release', effect: { status: 401 } });
    const place = await sandbox.lastPlace();
    const release = await outbox.insert('order.release', 'SO-1');
    const others = [2, 3, 4].map((index) => outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`)));
    for (let times = 0; times < 3; times++) {
      await outbox.push();
      await outbox.hurry();
    }
    expect(await outbox.row(release)).toMatchObject({ status: 'pending', attempts: 0 });
    for (const id of await Promise.all(others)) expect(await outbox.row(id)).toMatchObject({ status: 'done' });
    // One at the start of each of the three workers, and one that the refusal cost.
    expect((await sandbox.requests(place)).filter(({ operation }) => operation === 'common.token').length).toBeLessThan(
      7,
    );
  });

  test('with 403 and a reason is dead for that reason, also where its path is assumed', async () => {
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { onHold: true }));
    await sandbox.faults({ operation: 'v2.order.release', count: 1, effect: { status: 403 } });
    const id = await outbox.insert('order.release', 'SO-1');
    await outbox.push();
    expect(await outbox.row(id)).toMatchObject({ status: 'dead', last_error: expect.stringContaining('answered 403') });
    expect(await codes()).toEqual([]);
  });

  test('with 404 is no wrong path once any worker has carried it out', async () => {
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { onHold: true }));
    await outbox.insert('order.release', 'SO-1');
    await outbox.push();
    expect(await database.query('select kind, method, path from sync.proven_kinds')).toEqual([
      { kind: 'order.release', method: 'POST', path: '/v2/order/release' },
    ]);
    await sandbox.faults({ operation: 'v2.order.release', count: 1, effect: { status: 404, html: true } });
    await outbox.insert('order.create', 'SO-2', orderPayload('SO-2', { onHold: true }));
    const id = await outbox.insert('order.release', 'SO-2');
    await outbox.push();
    expect((await outbox.row(id)).last_error).toBe('v2.order.release: answered 404');
    expect(await codes()).not.toContain('kind_parked');
  });
});

test.each([500, 502, 504])('%i with Retry-After makes the client wait, whatever the kind', async (status) => {
  await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { status, retryAfter: '60' } });
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  const [hold] = await database.query(
    "select kind, code, until > now() + interval '50 seconds' as held from sync.push_holds",
  );
  expect(hold).toEqual({ kind: '', code: 'retry_after', held: true });
});
