import { expect, test } from 'vitest';
import { inTransaction } from '../../../src/db/transaction.ts';
import { requestParcelReads } from '../../../src/pull/sql/waiting-reads.ts';
import { ServiceClient } from '../../helpers/client.ts';
import { findTexts, placeOrder } from '../../helpers/privacy/placed-order.ts';
import { dailyJobs, done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';

// The service's time lies months before the database's, so everything that it shipped is old.
const flows = usePushes();
const { database, sandbox, outbox, pull } = flows;
const prune = (days: number | null) =>
  pull('prune', {
    env: { RETENTION_DAYS: '3650', ...(days === null ? {} : { PERSONAL_DATA_DAYS: String(days) }) },
  });
const readAudit = () =>
  database.query<{ client: string; detail: string }>(
    `select client, detail from sync.audit where action = 'erased' order by id`,
  );

/** Counts the orders with this number that have an e-mail address. */
const countOrders = (number: string) =>
  database.count(
    `fulfilment.orders where external_order_number = '${number}' and email is not null`,
  );

/** Makes everything that was written here as old as a number of days. */
async function age(days: number): Promise<void> {
  const at = `now() - interval '${days} days'`;
  await database.query(
    `update fulfilment.outbox set finished_at = ${at} where finished_at is not null`,
  );
  await database.query(`update fulfilment.documents set created_at = ${at}`);
  await database.query(`update sync.quarantine set last_seen_at = ${at}`);
  await database.query(`update sync.runs set finished_at = ${at} where finished_at is not null`);
  await database.query(`update fulfilment.orders set changed_at = ${at}`);
}

test('personal data older than PERSONAL_DATA_DAYS goes, and stays away', async () => {
  const order = await placeOrder(flows, 'SO-OLD', 'qz-old');
  const { authorizationId } = order;
  await sandbox.call('POST', '/_sandbox/return/process', { client: 'default', authorizationId });
  // Its package has left the track-trace list.
  await sandbox.advance(40 * 86_400);
  for (const job of dailyJobs) done(await pull(job));
  await database.query(`
    insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at, error)
    values ('default', 'a', 'manual', 'w', 1, 'failed', now(), now(), 'refused: «${order.texts.quoted}»')`);

  // The dead row waits for a person, so the order keeps its data.
  const blocked = done(await prune(30));
  expect(blocked.warnings).toEqual([
    expect.stringContaining('1 finished orders keep their personal data'),
  ]);
  expect(await countOrders('SO-OLD')).toBe(1);

  await database.query(`
    insert into sync.quarantine (client, stream, resource_key, order_id, member_path, reason, document, run_worker)
    values ('default', 'orders', '1', ${order.id}, 'x', 'x', '{"id": 1, "email": "${order.texts.email}"}', 'w')`);
  await database.query(`update fulfilment.outbox set status = 'cancelled' where status = 'dead'`);
  // Nothing of it is shipped yet.
  const { id: open, status } = await outbox.sendOrder('SO-OPEN', { email: 'qz-open@example.test' });
  expect(status).toBe('done');
  await age(31);
  const before = await findTexts(database, order.searched);
  done(await prune(400));
  done(await prune(null));
  expect(await findTexts(database, order.searched)).toEqual(before);
  expect(await readAudit()).toEqual([]);

  expect(done(await prune(30)).updated).toBeGreaterThan(1);
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(await countOrders('SO-OPEN')).toBe(1);
  expect(await outbox.row(open)).toMatchObject({ payload: { email: 'qz-open@example.test' } });
  expect(await readAudit()).toEqual([
    {
      client: 'default',
      detail: expect.stringMatching(/^personal data older than 30 days: orders 1, /),
    },
  ]);
  await database.query('delete from sync.turns');
  for (const job of dailyJobs) done(await pull(job));
  done(await prune(30));
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(await readAudit()).toHaveLength(1);
});

test('returns without a stored order are erased by their own age', async () => {
  await database.query(`
    insert into fulfilment.return_items (client, id, order_id, processed_on, comment, raw, read_no)
    select 'default', n, 900 + n, (now() - make_interval(days => 29 + n))::date, 'qz-comment', '{"attributes": {"comment": "qz-comment"}}', 1
    from generate_series(1, 250) n`);
  await database.query(`
    insert into fulfilment.return_items (client, id, comment, raw, read_no, changed_at)
    values ('default', 251, 'qz-comment', '{}', 1, now() - interval '101 days');
    insert into fulfilment.return_items (client, id, processed_on, comment, raw, read_no, changed_at)
    values ('default', 253, '2999-01-01', 'qz-comment', '{}', 1, now() - interval '101 days');
    insert into fulfilment.return_merchandise_authorizations (client, id, created_on, comments, raw, read_no)
    values ('default', 1, current_date - 101, 'processed', '{}', 1), ('default', 2, current_date - 101, 'announced', '{}', 1);
    insert into fulfilment.return_merchandise_authorization_items
      (client, id, return_merchandise_authorization_id, return_item_id, raw)
    values ('default', 1, 1, 5, '{}'), ('default', 2, 2, null, '{}')`);
  // Its only link leads to a stored order, with which it is erased.
  await database.query(`
    insert into fulfilment.orders (client, id, raw, read_no) values ('default', 5, '{}', 1);
    insert into fulfilment.shipments (client, id, order_id, raw, read_no) values ('default', 5, 5, '{}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, raw) values ('default', 5, 5, '{}');
    insert into fulfilment.return_merchandise_authorization_items (client, id, shipment_item_id, raw)
    values ('default', 5, 5, '{}');
    insert into fulfilment.return_items (client, id, comment, return_merchandise_authorization_item_id, raw, read_no, changed_at)
    values ('default', 252, 'qz-comment', 5, '{"attributes": {"comment": "qz-comment"}}', 1, now() - interval '101 days')`);
  done(await prune(100));
  expect(
    await database.query(
      `select comments from fulfilment.return_merchandise_authorizations order by id`,
    ),
  ).toEqual([{ comments: null }, { comments: 'announced' }]);
  const left = await database.query(
    `select id from fulfilment.return_items where comment = 'qz-comment'`,
  );
  expect(left).toHaveLength(71);
  const raw = await database.query(
    `select id from fulfilment.return_items where raw::text like '%qz-comment%'`,
  );
  expect(raw).toHaveLength(71);
});

test('shipments without a stored order are erased by their own age, with their packages', async () => {
  await sandbox.seed(3);
  const client = new ServiceClient(sandbox, 'default');
  await client.logIn();
  const read = async () => {
    await database.query('delete from sync.cursors');
    done(await pull('pull-shipments'));
    const ids = await database.ids('fulfilment.shipments');
    await inTransaction(database.db, (trx) => requestParcelReads(trx, 'default', ids));
    done(await pull('pull-parcels'));
    return ids;
  };
  const [old = 0, young = 0, ordered = 0] = await read();
  for (const shipmentId of [old, young, ordered])
    await client.ask('v2.returnLabel.get', { path: { shipmentId } });
  await read();
  await database.query(`
    update fulfilment.shipments
    set changed_at = now() - make_interval(days => case id when ${young} then 99 else 101 end);
    insert into fulfilment.orders (client, id, raw, read_no)
    select client, order_id, '{}', 1 from fulfilment.shipments where id = ${ordered}`);
  const findKept = () =>
    database.query<{ id: number }>(`
      select id from fulfilment.shipments s where return_label is not null and exists (
        select from fulfilment.parcels where shipment_id = s.id and track_and_trace_code is not null)
      order by id`);
  expect(await findKept()).toHaveLength(3);

  done(await prune(100));
  expect(await findKept()).toEqual([{ id: young }, { id: ordered }]);
  await read();
  expect(await findKept()).toEqual([{ id: young }, { id: ordered }]);
  expect(
    await database.count(
      `fulfilment.parcels where shipment_id = ${old} and track_and_trace_code is not null`,
    ),
  ).toBe(0);
});

test('a client that is served, or whose prune is paused, is left alone', async () => {
  await database.query(`
    insert into sync.clients (client, identity, base_url, accepted_at, served_at)
    select name, name, 'http://x', now() - interval '300 days', served_at
    from (values ('gone', now() - interval '3 days'), ('paused', null), ('pulled', null), ('pushed', now()))
      as c (name, served_at)`);
  await database.query(`
    insert into sync.jobs (client, job, last_started_at, last_finished_at)
    select client, 'prune', at, at
    from sync.clients, (values (now() - interval '3 days')) as t (at)
    union all
    select 'pulled', 'pull-orders', now(), now()`);
  await database.query(`insert into sync.pauses (client, job, by) values ('paused', 'prune', 'x')`);
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, email, unlisted_since, raw, read_no)
    select client, 1, 'SO-1', 'qz@example.test', now() - interval '300 days', '{}', 1
    from sync.clients`);
  const findKept = () =>
    database.query('select client from fulfilment.orders where email is not null order by client');
  done(await prune(180));
  expect((await findKept()).map(({ client }) => client)).toEqual(['paused', 'pulled', 'pushed']);
});

/**
 * Orders that are finished, each with a statement that is true of it. $ is its id, which its
 * shipment has, too.
 */
const finished: Readonly<Record<string, string>> = {
  'everything is shipped': '',
  'the rest is cancelled':
    'update fulfilment.order_items set quantity = 1, ordered_quantity = 5 where id = $',
  'the rest is a service product': `
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
    values ('default', 100 + $, $, 'COSTS', 1, '{}')`,
  'it is unlisted, with a line to come': `
    update fulfilment.order_items set quantity = 2 where id = $;
    update fulfilment.orders set unlisted_since = now() - interval '59 days' where id = $`,
  'its line is shipped without a link to it':
    'update fulfilment.shipment_items set order_item_id = null where id = $',
  'its return is processed': `
    insert into fulfilment.return_merchandise_authorizations (client, id, shipment_id, raw, read_no)
    values ('default', $, $, '{}', 1);
    insert into fulfilment.return_merchandise_authorization_items
      (client, id, return_merchandise_authorization_id, return_item_id, raw) values ('default', $, $, 5, '{}')`,
  'its package has left the list': `
    insert into fulfilment.track_traces (client, shipment_id, raw, unlisted_since) values ('default', $, '{}', now())`,
  'a return that was announced a year ago never came': `
    insert into fulfilment.return_merchandise_authorizations (client, id, shipment_id, raw, read_no, changed_at)
    values ('default', $, $, '{}', 1, now() - interval '366 days');
    insert into fulfilment.return_merchandise_authorization_items
      (client, id, return_merchandise_authorization_id, raw) values ('default', $, $, '{}')`,
  'its dates lie in the future': `
    update fulfilment.orders set preferred_shipping_date = '2999-01-01' where id = $;
    update fulfilment.shipments
    set shipped_on = '2999-01-01', changed_at = now() - interval '59 days' where id = $;
    insert into fulfilment.return_items (client, id, order_id, processed_on, raw, read_no, changed_at)
    values ('default', $, $, '2999-01-01', '{}', 1, now() - interval '59 days')`,
  'it is so old that shipments of it were never listed here': `
    update fulfilment.order_items set quantity = 2 where id = $;
    update fulfilment.orders set ordered_on = current_date - 400 where id = $`,
};

/** Orders of which something is to come or open. */
const open: Readonly<Record<string, string>> = {
  'a piece is to come': 'update fulfilment.order_items set quantity = 2 where id = $',
  'a piece is to come for more than a year': `
    update fulfilment.order_items set quantity = 2 where id = $;
    update fulfilment.orders
    set ordered_on = current_date - 500, first_seen_at = now() - interval '500 days' where id = $`,
  'a line is on no shipment': `
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
    values ('default', 100 + $, $, 'MUG', 1, '{}')`,
  'one of two lines of an article is shipped, without a link': `
    update fulfilment.shipment_items set order_item_id = null where id = $;
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw)
    values ('default', 100 + $, $, 'MUG', 1, '{}')`,
  'nothing was ever shipped': `
    delete from fulfilment.shipment_items where id = $;
    delete from fulfilment.shipments where id = $;
    update fulfilment.orders
    set ordered_on = current_date - 500, first_seen_at = now() - interval '500 days' where id = $`,
  'a shipment has not left': `
    insert into fulfilment.shipments (client, id, order_id, status, raw, read_no)
    values ('default', 100 + $, $, 'ERROR', '{}', 1)`,
  'a parcel is tracked': `
    insert into fulfilment.track_traces (client, shipment_id, raw) values ('default', $, '{}')`,
  'a return is announced': `
    insert into fulfilment.return_merchandise_authorizations (client, id, shipment_id, raw, read_no)
    values ('default', $, $, '{}', 1);
    insert into fulfilment.return_merchandise_authorization_items
      (client, id, return_merchandise_authorization_id, raw) values ('default', $, $, '{}')`,
  'a return that names only its line has just come': `
    insert into fulfilment.return_items (client, id, order_item_id, raw, read_no)
    values ('default', $, $, '{}', 1)`,
  'a return that names only a line of its shipment has just come': `
    insert into fulfilment.return_items (client, id, shipment_item_id, raw, read_no)
    values ('default', $, $, '{}', 1)`,
  'a row waits': `
    insert into fulfilment.outbox (kind, reference, payload) values ('order.update', 'SO-$', '{}')`,
  'a return waits in the outbox': `
    insert into fulfilment.outbox (kind, reference, payload)
    values ('return.create', 'R-$', '{"shipmentId": $}')`,
  'its shipment is to be read again': `
    insert into sync.waiting_reads (client, resource, id, reason, next_at)
    values ('default', 'shipments', $, 'pushed', now())`,
  'the order is to be read again': `
    insert into sync.waiting_reads (client, resource, id, reason, next_at)
    values ('default', 'orders', $, 'pushed', now())`,
  'its packages are to be looked up': `
    insert into sync.waiting_reads (client, resource, id, reason, next_at)
    values ('default', 'parcels', $, 'shipped', now())`,
  'a shipment of it is in quarantine': `
    insert into sync.quarantine (client, stream, resource_key, resource_id, order_id, member_path, reason, document, run_worker)
    values ('default', 'shipments', '100$', 1000 + $, $, 'x', 'x', '{}', 'w')`,
};

/**
 * Inserts an order of 60 days ago: one line of one piece, shipped; with its outbox row, its
 * document and an address.
 */
async function insertOrder(id: number, more: string): Promise<void> {
  await database.query(
    `
    insert into fulfilment.orders (client, id, external_order_number, email, ordered_on, raw, read_no, first_seen_at, changed_at)
    values ('default', $, 'SO-$', 'qz@example.test', current_date - 60, '{}', 1, now() - interval '60 days', now() - interval '60 days');
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, raw) values ('default', $, $, 'MUG', 1, '{}');
    insert into fulfilment.shipments (client, id, order_id, status, shipped_on, raw, read_no)
    values ('default', $, $, 'SHIPPED', now() - interval '59 days', '{}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, order_item_id, sku, quantity, raw)
    values ('default', $, $, $, 'MUG', 1, '{}');
    insert into fulfilment.outbox (kind, reference, payload)
    values ('order.create', 'SO-$', '{"email": "qz@example.test"}');
    update fulfilment.outbox
    set status = 'done', finished_at = now() - interval '60 days', result = '{"orderId": $}', next_attempt_at = null
    where reference = 'SO-$';
    insert into fulfilment.documents (id, client, kind, reference, order_id, result, file_name, created_at)
    values ($, 'default', 'order_attachment', 'SO-$', $, '{}', 'qz.pdf', now() - interval '60 days');
    ${more}`.replaceAll('$', String(id)),
  );
}

test('nothing of an order is erased by age while something of it is to come or open', async () => {
  const cases = [...Object.entries(finished), ...Object.entries(open)];
  await database.query(`insert into fulfilment.service_products (sku) values ('COSTS')`);
  for (const [index, [, more]] of cases.entries()) await insertOrder(index + 1, more);
  done(await prune(30));
  const kept = async (from: string, column: string) => {
    const rows = await database.query<{ id: number }>(
      `select distinct ${column} as id from ${from} order by 1`,
    );
    return rows.map(({ id }) => cases[id - 1]?.[0]);
  };
  const expected = Object.keys(open);
  expect(await kept(`fulfilment.orders where email is not null`, 'id')).toEqual(expected);
  expect(
    await kept(
      `fulfilment.outbox where payload::text like '%qz%'`,
      `substr(reference, 4)::integer`,
    ),
  ).toEqual(expected);
  expect(await kept('fulfilment.documents where file_name is not null', 'id')).toEqual(expected);
});
