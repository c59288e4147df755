import { expect, test } from 'vitest';
import { placeOrder } from '../../helpers/privacy/placed-order.ts';
import { dailyJobs, done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';

const flows = usePushes();
const { database, sandbox, pull } = flows;

const tables = [
  ...['orders', 'order_items', 'order_addresses', 'shipments', 'shipment_items', 'parcels'],
  ...['return_items', 'return_merchandise_authorizations'],
  'return_merchandise_authorization_items',
];

/** Makes the rows of an order older by a number of days. */
const age = (number: string, days: number) =>
  database.query(`
    with aged as (
      update fulfilment.orders set ordered_on = ordered_on - ${days},
        preferred_shipping_date = preferred_shipping_date - ${days}
      where external_order_number = '${number}' returning id
    ), shipments as (
      update fulfilment.shipments set ready_to_pick_on = ready_to_pick_on - interval '${days} days',
        ready_to_ship_on = ready_to_ship_on - interval '${days} days',
        shipped_on = shipped_on - interval '${days} days'
      where order_id in (select id from aged)
    )
    update fulfilment.return_items set processed_on = processed_on - ${days}
    where order_id in (select id from aged)`);

test('finished orders older than MIRROR_DAYS leave the tables with all that is theirs', async () => {
  const old = await placeOrder(flows, 'SO-OLD', 'qz-old');
  await placeOrder(flows, 'SO-NEW', 'qz-new');
  const { authorizationId } = old;
  await sandbox.call('POST', '/_sandbox/return/process', { client: 'default', authorizationId });
  // Packages have left the track-trace list.
  await sandbox.advance(40 * 86_400);
  for (const job of dailyJobs) done(await pull(job));
  await database.query(
    "update fulfilment.outbox set status = 'cancelled', finished_at = now(), next_attempt_at = null where status = 'dead'",
  );
  const prune = () => pull('prune', { env: { RETENTION_DAYS: '3650', MIRROR_DAYS: '2000' } });
  done(await prune());
  const before = await countAll();
  expect(before.orders).toBe(2);

  await age('SO-OLD', 2_000);
  const { removed } = done(await prune());

  const after = await countAll();
  expect(
    await database.query('select external_order_number as number from fulfilment.orders'),
  ).toEqual([{ number: 'SO-NEW' }]);
  for (const table of tables) expect(after[table], table).toBeLessThan(before[table] ?? 0);
  expect(await database.count("fulfilment.changes where operation = 'removed'")).toBe(removed);
});

async function countAll(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of tables) counts[table] = await database.count(`fulfilment.${table}`);
  return counts;
}
