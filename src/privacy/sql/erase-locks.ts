import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';
import { anyClient } from '../../db/values.ts';
import { lockStream } from '../../pull/sql/stream-transaction.ts';

/**
 * The streams that hold resources of an order, in the order in which settlements of pushes lock
 * them.
 */
const orderStreams = ['orders', 'return-items', 'return-merchandise-authorizations', 'shipments'];

/** Jobs that write packages. They lock no stream, only their lease. */
const parcelJobs = ['pull-parcels', 'track-trace'];

/** Lets no other erasure, and no job that writes packages, commit until the transaction ends. */
export async function lockParcelWriters(trx: Transaction<DB>, client: string): Promise<void> {
  await lockName(trx, 'erase');
  await sql`
    select from sync.leases l
    where l.client = ${anyClient(client)} and l.name = any(${parcelJobs}::text[])
    order by l.name
    for update`.execute(trx);
}

/** Lets no reading and no settlement write a resource of an order until the transaction ends. */
export async function lockOrderStreams(trx: Transaction<DB>, client: string): Promise<void> {
  for (const stream of orderStreams) await lockStream({ trx, client, stream });
}
