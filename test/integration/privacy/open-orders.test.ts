import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const pull = usePuller(database, useSandbox(['default'], quiet));
const prune = async (days: number) =>
  done(await pull('prune', { env: { RETENTION_DAYS: '3650', PERSONAL_DATA_DAYS: String(days) } }));

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
  await prune(30);
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
