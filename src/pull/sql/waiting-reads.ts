/**
 * The list of everything that waits to be read again, whatever the reason. Rows are added and
 * removed in the transaction of the reading that they result from.
 */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Backoff, pauses } from '../../core/backoff.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId, toPauseSpan } from '../../db/values.ts';
import type { StreamTransaction } from './stream-transaction.ts';

/** Why something asks for a read, at once. */
export type RequestReason =
  /** An older reading differed from the stored row. */
  | 'older_reading'
  /** Its lines came without a link to it. */
  | 'unlinked_lines'
  /** A shipment names the order, which is not stored. */
  | 'named_by_shipment'
  /** A return item of the announced return has arrived. */
  | 'returned'
  /** The track-trace list names it. */
  | 'tracked'
  /** A push changed it. */
  | 'pushed';

/** Why a read is made again later. */
export type PostponeReason =
  /** It is in quarantine: it may have been damaged on the way, or repaired since. */
  | 'quarantined'
  /** The read failed. */
  | 'read_failed'
  /** The service does not know it. */
  | 'not_found'
  /** The read found it still open, and the list of open rows does not show it. */
  | 'still_open'
  /** Another list shows it still open. */
  | 'listed_still_open';

/** Why the packages of a shipment are looked up (src/pull/parcels.ts). */
export type ParcelReadReason = 'shipped' | 'listed' | 'aging' | 'unanswered' | 'read_failed';

/** Any reason of a waiting read, as sync.waiting_reads stores it. */
type WaitingReason = RequestReason | PostponeReason | ParcelReadReason | 'not_listed';

/**
 * Reasons that only a good reading ends: after a read that did not help, they stay the reason, and
 * the read is repeated.
 */
const lastingReasons: readonly WaitingReason[] = ['quarantined', 'named_by_shipment'];
/**
 * Reasons of reads that found nothing new. Nobody repeats them for their own sake. They are the
 * pause of the pass that finds open rows (src/pull/sql/open-rows.ts).
 */
const settledReasons: readonly WaitingReason[] = ['not_found', 'still_open', 'listed_still_open'];

/** A read that is due. */
export interface WaitingRead {
  readonly id: number;
  /** Number of reads so far that did not help. */
  readonly tries: number;
  /** Its time as text, exact to the microsecond: a request that comes meanwhile changes it. */
  readonly nextAt: string;
  /** Time for which it has waited, in milliseconds. */
  readonly waitedMs: number;
}

interface DueReadsOptions {
  /** Maximum number of reads; null: all. */
  readonly limit: number | null;
  /**
   * `fair`: each reason in turn, of each the longest waiting first; `newest`: the largest ids
   * first. Default: `fair`.
   */
  readonly order?: 'fair' | 'newest';
}

/** Finds the reads that are due. */
export async function findDueReads(
  db: Kysely<DB>,
  client: string,
  resource: string,
  { limit, order = 'fair' }: DueReadsOptions,
): Promise<WaitingRead[]> {
  const turn = sql`row_number() over (partition by w.reason order by w.next_at, w.id), w.next_at`;
  const { rows } = await sql<WaitingRead>`
    select w.id, w.tries, w.next_at::text as "nextAt",
      extract(epoch from sync.clock() - w.since)::float8 * 1000 as "waitedMs"
    from sync.waiting_reads w
    where w.client = ${anyClient(client)} and w.resource = ${resource}
      and w.next_at <= sync.clock()
      and (w.tries = 0 or not w.reason = any(${settledReasons}::text[]))
    order by ${order === 'newest' ? sql`w.id desc` : turn}
    limit ${limit}`.execute(db);

  return rows;
}

/** Finds the ids among these that wait for a read, due or not. */
export async function findWaiting(
  db: Kysely<DB>,
  client: string,
  resource: string,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await db
    .selectFrom('sync.waiting_reads')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('resource', '=', resource)
    .where('id', '=', anyId(ids))
    .execute();

  return rows.map(({ id }) => id);
}

/**
 * Requests reads of these ids. They are due at once.
 * @param again true: also of ids that the service did not know at an earlier read
 */
export async function requestReads(
  scope: StreamTransaction,
  ids: readonly number[],
  reason: RequestReason,
  again = true,
): Promise<void> {
  const isOvertaken = sql`w.reason = 'listed_still_open'
    or (w.reason = 'quarantined' and w.tries = 0)
    or (${again} and w.tries > 0 and w.reason in ('not_found', 'named_by_shipment'))`;

  await addReads(scope, ids, reason, {
    tries: 0,
    pause: null,
    onConflict: sql`tries = 0, next_at = excluded.next_at, ${keepLastingReason}
      where ${isOvertaken}`,
  });
}

/** Postpones reads that did not help, with growing pauses. */
export async function postponeReads(
  scope: StreamTransaction,
  ids: readonly number[],
  reason: PostponeReason,
): Promise<void> {
  const { reread } = pauses;

  await addReads(scope, ids, reason, {
    tries: 1,
    pause: reread,
    onConflict: sql`tries = w.tries + 1, ${keepLastingReason},
      next_at = sync.clock() + ${toPauseSpan(reread, sql`w.tries + 1`)}`,
  });
}

/**
 * Adds resources that came into quarantine, to be read after the first pause. One that waits
 * already keeps its time.
 */
export async function addQuarantinedReads(
  scope: StreamTransaction,
  ids: readonly number[],
): Promise<void> {
  await addReads(scope, ids, 'quarantined', {
    tries: 0,
    pause: pauses.reread,
    onConflict: sql`reason = excluded.reason where w.reason <> excluded.reason`,
  });
}

const keepLastingReason = sql`reason =
  case when w.reason = any(${lastingReasons}::text[]) then w.reason else excluded.reason end`;

/** How reads are added, and what happens to those that wait already. */
interface AddedReads {
  readonly tries: 0 | 1;
  /** Null: due at once. */
  readonly pause: Backoff | null;
  /** SQL: the SET of the row w that waits already. */
  readonly onConflict: RawBuilder<unknown>;
}

async function addReads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  reason: WaitingReason,
  { tries, pause, onConflict }: AddedReads,
): Promise<void> {
  if (ids.length === 0) return;
  const span = pause === null ? sql`interval '0'` : toPauseSpan(pause, sql`1`);

  await sql`
    insert into sync.waiting_reads as w (client, resource, id, reason, tries, next_at)
    select distinct ${client}, ${stream}, i.id, ${reason}, ${tries}::integer, sync.clock() + ${span}
    from unnest(${ids}::bigint[]) as i (id)
    order by i.id
    on conflict (client, resource, id) do update set ${onConflict}`.execute(trx);
}

/**
 * Removes ids that were read, or that a list showed. A quarantined one stays while it is in
 * quarantine.
 * @param changed the ids whose row has changed; null: all. A row that lists show still open stays
 *   until it changes.
 */
export async function removeReads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  changed: readonly number[] | null = null,
): Promise<void> {
  if (ids.length === 0) return;

  await sql`
    delete from sync.waiting_reads w
    where w.client = ${anyClient(client)} and w.resource = ${stream}
      and w.id = any(${ids}::bigint[])
      and (w.reason <> 'listed_still_open' or w.id = any(${changed ?? ids}::bigint[]))
      and (w.reason <> 'quarantined' or not exists (
        select from sync.quarantine q
        where q.client = w.client and q.stream = w.resource
          and q.resource_key = w.id::text))`.execute(trx);
}
