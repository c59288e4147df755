import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { pinnedSettings, prepareSession } from '../../../src/db/session-settings.ts';
import { listStoredKinds } from '../../../src/push/kinds/registry.ts';
import { storeOutboxKinds } from '../../../src/push/sql/kinds.ts';
import { useDatabase } from '../../helpers/database.ts';
import { setHostile } from '../../helpers/hostile-settings.ts';

const database = useDatabase();
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/**
 * Settings that end a session, or that no ERP can have: without triggers it could write nothing.
 */
const impossible = [
  'idle_session_timeout',
  'exit_on_error',
  'restrict_nonsystem_relation_kind',
  'session_replication_role',
];

/** Opens a session of the ERP: it has the settings of its database and role. */
async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url, application_name: 'test erp' });
  await client.connect();
  closers.push(() => client.end());
  return client;
}

/** Stores rows whose times, links and reasons the views and functions write as text. */
const fill = () =>
  database.query(`
    insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
      values ('default', 1, 'SO-1', '2026-01-31', '{}', 1);
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, price, raw)
      values ('default', 1, 1, 'A', 3, 0.1, '{}');
    insert into fulfilment.order_addresses (client, order_id, role, postcode, country_code, raw)
      values ('default', 1, 'delivery', '1234 AB', 'NL', '{}');
    insert into fulfilment.setting_options (client, list, id, code, name, raw)
      values ('default', 'mainShippingMethods', 7, 'POST', 'Post', '{}');
    insert into fulfilment.carrier_links (client, shipping_method, url)
      values ('default', 'POST', 'https://track.example/{code}/{postcode}');
    insert into fulfilment.shipments (client, id, order_id, status, shipped_on, shipping_method_id, raw, read_no)
      values ('default', 1, 1, 'SHIPPED', '2026-02-01 23:30:00Z', 7, '{}', 1),
        ('default', 2, 1, 'SHIPPED', '2026-02-01 23:30:00Z', null,
          '{"attributes": {"tracking": {"url": "HTTPS://other.example/ü"}}}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, order_item_id, sku, quantity, raw)
      values ('default', 1, 1, 1, 'A', 1, '{}');
    insert into fulfilment.parcels (client, shipment_id, package_number, track_and_trace_code, shipping_date, raw, read_no)
      values ('default', 1, 'P', 'ü/1', '2026-02-01 23:30:00Z', '{}', 1), ('default', 2, 'Q', null, null, '{}', 1);
    insert into fulfilment.return_items (client, id, sku, quantity, order_id, processed_on, raw, read_no)
      values ('default', 1, 'A', 1, 1, '2026-02-03', '{}', 1);
    insert into sync.clients (client, identity, base_url) values ('default', 'x', 'https://service.test/');
    insert into fulfilment.outbox (kind, reference, payload, not_before)
      values ('order.create', 'SO-1', '{}', now() + interval '1 day');
    insert into fulfilment.outbox (client, kind, reference, payload) values ('paused', 'order.cancel', 'SO-2', '{}');
    insert into sync.pauses (client, job, since, by) values ('paused', 'push-outbox', '2026-02-01 23:30:00Z', 'test');
    insert into sync.clients (client, identity, base_url) values ('paused', 'y', 'https://service.test/')`);

test('what the ERP reads and calls means the same whatever its session has set', async () => {
  await storeOutboxKinds(database.db, listStoredKinds(operations));
  await fill();
  await setHostile(database, impossible);
  await database.query(`
    create schema impostor;
    create function impostor.upper(text) returns text language sql as $$ select 'impostor' $$;
    create function impostor.always(text, text) returns boolean language sql as $$ select true $$;
    create operator impostor.= (leftarg = text, rightarg = text, function = impostor.always);
    create operator impostor.~ (leftarg = text, rightarg = text, function = impostor.always)`);
  const [hostile, calm] = [await connect(), await connect()];
  await prepareSession(calm, pinnedSettings, false);
  await hostile.query('set search_path = impostor, pg_catalog');
  expect((await hostile.query('show datestyle')).rows).toEqual([{ DateStyle: 'German, DMY' }]);
  const views = await database.query<{ read: string }>(`
    select format('select * from fulfilment.%I', c.relname) as read from pg_class c
    where c.relkind = 'v' and c.relnamespace = 'fulfilment'::regnamespace`);
  const reads = [
    ...views.map(({ read }) => read),
    "select * from fulfilment.order_history('SO-1')",
    "select * from fulfilment.order_state('SO-1')",
    'select * from fulfilment.changes_since(0)',
    "select fulfilment.outbox_schema('order.create')",
  ];
  for (const read of reads) {
    await hostile.query(`create table impostor.found as ${read}`);
    const differing = `select 'hostile' as session, to_jsonb(f) as row from (table impostor.found except ${read}) f
      union all select 'calm', to_jsonb(f) from (${read} except table impostor.found) f`;
    expect([read, (await calm.query(differing)).rows]).toEqual([read, []]);
    await calm.query('drop table impostor.found');
  }
});

test('the ERP writes, and follows the feed, with any settings', async () => {
  await storeOutboxKinds(database.db, listStoredKinds(operations));
  await setHostile(database, impossible);
  const erp = await connect();
  const call = async (text: string) =>
    (await erp.query<{ found: unknown }>(`select (${text}) as found`)).rows[0]?.found;
  await call("fulfilment.start_consumer('shop', 0)");
  await erp.query(`
    insert into fulfilment.outbox (kind, reference, payload)
    values ('order.create', 'SO-1', '{}'), ('order.create', 'SO-2', '{}')`);
  await call(`fulfilment.outbox_replace(1, '{"a": 1}')`);
  await call('fulfilment.outbox_cancel(2)');
  await erp.query(
    `insert into fulfilment.stock_watch (sku) values ('A'); delete from fulfilment.stock_watch`,
  );
  await erp.query(`insert into fulfilment.service_products (sku, is_pattern) values ('A%', true)`);
  await erp.query(`update fulfilment.outbox set status = 'done', result = '{}', next_attempt_at = null,
    finished_at = now() where id = 1`);
  expect(await call('(sync.number_changes(10)).numbered')).toBe(2);
  expect(await call(`select count(*) from fulfilment.consume_changes('shop')`)).toBe('2');
  expect(await call(`select count(*) from fulfilment.consume_changes('shop')`)).toBe('0');
  expect(await call("fulfilment.drop_consumer('shop')")).toBe(true);
});

test('functions in views, defaults and checks are bound when they are created, or set their search_path', async () => {
  const functions = await database.query<{ name: string }>(`
    select distinct p.oid::regprocedure::text as name
    from pg_proc p
    join pg_depend d on d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
    where p.pronamespace::regnamespace::text in ('fulfilment', 'sync')
      and d.classid in ('pg_rewrite'::regclass, 'pg_attrdef'::regclass, 'pg_constraint'::regclass)
      and p.prosqlbody is null and p.proconfig is null`);
  expect(functions).toEqual([]);
});
