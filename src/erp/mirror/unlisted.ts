import { sql } from 'kysely';
import { anyClient } from '../connection/values.ts';
import type { StreamTransaction } from '../runs/stream-transaction.ts';
import { isConfirmedSince } from '../runs/stream-transaction.ts';
import type { Change } from './feed.ts';

/** Marks rows that the service no longer has as unlisted, unless a newer reading found them. */
export async function markUnlisted(
  { trx, client, stream }: StreamTransaction,
  table: string,
  ids: readonly number[],
  readNo: number,
): Promise<Change[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    update ${sql.table(`fulfilment.${table}`)} t
    set unlisted_since = now(), read_no = ${readNo}
    where client = ${anyClient(client)} and id = any(${ids}::bigint[]) and unlisted_since is null
      and read_no < ${readNo}
      and not ${isConfirmedSince(client, stream, readNo, sql`t.id`)}
    returning id`.execute(trx);
  return rows.map(({ id }) => ({ entity: table, id, operation: 'unlisted' }));
}
