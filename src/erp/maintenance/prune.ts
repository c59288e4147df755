/**
 * Statements that concern all other folders: retention, a changed account, secrets. They work in bounded steps, and
 * never delete what mirrors the service.
 */

import { type RawBuilder, sql, type Transaction } from 'kysely';
import { lockName } from '../connection/locks.ts';
import type { DB } from '../generated/tables.ts';
import { unknownToService } from '../pull/rereads.ts';

/** What is let go of by age. */
export interface Prunable {
  readonly name: string;
  /** Deletes at most `limit` of what is older than this many days; answers how many were deleted. */
  readonly prune: (trx: Transaction<DB>, days: number, limit: number) => Promise<number>;
}

const cutoff = (days: number) => sql`now() - make_interval(days => ${days})`;

/** Rows of a table, by a condition on their age. Whoever comes second finds the rows taken, and passes them over. */
function rowsOf(name: string, condition: (days: number) => RawBuilder<unknown>): Prunable {
  return {
    name,
    prune: async (trx, days, limit) => {
      const { numAffectedRows } = await sql`
        delete from ${sql.table(name)}
        where ctid = any(array(
          select t.ctid from ${sql.table(name)} t where ${condition(days)}
          limit ${limit} for update skip locked))`.execute(trx);
      return Number(numAffectedRows ?? 0);
    },
  };
}

/** From its beginning, as far as all of it is old. */
const feed: Prunable = {
  name: 'fulfilment.changes',
  prune: async (trx, days, limit) => {
    await lockName(trx, 'prune feed');
    const { rows } = await sql<{ pruned: number }>`
      with first as materialized (
        select seq, changed_at
        from fulfilment.changes
        order by seq
        limit ${limit}
      ), gone as (
        delete from fulfilment.changes c
        using first f
        where c.seq = f.seq and c.seq < coalesce(
          (select min(y.seq) from first y where y.changed_at >= ${cutoff(days)}), 9223372036854775807)
        returning c.seq
      ), marked as (
        update sync.feed_mark
        set pruned_until = greatest(pruned_until, (select max(seq) from gone))
        where exists (select from gone)
      )
      select count(*)::int as pruned
      from gone`.execute(trx);
    return rows[0]?.pruned ?? 0;
  },
};

/** All that grows with time, of every client, also of those that are no longer set up. What mirrors the service stays. */
export const prunables: readonly Prunable[] = [
  rowsOf('sync.runs', (days) => sql`t.finished_at < ${cutoff(days)}`),
  rowsOf('fulfilment.outbox', (days) => sql`t.status in ('done', 'cancelled') and t.finished_at < ${cutoff(days)}`),
  rowsOf('fulfilment.track_trace_events', (days) => sql`t.seen_at < ${cutoff(days)}`),
  rowsOf('sync.quarantine', (days) => sql`t.last_seen_at < ${cutoff(days)}`),
  rowsOf('sync.gaps', (days) => sql`t.noticed_at < ${cutoff(days)}`),
  // Asked for by id once, in vain, and by nothing since.
  rowsOf('sync.rereads', (days) => sql`t.last_reason = ${unknownToService} and t.next_try_at < ${cutoff(days)}`),
  // The last one of each kind tells where the next begins.
  rowsOf(
    'sync.rescans',
    (days) => sql`t.finished_at < ${cutoff(days)} and exists (
      select from sync.rescans l
      where l.client = t.client and l.stream = t.stream and l.kind = t.kind and l.outcome = 'done' and l.id > t.id)`,
  ),
  rowsOf('sync.audit', (days) => sql`t.at < ${cutoff(days)}`),
  feed,
];
