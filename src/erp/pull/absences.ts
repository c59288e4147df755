import { sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';

/** Lists may be wrong once; only what this many complete walks lack, one after the other, is taken for gone. */
const walksUntilGone = 2;

/** Whose lists lacked something. */
export interface AbsenceScope {
  readonly client: string;
  readonly stream: string;
  readonly pass: 'poll' | 'reconcile';
  /** The reconciliation, for its pass. */
  readonly rescanId?: number | null;
}

/**
 * Notes what a complete walk lacked, of a stream without a read by id, and forgets what earlier ones lacked and it showed.
 * @returns those missed often enough by now
 */
export async function noteAbsences(
  trx: Transaction<DB>,
  { client, stream, pass, rescanId = null }: AbsenceScope,
  absent: readonly number[],
): Promise<number[]> {
  // A reconciliation has not looked at everything: it forgets what it saw. A poll looks at all there is to miss.
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
  return rows.filter(({ walks }) => walks >= walksUntilGone).map(({ id }) => id);
}
