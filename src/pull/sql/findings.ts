import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { dateList, type ListedTable } from './age.ts';
import type { StreamTransaction } from './stream-transaction.ts';

/** Rows that a reconciliation found missing here, stale here, or extra here. */
interface Findings {
  readonly finding: 'missing' | 'stale' | 'extra';
  readonly ids: readonly number[];
  /** The time of the reading, by the service's clock. */
  readonly serviceNow: Date;
}

/**
 * Records findings, each with the seconds between the row's newest date and `serviceNow`. These
 * seconds are null if the row changed after the last complete poll: no poll could have read it yet.
 */
export async function recordFindings(
  { trx, client, stream }: StreamTransaction,
  age: ListedTable,
  { finding, ids, serviceNow }: Findings,
): Promise<void> {
  if (ids.length === 0) return;
  const moved = sql`greatest(${dateList(age.moved)})`;
  const late = sql`
    case when ${finding} <> 'extra' and ${moved} < coalesce(f.complete_at, 'infinity')
      then extract(epoch from ${serviceNow}::timestamptz - ${moved}) end`;
  await sql`
    insert into sync.findings (client, stream, finding, id, late_seconds)
    select ${client}, ${stream}, ${finding}, t.id, ${late}
    from ${sql.table(`fulfilment.${age.table}`)} t
    left join sync.freshness f on f.client = t.client and f.stream = ${stream}
    where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[])
    order by t.id`.execute(trx);
}

/** Deletes findings that are older than this number of days. */
export async function forgetFindings(
  db: Kysely<DB>,
  client: string,
  stream: string,
  days: number,
): Promise<void> {
  await db
    .deleteFrom('sync.findings')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('found_at', '<', sql<Date>`now() - make_interval(days => ${days})`)
    .execute();
}
