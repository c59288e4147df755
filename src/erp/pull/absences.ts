import { sql } from 'kysely';
import { anyClient } from '../connection/values.ts';
import type { StreamTransaction } from '../runs/stream-transaction.ts';

/** Number of consecutive complete walks that must lack a row before it is unlisted. A single list may be wrong. */
const walksUntilUnlisted = 2;

/** The walk whose list lacked rows. */
export interface AbsenceWalk {
  readonly pass: 'poll' | 'reconcile';
  /** The number of the reconciliation; null for a poll. */
  readonly rescanId?: number | null;
}

/**
 * Records the rows that a complete walk lacked, in a stream without a read by id. Deletes the absences of rows that
 * this walk showed.
 * @param absent ids of the rows that the walk lacked
 * @returns ids of the rows that enough consecutive walks lacked
 */
export async function recordAbsences(
  { trx, client, stream }: StreamTransaction,
  { pass, rescanId = null }: AbsenceWalk,
  absent: readonly number[],
): Promise<number[]> {
  // A reconciliation does not read everything, so only the rows on its pages count as seen. A poll lists all open rows,
  // so every row that is not absent counts as seen.
  const seen =
    rescanId === null
      ? sql<boolean>`not (id = any(${absent}::bigint[]))`
      : sql<boolean>`id in (select unnest(ids) from sync.rescan_pages where rescan_id = ${rescanId})`;
  await trx
    .deleteFrom('sync.absences')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('pass', '=', pass)
    .where(seen)
    .execute();
  if (absent.length === 0) return [];
  const { rows } = await sql<{ id: number; walks: number }>`
    insert into sync.absences as a (client, stream, pass, id)
    select ${client}, ${stream}, ${pass}, i.id
    from unnest(${absent}::bigint[]) as i (id)
    order by i.id
    on conflict (client, stream, pass, id) do update set walks = a.walks + 1
    returning id, walks`.execute(trx);
  return rows.filter(({ walks }) => walks >= walksUntilUnlisted).map(({ id }) => id);
}
