import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from './rows.ts';

/** What is let go of by age. */
export interface Prunable {
  readonly name: string;
  /** Deletes at most `limit` of what is older than so many days; how many it were. */
  readonly prune: (trx: Transaction<DB>, client: string, days: number, limit: number) => Promise<number>;
}

const cutoff = (days: number) => sql`now() - make_interval(days => ${days})`;

/** Rows of one client in a table, by a condition on their age. */
function rowsOf(name: string, condition: (days: number) => RawBuilder<unknown>): Prunable {
  return {
    name,
    prune: async (trx, client, days, limit) => {
      const { numAffectedRows } = await sql`
        delete from ${sql.table(name)} where ctid = any(array(
          select t.ctid from ${sql.table(name)} t where t.client = ${client} and ${condition(days)}
          limit ${limit} for update skip locked))`.execute(trx);
      return Number(numAffectedRows ?? 0);
    },
  };
}

/** The feed is one for all clients: from its beginning, as far as all of it is old. */
const feed: Prunable = {
  name: 'fulfilment.changes',
  prune: async (trx, _client, days, limit) => {
    await sql`select pg_advisory_xact_lock(hashtext('fulfilment-sync prune feed'))`.execute(trx);
    const { rows } = await sql<{ pruned: number }>`
      with first as materialized (
        select seq, changed_at from fulfilment.changes order by seq limit ${limit}
      ), gone as (
        delete from fulfilment.changes c using first f
        where c.seq = f.seq and c.seq < coalesce(
          (select min(y.seq) from first y where y.changed_at >= ${cutoff(days)}), 9223372036854775807)
        returning c.seq
      ), marked as (
        update sync.feed_mark set pruned_until = greatest(pruned_until, (select max(seq) from gone))
        where exists (select from gone)
      )
      select count(*)::int as pruned from gone`.execute(trx);
    return rows[0]?.pruned ?? 0;
  },
};

const audit: Prunable = {
  name: 'sync.audit',
  prune: async (trx, _client, days, limit) => {
    const { numAffectedRows } = await sql`
      delete from sync.audit where id in (
        select id from sync.audit where at < ${cutoff(days)} order by at limit ${limit} for update skip locked)`.execute(
      trx,
    );
    return Number(numAffectedRows ?? 0);
  },
};

/** All that grows with time, in the order in which it is pruned. What mirrors the service is never let go of. */
export const prunables: readonly Prunable[] = [
  rowsOf('sync.runs', (days) => sql`t.finished_at < ${cutoff(days)}`),
  rowsOf('fulfilment.outbox', (days) => sql`t.status in ('done', 'cancelled') and t.finished_at < ${cutoff(days)}`),
  rowsOf('fulfilment.track_trace_events', (days) => sql`t.seen_at < ${cutoff(days)}`),
  rowsOf('sync.quarantine', (days) => sql`t.last_seen_at < ${cutoff(days)}`),
  rowsOf('sync.gaps', (days) => sql`t.noticed_at < ${cutoff(days)}`),
  // Asked for by id once, in vain, and by nothing since.
  rowsOf('sync.rereads', (days) => sql`t.tries > 0 and t.next_try_at < ${cutoff(days)}`),
  // The last one of each kind tells where the next begins.
  rowsOf(
    'sync.rescans',
    (days) => sql`t.finished_at < ${cutoff(days)} and exists (
      select from sync.rescans l
      where l.client = t.client and l.stream = t.stream and l.kind = t.kind and l.outcome = 'done' and l.id > t.id)`,
  ),
  feed,
  audit,
];
