/** Orders that shipments name. */

import { sql } from 'kysely';
import { anyClient } from '../../db/values.ts';
import type { RunTransaction } from './stream-transaction.ts';
import { newRequestNo } from './waiting-reads.ts';

/**
 * Requests reads of the orders that shipments name and that are not stored.
 * @param ids the shipments; null: all. Without the first load of orders, nothing is requested for
 *   single shipments: its end requests reads for all of them.
 */
export async function requestMissingOrders(
  { trx, client }: Pick<RunTransaction, 'trx' | 'client'>,
  ids: readonly number[] | null,
): Promise<void> {
  if (ids?.length === 0) return;
  const isLoaded = sql`exists (
        select from sync.cursors c
        where c.client = ${anyClient(client)} and c.stream = 'orders' and c.pass = 'placed'
          and c.completed_at is not null)`;
  await sql`
    insert into sync.waiting_reads as w (client, resource, id, reason, next_at, asked_no)
    select distinct s.client, 'orders', s.order_id, 'named_by_shipment', sync.clock(),
      ${newRequestNo}
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id is not null
      and ${ids === null ? sql`true` : sql`s.id = any(${ids}::bigint[]) and ${isLoaded}`}
      -- Looks up one key at a time: a join could read the orders of all clients.
      and (select o.read_no from fulfilment.orders o where o.client = ${client}
        and o.id = s.order_id) is null
      -- Leaves out what is asked for until it is found: reads of orders would wait for its rows.
      and coalesce((select w.reason from sync.waiting_reads w where w.client = ${client}
        and w.resource = 'orders' and w.id = s.order_id), '') <> 'named_by_shipment'
    order by s.order_id
    -- One that was asked for otherwise is repeated from now on, until it is found.
    on conflict (client, resource, id) do update set reason = excluded.reason
      where w.reason not in ('quarantined', 'named_by_shipment')`.execute(trx);
}
