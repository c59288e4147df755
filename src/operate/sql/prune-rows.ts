/** Retention: deletes a bounded number of rows per step, and never rows of resources. */

import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';

/** A table whose old rows are deleted. */
export interface PruneTarget {
  readonly name: string;
  /**
   * Deletes at most `limit` rows that are older than `days`. Returns the number of deleted rows.
   */
  readonly prune: (trx: Transaction<DB>, days: number, limit: number) => Promise<number>;
}

/** Returns SQL: the time before which rows are old. */
const toCutoff = (days: number) => sql`now() - make_interval(days => ${days})`;

/**
 * Makes the prune target of a table, from a condition on the age of row t. It skips rows that
 * another worker deletes.
 */
function makePruneTarget(
  name: string,
  condition: (days: number) => RawBuilder<unknown>,
): PruneTarget {
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

/**
 * The prune target of the feed. It deletes from the beginning, up to the first entry that is not
 * old.
 */
const feedTarget: PruneTarget = {
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
          (select min(y.seq) from first y where y.changed_at >= ${toCutoff(days)}),
            9223372036854775807)
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

/** The tables of history: a row for each change that was seen. */
const eventTables = [
  'track_trace_events',
  'shipment_events',
  'inbound_events',
  'inbound_packing_slip_events',
  'order_line_events',
  'stock_events',
];

/**
 * All tables that grow with time. They are pruned for every client, also for clients that are no
 * longer set up.
 */
export const pruneTargets: readonly PruneTarget[] = [
  makePruneTarget('sync.runs', (days) => sql`t.finished_at < ${toCutoff(days)}`),
  makePruneTarget(
    'fulfilment.outbox',
    (days) => sql`t.status in ('done', 'cancelled') and t.finished_at < ${toCutoff(days)}`,
  ),
  ...eventTables.map((name) =>
    makePruneTarget(`fulfilment.${name}`, (days) => sql`t.seen_at < ${toCutoff(days)}`),
  ),
  makePruneTarget('sync.quarantine', (days) => sql`t.last_seen_at < ${toCutoff(days)}`),
  makePruneTarget('sync.deliveries', (days) => sql`t.finished_at < ${toCutoff(days)}`),
  makePruneTarget('sync.gaps', (days) => sql`t.noticed_at < ${toCutoff(days)}`),
  makePruneTarget('sync.findings', (days) => sql`t.found_at < ${toCutoff(days)}`),
  // Reads that found nothing and that no run has tried again since, reads of what is no longer in
  // quarantine, and look-ups of shipments that are too old to be requested again.
  makePruneTarget(
    'sync.waiting_reads',
    (days) => sql`t.since < ${toCutoff(days)} and (
      t.reason = 'not_found' and t.next_at < ${toCutoff(days)}
      or t.reason = 'quarantined' and not exists (
        select from sync.quarantine q
        where q.client = t.client and q.stream = t.resource and q.resource_key = t.id::text)
      or t.resource = 'parcels' and t.since < ${toCutoff(120)})`,
  ),
  // The last rescan of each stream and kind is kept: the next one reads it.
  makePruneTarget(
    'sync.rescans',
    (days) => sql`t.finished_at < ${toCutoff(days)} and exists (
      select from sync.rescans l
      where l.client = t.client and l.stream = t.stream and l.kind = t.kind and l.outcome = 'done'
        and l.id > t.id)`,
  ),
  // Of clients that no worker has any more: nobody finds the end of these problems.
  makePruneTarget('sync.alerts', (days) => sql`t.seen_at < ${toCutoff(days)}`),
  // With their deliveries. After a long stop, a worker has an hour to register its receivers.
  makePruneTarget(
    'sync.receivers',
    () => sql`t.seen_at + interval '7 days' < (
      select max(r.finished_at) from sync.runs r where r.finished_at < now() - interval '1 hour')`,
  ),
  // A program repeats a request within minutes.
  makePruneTarget('sync.api_keys', () => sql`t.created_at < ${toCutoff(7)}`),
  makePruneTarget('sync.audit', (days) => sql`t.at < ${toCutoff(days)}`),
  feedTarget,
  makePruneTarget(
    'sync.rescanned_changes',
    () => sql`t.last_seq <= (select m.pruned_until from sync.feed_mark m)`,
  ),
];
