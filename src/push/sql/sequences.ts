/**
 * Sequences of our tables. After a logical replication they stand at 1, and after a failover they
 * may be behind what was given out: numbers would be given out twice.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';

/** Numbers that are left out above the largest one in use: those that were lost with a standby. */
const gap = 1_000_000;

/** A sequence, and SQL of the largest number of it that our tables hold. */
interface UsedSequence {
  readonly name: string;
  readonly largest: string;
}

/** Lists all sequences of our schemas, with every column that holds a number of them. */
async function listSequences(db: Kysely<DB>): Promise<UsedSequence[]> {
  const { rows } = await sql<UsedSequence>`
    with columns as (
      select a.attname, a.attrelid::regclass::text as name
      from pg_attribute a
      join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
      where c.relnamespace in (select oid from pg_namespace where nspname in ('fulfilment', 'sync'))
        and a.attnum > 0 and not a.attisdropped
    ),
    used as (
      select coalesce(pg_get_serial_sequence(c.name, c.attname), r.sequence) as sequence,
        format('(select max(%I) from %s)', c.attname, c.name) as largest
      from columns c
      left join (values ('read_no', 'sync.read_no'), ('claim_no', 'sync.read_no'),
        ('asked_no', 'sync.read_no'), ('outbox_id', 'fulfilment.outbox_id_seq'),
        ('seq', 'fulfilment.changes_seq_seq'), ('last_seq', 'fulfilment.changes_seq_seq'),
        ('pruned_until', 'fulfilment.changes_seq_seq')) as r (attname, sequence)
        on r.attname = c.attname
      union
      values ('fulfilment.outbox_id_seq',
          '(select max(id) from fulfilment.changes where entity = ''outbox'')'),
        ('fulfilment.outbox_id_seq',
          '(select max(id) from sync.new_changes where entity = ''outbox'')'),
        ('fulfilment.outbox_id_seq', '(select max(i) from sync.audit, unnest(outbox_ids) as i)')
    )
    select u.sequence as name,
      'greatest(0, ' || string_agg(u.largest, ', ' order by u.largest) || ')' as largest
    from used u
    where u.sequence is not null
    group by u.sequence
    order by u.sequence`.execute(db);
  return rows;
}

const lastValue = (name: string) =>
  sql`coalesce(pg_sequence_last_value(${name}::text::regclass), 0)`;

/**
 * Raises every sequence above all numbers that our tables hold, and leaves a gap. Records the gap
 * in the feed: a reader that has read up to there has read entries of the former database.
 */
export async function raiseSequences(trx: Transaction<DB>): Promise<void> {
  // Until the commit, nobody gives out numbers of the feed.
  await lockName(trx, 'feed');

  for (const { name, largest } of await listSequences(trx))
    await sql`
      select setval(${name}::text::regclass,
        greatest(${sql.raw(largest)}, ${lastValue(name)}) + ${gap})`.execute(trx);

  const until = lastValue('fulfilment.changes_seq_seq');
  await sql`
    update sync.feed_mark
    set unused_from = ${until} - ${gap}, unused_until = ${until}`.execute(trx);
}

/** Finds the sequences that would give out numbers which a table has already. */
export async function findSequencesBehind(db: Kysely<DB>): Promise<string[]> {
  const behind: string[] = [];

  for (const { name, largest } of await listSequences(db)) {
    const { rows } = await sql`
      select
      where ${sql.raw(largest)} > ${lastValue(name)}`.execute(db);
    if (rows.length > 0) behind.push(name);
  }
  return behind;
}
