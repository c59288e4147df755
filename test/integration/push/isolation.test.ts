import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectForWriting } from '../../../src/db/connect.ts';
import { takeOverClaims } from '../../../src/push/sql/lost-rows.ts';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { lostAnswer, once, usePushes } from '../../helpers/pusher.ts';
import { useEditedService } from '../../helpers/services/edited-service.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();
const service = useEditedService(sandbox);

/** Makes pushes use connections with other time limits than those of the product. */
function connectWith(limits: {
  lockTimeoutMs?: number;
  queryTimeoutMs?: number;
  max?: number;
}): void {
  const use = { max: 6, prepares: true, ...limits };
  const main = connectForWriting(database.url, silentLogger, { name: 'push', ...use });
  const claims = connectForWriting(database.url, silentLogger, { name: 'claims', max: 1 });
  outbox.connect({ main, claims });
}

describe('a transaction that the ERP keeps open', () => {
  test('after outbox_replace of a waiting row does not delay other lanes', async () => {
    const head = await outbox.insertOrder('SO-0');
    const behind = await outbox.insert('order.update', 'SO-0', { reference: 'old' });
    const others: number[] = [];
    for (let index = 1; index <= 20; index++) others.push(await outbox.insertOrder(`SO-${index}`));
    await database.db.transaction().execute(async (erp) => {
      await sql`select fulfilment.outbox_replace(${behind}, '{"reference": "new"}')`.execute(erp);
      const pushed = outbox.push();
      const done = async () => (await outbox.rows(`status = 'done'`)).map(({ id }) => id);
      await waitFor(
        'the first rows of all lanes to be settled',
        async () => (await done()).length === 21,
      );
      expect(await done()).toEqual([head, ...others]);
      expect((await outbox.row(behind)).status).toBe('pending');
      return pushed;
    });
    await outbox.push();
    await outbox.expectRow(behind, { status: 'done' });
  });

  test('with locks on rows that are about to be sent delays no other row', async () => {
    const opened = Promise.withResolvers<void>();
    const env = { ...service.env(), HTTP_TIMEOUT_MS: '120000' };
    connectWith({ lockTimeoutMs: 60_000, max: 3 });
    const numbers = [1, 2, 3].map((index) => `SO-${index}`);
    for (const number of numbers) await outbox.insertOrder(number);
    await outbox.push(env);
    service.edit((request) => (request.startsWith('GET /v3/orders') ? opened.promise : undefined));
    const ids: number[] = [];
    for (const number of numbers) ids.push(await outbox.insert('order.cancel', number));
    const pushed = outbox.push(env);
    const areRead = async () =>
      (await outbox.statuses()).filter((s) => s === 'sending').length === 3;
    await waitFor('the rows to be claimed', areRead);

    await database.db.transaction().execute(async (erp) => {
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(erp);
      await sql`select from fulfilment.outbox where id = any(${ids}) for update`.execute(erp);
      opened.resolve();
      const other = outbox.sendOrder('SO-4', {}, env);
      const isDone = async () => (await outbox.rows(`status = 'done'`)).length === 4;
      await waitFor('another row to be sent', isDone, 20_000);
      return other;
    });
    await pushed;
    for (const id of ids) await outbox.expectRow(id, { status: 'done', attempts: 1 });
  });

  test('with a lock on a row that is being sent does not delay other rows', async () => {
    const opened = Promise.withResolvers<void>();
    service.edit((request) => (request === 'POST /v3/orders' ? opened.promise : undefined));
    connectWith({ lockTimeoutMs: 500 });
    const locked = await outbox.insertOrder('SO-0');
    const others = [1, 2, 3].map((index) => outbox.insertOrder(`SO-${index}`));
    const ids = await Promise.all(others);
    const pushed = outbox.push({ ...service.env(), HTTP_TIMEOUT_MS: '120000' });
    await waitFor(
      'the rows to be sent',
      async () => (await sandbox.requestsTo('/v3/orders')).length === 4,
    );
    await database.db.transaction().execute(async (erp) => {
      await sql`select 1 from fulfilment.outbox where id = ${locked} for update`.execute(erp);
      opened.resolve();
      const done = async () => (await outbox.rows(`status = 'done'`)).map(({ id }) => id);
      await waitFor('the others to be settled', async () => (await done()).length === ids.length);
      expect(await done()).toEqual(ids.toSorted((a, b) => a - b));
    });
    await pushed;
    await outbox.expectRow(locked, { status: 'done', attempts: 1 });
    expect(
      (await sandbox.requestsTo('/v3/orders')).filter(({ method }) => method === 'POST'),
    ).toHaveLength(4);
  });
});

test('a lock on an attachment that was added does not keep its slot', async () => {
  const opened = Promise.withResolvers<void>();
  const env = { ...service.env(), PUSH_CONCURRENCY: '1', HTTP_TIMEOUT_MS: '120000' };
  await outbox.sendOrder('SO-1', {}, env);
  service.edit((request) => (request === 'POST /v3/orderAttachments' ? opened.promise : undefined));
  const content = Buffer.from(await writePage(['A page'])).toString('base64');
  const id = await outbox.insert('order_attachment.create', 'SO-1', { filename: 'a.pdf', content });
  const other = await outbox.insertOrder('SO-2');
  const pushed = outbox.push(env);
  await waitFor('the row to be sent', async () => (await outbox.row(id)).sent_at !== null);

  await database.db.transaction().execute(async (erp) => {
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(erp);
    await sql`select 1 from fulfilment.outbox where id = ${id} for update`.execute(erp);
    opened.resolve();
    const isDone = async () => (await outbox.row(other)).status === 'done';
    await waitFor('the other row to be settled', isDone, 20_000);
  });
  await pushed;
  await outbox.expectRow(id, { status: 'done' });
});

describe('a client that this worker does not push for', () => {
  test('keeps its rows if any worker was ever set up with it', async () => {
    await registerClients(database.db, [
      { client: 'shop-b', identity: 'x', baseUrl: 'https://b.test/' },
    ]);
    const id = await outbox.insert('order.cancel', 'SO-1', {}, 'shop-b');
    await database.query("update fulfilment.outbox set created_at = now() - interval '1 day'");
    await outbox.push();
    await outbox.expectRow(id, {
      status: 'pending',
      attempts: 0,
      last_error: null,
    });
  });

  test('that no worker knows has ten minutes to be set up, and its rows say so at once', async () => {
    const id = await outbox.insert('order.cancel', 'SO-1', {}, 'shop-z');
    expect(await outbox.readBecause(id)).toMatch(/client shop-z; known are none$/);
    await outbox.push();
    const reason = 'no worker was ever set up with client shop-z; known are default';
    await outbox.expectRow(id, { status: 'pending' });
    expect(await outbox.readBecause(id)).toBe(reason);
    await database.query(
      "update fulfilment.outbox set created_at = now() - interval '601 seconds'",
    );
    await outbox.push();
    await outbox.expectRow(id, { status: 'dead', last_error: reason });
  });
});

test('a look-up of orders without an answer does not delay one of another kind', async () => {
  const env = { ...service.env(), HTTP_TIMEOUT_MS: '120000' };
  const slip = { expectedIn: 'AMS', expectedOn: '2026-05-11' };
  await sandbox.faults(
    once('v3.orders.create', lostAnswer),
    once('v3.inboundPackingSlips.create', lostAnswer),
  );
  const order = await outbox.insertOrder('SO-1');
  const items = [{ sku: 'MUG-BLUE', quantity: 40 }];
  const other = await outbox.insert('inbound_packing_slip.create', 'PO-1', { ...slip, items });
  const opened = Promise.withResolvers<void>();
  service.edit((request) => (request.startsWith('GET /v3/orders') ? opened.promise : undefined));
  const pushed = outbox.pushRounds(2, env);
  await waitFor('the slip to be found', async () => (await outbox.row(other)).status === 'done');
  await outbox.expectRow(order, { status: 'unknown' });
  opened.resolve();
  await pushed;
  await outbox.expectRow(order, { status: 'done', attempts: 1 });
});

test('PUSH_MAX_AGE counts from the first attempt that counted, not from the insert', async () => {
  await sandbox.faults({ operation: 'oldest.product.search', count: 3, effect: { status: 425 } });
  const id = await outbox.insert('product.save', 'P-1', { name: 'P' });
  await database.query(`update fulfilment.outbox set created_at = now() - interval '4 days',
    limits_from = now() - interval '4 days'`);
  for (const status of ['pending', 'pending', 'pending', 'done']) {
    await outbox.hurry();
    await database.query('delete from sync.service_health');
    await outbox.push();
    await outbox.expectRow(id, { status });
  }
});

test('an order whose rows take too long to write does not stop the others; it is read again later', async () => {
  await database.query(`
    create function public.take_long() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return new; end $$;
    create trigger take_long before insert on fulfilment.orders for each row
      when (new.external_order_number = 'SO-3') execute function public.take_long()`);
  for (let index = 1; index <= 6; index++) await outbox.insertOrder(`SO-${index}`);
  // A statement of this pool is cancelled after 1.6 seconds.
  connectWith({ queryTimeoutMs: 2_000 });
  await outbox.push();
  const done = await outbox.rows("status = 'done'");
  expect(done).toHaveLength(6);
  const slow = done[2]?.result?.orderId;
  expect(await database.query('select resource as stream, id from sync.waiting_reads')).toEqual([
    { stream: 'orders', id: slow },
  ]);
  expect(await database.query('select id from fulfilment.orders')).toHaveLength(5);
});

test('a replacement whose new order takes too long to write has both orders read again later', async () => {
  connectWith({ queryTimeoutMs: 2_000 });
  await outbox.sendOrder('SO-1');
  await database.query(`
    create function public.take_long() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return new; end $$;
    create trigger take_long before insert on fulfilment.orders for each row execute function public.take_long()`);

  const items = [{ sku: 'MUG-BLUE', quantity: 5 }];
  const id = await outbox.insert('order.replace', 'SO-1', orderPayload('SO-1', { items }));
  await outbox.push();
  const { result } = await outbox.row(id);

  expect(await database.query('select id from fulfilment.orders')).toHaveLength(1);
  expect(
    await database.query('select resource as stream, id from sync.waiting_reads order by id'),
  ).toEqual([
    { stream: 'orders', id: result?.replacedOrderId },
    { stream: 'orders', id: result?.orderId },
  ]);
});

test('an order whose stored row the ERP has locked is settled at the second try, without it', async () => {
  connectWith({ lockTimeoutMs: 500 });
  await outbox.sendOrder('SO-1');
  // A sequence also counts what is rolled back.
  await database.query(`
    create sequence public.tries;
    create function public.count_try() returns trigger language plpgsql as $$ begin
      perform nextval('public.tries');
      return new; end $$;
    create trigger count_try before update on fulfilment.outbox for each row
      when (new.status = 'done') execute function public.count_try()`);

  const id = await outbox.insert('order.update', 'SO-1', { reference: 'new' });
  await database.db.transaction().execute(async (erp) => {
    await sql`select from fulfilment.orders for update`.execute(erp);
    await outbox.push();
  });

  await outbox.expectRow(id, { status: 'done', attempts: 1 });
  expect(await database.query('select last_value::int as tries from public.tries')).toEqual([
    { tries: 2 },
  ]);
});

describe('a row whose worker is lost five times in a row', () => {
  const rules = { 'order.create': 'look up' } as const;
  const loseWorker = async (sentAt: string) => {
    await database.query(`
      update fulfilment.outbox set status = 'sending', next_attempt_at = null, attempts = attempts + 1,
        claim_no = nextval('sync.read_no'), lease_until = now() - interval '1 second', sent_at = ${sentAt},
        result = null, finished_at = null`);
    await takeOverClaims(database.db, 'test', rules);
  };

  test('is looked up, if it can be, and dead unless it was carried out', async () => {
    const [there, absent] = [1, 2].map((n) => outbox.insertOrder(`SO-${n}`));
    await database.query(
      "update fulfilment.outbox set next_attempt_at = now() + interval '1 hour' where id = $1",
      [await absent],
    );
    await outbox.push();
    await database.query('delete from sync.outbox_attempts');
    for (let round = 1; round <= 5; round++) {
      await loseWorker('now()');
      // Look-ups show nothing about the payload.
      await database.query(`
        insert into sync.outbox_attempts (outbox_id, step, by, became)
        select id, 'looked up', 'test', 'unknown' from fulfilment.outbox`);
    }
    await outbox.hurry();
    await outbox.pushRounds(3);
    await outbox.expectRow((await there) ?? 0, { status: 'done' });
    await outbox.expectRow((await absent) ?? 0, {
      status: 'dead',
      last_error: expect.stringMatching(/^its worker was lost 5 times in a row/),
    });
  });
});

test('a database that stalls just before a request is written makes no row unknown', async () => {
  await outbox.sendOrder('SO-1');
  const content = Buffer.from(await writePage(['A page'])).toString('base64');
  const id = await outbox.insert('order_attachment.create', 'SO-1', { filename: 'a.pdf', content });
  await sandbox.faults(once('v3.orders.*', { delayMs: 1_000 }));
  const pushed = outbox.push();
  await waitFor('the row to be claimed', async () => (await outbox.row(id)).status === 'sending');
  await database.db.transaction().execute(async (stall) => {
    await sql`select 1 from fulfilment.outbox where id = ${id} for update`.execute(stall);
    // Longer than recording the send may take, and shorter than lock_timeout.
    await sql`select pg_sleep(5.2)`.execute(stall);
  });
  await pushed;
  await outbox.expectRow(id, { status: 'done', attempts: 1 });
});

describe('a row beyond the size limits', () => {
  const text = (length: number) => 'x'.repeat(length);
  test.each<
    [string, string, { client?: string; kind?: string; reference?: string; payload?: string }]
  >([
    ['client', '65 characters', { client: text(65) }],
    ['kind', '65 characters', { kind: text(65) }],
    ['reference', '201 characters', { reference: text(201) }],
    ['payload', '16777217 bytes', { payload: JSON.stringify(text(16_777_215)) }],
  ])('is refused by the INSERT because of its %s', async (field, size, row) => {
    const { client = 'default', kind = 'order.cancel', reference = 'SO-1', payload = '{}' } = row;
    await expect(outbox.insert(kind, reference, payload, client)).rejects.toThrow(
      `${field} has ${size}; at most`,
    );
    expect(await outbox.rows()).toEqual([]);
  });

  test('is refused by outbox_replace; a row of exactly the maximum size is accepted', async () => {
    const id = await outbox.insert(
      'order.cancel',
      text(200),
      JSON.stringify(text(16_777_214)),
      text(64),
    );
    const replaced = outbox.replace(id, text(16_777_215));
    await expect(replaced).rejects.toThrow('payload has 16777217 bytes');
  });
});
