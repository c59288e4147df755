import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import { findPersonalTable } from '../../privacy/personal-columns.ts';
import { listOrderTables } from '../../privacy/sql/mask-rows.ts';
import type { Change } from '../../pull/sql/feed.ts';
import { feedNames, tableRef } from '../../pull/sql/mirror-tables.ts';

/** Deletes the mirror of orders, with their shipments and returns. Returns what the feed gets. */
export async function deleteOrders(
  trx: Transaction<DB>,
  client: string,
  orders: readonly number[],
): Promise<Change[]> {
  const changes: Change[] = [];

  for (const [table, where] of listOrderTables(client, orders).toReversed()) {
    const { rows } = await sql<{ id: number | null; key: string | null }>`
      delete from ${tableRef(table)} t
      where t.client = ${anyClient(client)} and ${where}
      returning ${feedNames(findPersonalTable(table))}`.execute(trx);
    for (const row of rows) changes.push({ entity: table, ...row, operation: 'removed' });
  }

  // Also the events of the lines that were just deleted: the service has not dropped these lines.
  await trx
    .deleteFrom('fulfilment.order_line_events')
    .where('client', '=', anyClient(client))
    .where('order_id', '=', anyId(orders))
    .execute();
  return changes;
}
