import { describe, expect, test } from 'vitest';
import { listOrders, maxSearchedOrders } from '../../../../src/operate/sql/order-list.ts';
import { registerClients } from '../../../../src/service/sql/clients.ts';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { watchPlans } from '../../../helpers/schema/plans.ts';

const database = useDatabase();
const admin = useAdmin(database);
const clients = ['default', 'other'];
const path = '/order?client=default&number=SO-1';

/**
 * Stores an order that was sent, shipped, delivered in a parcel and returned; each part an hour
 * after the one before it.
 */
async function storeOrder(client = 'default', number = 'SO-1'): Promise<void> {
  await registerClients(
    database.db,
    clients.map((key) => ({ client: key, identity: 'x', baseUrl: 'http://127.0.0.1:9' })),
  );
  await database.query(`
    with t as (select timestamptz '2026-05-04 08:00' as at), pushed as (
      insert into fulfilment.outbox (client, kind, reference, status, next_attempt_at, result, payload, created_at, finished_at)
      select '${client}', 'order.create', '${number}', 'done', null, '{}', '{"email": "jan@example.com"}', at, at from t returning id
    ), attempts as (
      insert into sync.outbox_attempts (outbox_id, step, by, became, at, error)
      select id, step, 'w', became, at + pause, error from pushed, t, (values ('sent', 'unknown', interval '1 hour', 'no answer: «Jan»'),
        ('looked up', 'done', interval '2 hours', null)) a (step, became, pause, error)
    ), ordered as (
      insert into fulfilment.orders (client, id, external_order_number, email, raw, read_no, first_seen_at, changed_at)
      select '${client}', 5, '${number}', 'jan@example.com', '{}', 1, at + interval '3 hours', at + interval '3 hours' from t
    ), shipped as (
      insert into fulfilment.shipments (client, id, order_id, status, raw, read_no, ready_to_pick_on, shipped_on, first_seen_at, changed_at)
      select '${client}', 7, 5, 'SHIPPED', '{}', 1, at + interval '4 hours', at + interval '6 hours', at + interval '5 hours', at + interval '7 hours' from t
    ), packed as (
      insert into fulfilment.parcels (client, shipment_id, package_number, track_and_trace_code, current_track_trace_status, raw, read_no, first_seen_at, changed_at)
      select '${client}', 7, 'P-1', 'https://carrier.example/3S1?zip=1234AB', '5', '{}', 1, at + interval '8 hours', at + interval '8 hours' from t
    ), traced as (
      insert into fulfilment.track_trace_events (client, shipment_id, package_number, current_track_trace_status, current_track_trace_status_date_time, raw)
      select '${client}', 7, 'P-1', 5, at + interval '9 hours', '{}' from t
    ), announced as (
      insert into fulfilment.return_merchandise_authorizations (client, id, external_reference, status, shipment_id, raw, read_no, first_seen_at, changed_at)
      select '${client}', 9, 'RET-1', 'PENDING', 7, '{}', 1, at + interval '10 hours', at + interval '10 hours' from t
    )
    insert into fulfilment.return_items (client, id, order_id, processed_on, raw, read_no, first_seen_at, changed_at)
    select '${client}', 11, 5, '2026-05-05', '{}', 1, at + interval '1 day', at + interval '1 day' from t`);
  await database.query(`
    update fulfilment.shipment_events set status = 'ERROR', seen_at = '2026-05-04 13:00' where client = '${client}';
    insert into fulfilment.shipment_events (client, shipment_id, status, seen_at)
    values ('${client}', 7, 'SHIPPED', '2026-05-04 15:00');
    insert into fulfilment.outbox (client, kind, reference, status, next_attempt_at, result, created_at, finished_at)
    values ('${client}', 'return.create', 'RET-1', 'done', null, '{}', '2026-05-04 17:00', '2026-05-04 18:00')`);
}

const readEvents = async (address = path) => {
  const { visitor } = await admin();
  const answer = await visitor.get(address, { accept: 'application/json' });
  return ((await answer.json()) as { events: { text: string; at: string; serviceAt: string }[] })
    .events;
};
const readTexts = async (address = path) => (await readEvents(address)).map(({ text }) => text);

describe('the timeline of an order', () => {
  test('has every event from insert to return, ordered by our clock beside that of the service', async () => {
    await storeOrder();
    const events = await readEvents();
    expect(events.map(({ text }) => text)).toEqual([
      'Row 1 inserted: order.create of SO-1',
      'Row 1 sent: unknown',
      'Row 1 looked up: done',
      'Order 5 (SO-1) stored here, entered the feed',
      'Shipment 7 stored here, entered the feed',
      'Shipment 7 read, status ERROR',
      'Shipment 7 read, status SHIPPED',
      'Parcel P-1 of shipment 7 stored here, entered the feed',
      'Row 2 inserted: return.create of RET-1',
      'Return 9 announcement stored, status PENDING',
      'Return 11 stored here, entered the feed',
      'Parcel P-1 of shipment 7: carrier status 5',
    ]);
    expect(events.find(({ text }) => text.endsWith('status SHIPPED'))).toMatchObject({
      at: '2026-05-04T15:00:00.000Z',
      serviceAt: '2026-05-04T14:00:00.000Z',
    });
  });

  test('shows neither names nor addresses, and tracking links to operators only', async () => {
    await storeOrder();
    const tokens = {
      ADMIN_TOKEN: 'an-operator-token-that-is-long-enough',
      ADMIN_VIEWER_TOKEN: 'a'.repeat(40),
    };
    const { visitor } = await admin(tokens);
    const ask = async (token: string, accept: string) =>
      (await visitor.get(path, { authorization: `Bearer ${token}`, accept })).text();
    for (const accept of ['text/html', 'application/json']) {
      const operator = await ask(tokens.ADMIN_TOKEN, accept);
      expect(operator).not.toContain('jan@example.com');
      // A link may hold a postcode.
      expect(operator.includes('zip=1234AB')).toBe(accept === 'text/html');
      expect(operator).toContain('«Jan»');
      // A viewer gets no words of the service.
      expect(await ask(tokens.ADMIN_VIEWER_TOKEN, accept)).not.toMatch(/Jan|1234AB/);
    }
  });

  test('of a renamed order is the same under its former and its present number', async () => {
    await storeOrder();
    await database.query(`
      with renamed as (
        insert into fulfilment.outbox (kind, reference, status, next_attempt_at, result, created_at, finished_at)
        values ('order.rename', 'SO-1', 'done', null, '{}', '2026-05-04 12:30', now()) returning id)
      insert into sync.outbox_targets (outbox_id, target_id) select id, 5 from renamed`);
    await database.query(`update fulfilment.orders set external_order_number = 'SO-2'`);
    const former = await readTexts();
    expect(former).toContain('Order 5 (SO-2) stored here, entered the feed');
    expect(former).toContain('Row 1 inserted: order.create of SO-1');
    expect(await readTexts('/order?client=default&number=SO-2')).toEqual(former);
  });

  test('says by whose clock an order that was placed elsewhere reached the service', async () => {
    await storeOrder();
    const readStage = async () => {
      const answer = await (await admin()).visitor.get(path, { accept: 'application/json' });
      const { stages } = (await answer.json()) as { stages: { name: string }[] };
      return stages.find(({ name }) => name === 'at the service');
    };
    expect(await readStage()).toMatchObject({ at: '2026-05-04T10:00:00.000Z', clock: 'ours' });

    await database.query(`
      delete from fulfilment.outbox where kind = 'order.create';
      update fulfilment.orders set ordered_on = '2026-05-03'`);
    expect(await readStage()).toMatchObject({ at: '2026-05-03T00:00:00.000Z', clock: 'service' });
  });

  test('does not exist for an unknown order', async () => {
    const { visitor } = await admin();
    expect((await visitor.get('/order?client=default&number=NONE')).status).toBe(404);
    expect((await visitor.get('/order')).status).toBe(400);
    expect((await visitor.get(`/orders?q=${'x'.repeat(201)}`)).status).toBe(400);
  });

  test('costs the same beside many other orders', async () => {
    await storeOrder();
    await database.query(`
      set session_replication_role = replica;
      insert into fulfilment.outbox (kind, reference) select 'order.create', 'X-' || n from generate_series(1, 10000) n;
      insert into sync.outbox_attempts (outbox_id, step, by, became) select id, 'sent', 'w', 'done' from fulfilment.outbox;
      insert into fulfilment.orders (client, id, external_order_number, email, raw, read_no)
        select 'default', n, 'X-' || n, n || '@example.com', '{}', 1 from generate_series(100, 10000) n;
      insert into fulfilment.shipments (client, id, order_id, raw, read_no)
        select 'default', n, n, '{}', 1 from generate_series(100, 10000) n;
      insert into fulfilment.parcels (client, shipment_id, track_and_trace_code, raw, read_no)
        select 'default', n, 'C-' || n, '{}', 1 from generate_series(100, 10000) n;
      insert into fulfilment.return_merchandise_authorizations (client, id, external_reference, shipment_id, raw, read_no)
        select 'default', n, 'R-' || n, n, '{}', 1 from generate_series(100, 10000) n;
      insert into fulfilment.return_items (client, id, order_id, raw, read_no)
        select 'default', n, n, '{}', 1 from generate_series(100, 10000) n;
      set session_replication_role = origin;
      analyze`);
    const { executed, end } = await watchPlans(database);
    try {
      const { visitor } = await admin({}, database.open(2));
      for (const text of [
        'SO-1',
        '7',
        'https://carrier.example/3S1?zip=1234AB',
        'RET-1',
        'NONE',
        'jan@example.com',
      ])
        expect(
          (await visitor.get(`/orders?${new URLSearchParams({ q: text }).toString()}`)).status,
        ).toBeLessThan(400);
      expect((await visitor.get(path)).status).toBe(200);
    } finally {
      end();
    }
    const asked = executed.filter(({ statement }) =>
      /fulfilment\.parcels|"order_id" in/.test(statement),
    );
    expect(asked).toHaveLength(12);
    expect(asked.filter(({ touched }) => touched > 500)).toEqual([]);
  });
});

test('lists have the orders that are late, in trouble or on back order', async () => {
  await registerClients(database.db, [
    { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
  ]);
  await database.query(`
    with ordered as (
      insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
      select 'default', id, 'SO-' || id, current_date - days, '{}', 1
      from (values (1, 0), (2, 5), (3, 5)) o (id, days)
    ), lines as (
      insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
      select 'default', id, id, 'MUG', 2, '{}' from generate_series(1, 3) id
    )
    insert into fulfilment.shipments (client, id, order_id, status, raw, read_no)
    values ('default', 1, 1, 'ERROR', '{}', 1)`);
  const { visitor } = await admin();
  const read = async (list: string) => {
    const answer = await visitor.get(`/orders?list=${list}`, { accept: 'application/json' });
    return ((await answer.json()) as { orders: { number: string }[] }).orders.map(
      ({ number }) => number,
    );
  };
  expect(await read('newest')).toEqual(['SO-1', 'SO-3', 'SO-2']);
  expect(await read('late')).toEqual(['SO-3', 'SO-2']);
  expect(await read('trouble')).toEqual(['SO-1']);
  expect(await read('back+order')).toEqual(['SO-3', 'SO-2']);
  expect(await (await visitor.get('/orders?list=trouble')).text()).toContain('warehouse error');
});

test('lists search 2,000 orders in all, however many clients there are', async () => {
  await database.query(`
    set session_replication_role = replica;
    insert into sync.clients (client, identity, base_url)
    select 'c' || c, 'x', 'http://127.0.0.1:9' from generate_series(1, 101) c;
    insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
    select 'c' || c, n, 'SO-' || n, current_date, '{}', 1
    from generate_series(1, 101) c, generate_series(1, 30) n;
    set session_replication_role = origin`);
  const filter = { list: 'newest', client: null } as const;
  const clients = (await listOrders(database.db, filter, { skip: 0, limit: 10_000 })).map(
    (order) => order.client,
  );
  expect(clients.length).toBeLessThanOrEqual(maxSearchedOrders);
  expect(new Set(clients).size).toBeGreaterThan(90);
});

describe('the search for an order', () => {
  test('finds the orders of a customer by e-mail address, for an operator, who sends it in no URL', async () => {
    await storeOrder();
    await database.query(`
      insert into fulfilment.orders (client, id, external_order_number, email, raw, read_no)
      values ('default', 6, 'SO-2', 'Jan@Example.com', '{}', 1), ('other', 5, 'SO-3', 'eva@example.com', '{}', 1)`);
    const tokens = {
      ADMIN_TOKEN: 'an-operator-token-that-is-long-enough',
      ADMIN_VIEWER_TOKEN: 'a'.repeat(40),
    };
    const { visitor, logged } = await admin(tokens);
    await visitor.post('/login', { token: tokens.ADMIN_TOKEN }, '/login');
    const several = await visitor.post('/orders', { q: 'jan@example.com' }, '/orders');
    const page = await several.text();
    expect(several.status).toBe(200);
    for (const found of ['SO-1', 'SO-2', 'e-mail address']) expect(page).toContain(found);
    expect(page).not.toMatch(/jan@example\.com/i);
    const one = await visitor.post('/orders', { q: 'EVA@example.com' }, '/');
    expect([one.status, one.headers.get('location')]).toEqual([
      303,
      '/order?client=other&number=SO-3',
    ]);
    expect(logged.join('')).not.toMatch(/@example\.com/i);
    const headers = {
      authorization: `Bearer ${tokens.ADMIN_VIEWER_TOKEN}`,
      accept: 'application/json',
    };
    const asViewer = await fetch(new URL('/orders?q=jan@example.com', visitor.base), { headers });
    expect(await asViewer.json()).toEqual({ orders: [], hasMore: false });
  });
});
