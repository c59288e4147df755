/**
 * Figures for charts (`sync.figures`). A roll-up counts what other tables recorded, so neither
 * pushes nor polls write here. It sets the figures of whole spans instead of adding to them: a
 * repeated roll-up counts nothing twice.
 */

import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { finishTurns, takeTurn } from '../../schedule/sql/turns.ts';

/**
 * The figures of a span are made again until this long after its end, for transactions that
 * committed late.
 */
const lateCommits = sql`interval '3 minutes'`;
/** Maximum span of one roll-up. After an outage, several roll-ups follow each other. */
const longestWindow = sql`interval '6 hours'`;
/** Figures that are older than this are not made: no chart shows them. */
const oldest = sql`interval '2 days'`;

/** SQL: the beginning of the span that a time belongs to. */
const toSpan = (time: ReturnType<typeof sql>) =>
  sql`date_bin('5 minutes', ${time}, timestamptz 'epoch')`;

/** The times that a roll-up reads: from the beginning of a span, as text with all digits. */
interface Window {
  readonly since: string;
  readonly until: string;
  /** Attempts of transactions since then have larger ids. */
  readonly attemptId: number;
  /** True if there is more to make after this roll-up. */
  readonly isBehind: boolean;
}

/**
 * Makes the figures since the last roll-up, if the last one is older than `intervalMs` and no other
 * worker makes them.
 * @returns whether there is more to make, so that it must be called again; null if there was
 *   nothing to do
 */
export async function rollUpFigures(db: Database, intervalMs: number) {
  return inTransaction(db, async (trx) => {
    const turn = await takeTurn(trx, { name: 'figures', scope: '' }, intervalMs);
    if (turn === null) return null;

    const window = await readWindow(trx);
    await countEvents(trx, window);
    if (!window.isBehind) await sampleAges(trx);

    await recordMark(trx, window);
    await finishTurns(trx, 'figures', [turn], window.isBehind ? 0 : intervalMs);
    return { isBehind: window.isBehind };
  });
}

/** Reads what is to be made now. */
async function readWindow(trx: Transaction<DB>): Promise<Window> {
  const { rows } = await sql<Window>`
    with last as (
      select max(at) as at, min(at) as first, clock_timestamp() as now
      from sync.figure_marks
    ), spans as (
      select l.now,
        ${toSpan(sql`greatest(l.first, l.at - ${lateCommits}, l.now - ${oldest})`)}
          as start
      from last l
    )
    select s.start::text as since, least(s.now, s.start + ${longestWindow})::text as until,
      coalesce((
        select m.attempt_id
        from sync.figure_marks m
        where m.at <= s.start
        order by m.at desc
        limit 1
      ), 0) as "attemptId",
      s.start + ${longestWindow} < s.now as "isBehind"
    from spans s`.execute(trx);

  return rows[0] as Window;
}

/** SQL: stores figures. Figures that are stored already with this value are not written. */
const store = sql`
  on conflict (client, at, measure, part) do update
  set value = excluded.value
  where sync.figures.value <> excluded.value`;

/**
 * Sets the figures of the spans in the window: rows that polls wrote, outcomes of attempts, and
 * times from insert to done. Each source has an index by time or number, so only its latest rows
 * are read. Clients that no worker has ever had are left out: the ERP may insert rows for any name.
 */
async function countEvents(
  trx: Transaction<DB>,
  { since, until, attemptId }: Window,
): Promise<void> {
  await sql`
    with events as (
      select r.client, ${toSpan(sql`r.finished_at`)} as at, 'rows' as measure,
        j.stream as part, sum(r.created + r.updated + r.removed)::float8 as value
      from sync.runs r
      join sync.jobs j on j.client = r.client and j.job = r.job and j.stream is not null
      where r.finished_at >= ${since}::timestamptz and r.finished_at < ${until}::timestamptz
      group by 1, 2, 4
      union all
      select o.client, ${toSpan(sql`a.at`)}, 'pushes', a.became, count(*)::float8
      from sync.outbox_attempts a
      join fulfilment.outbox o on o.id = a.outbox_id
      where a.id > ${attemptId} and a.at >= ${since}::timestamptz and a.at < ${until}::timestamptz
        and (a.step in ('sent', 'checked') or a.step = 'looked up' and a.became <> 'unknown')
      group by 1, 2, 4
      union all
      select o.client, ${toSpan(sql`o.finished_at`)}, 'waits',
        floor(4 * ln(greatest(1, 1000 * extract(epoch
          from o.finished_at - o.created_at)::float8)) / ln(2))::int::text,
        count(*)::float8
      from fulfilment.outbox o
      where o.finished_at >= ${since}::timestamptz and o.finished_at < ${until}::timestamptz
        and o.status = 'done'
      group by 1, 2, 4
    )
    insert into sync.figures (client, at, measure, part, value)
    select coalesce(e.client, ''), e.at, e.measure, e.part, sum(e.value)
    from events e
    join sync.clients c on c.client = e.client and c.client <> ''
    group by grouping sets ((e.client, e.at, e.measure, e.part), (e.at, e.measure, e.part))
    having sum(e.value) > 0
    ${store}`.execute(trx);
}

/** Stores the age of the oldest pending row. Of a span, the largest stays. */
async function sampleAges(trx: Transaction<DB>): Promise<void> {
  await sql`
    with ages as (
      select o.client, extract(epoch from now() - min(o.created_at))::float8 as value
      from fulfilment.outbox o
      join sync.clients c on c.client = o.client and c.client <> ''
      where o.status = 'pending'
      group by o.client
    )
    insert into sync.figures (client, at, measure, value)
    select coalesce(a.client, ''), ${toSpan(sql`now()`)}, 'oldest_pending', max(a.value)
    from ages a
    group by grouping sets ((a.client), ())
    having max(a.value) is not null
    on conflict (client, at, measure, part) do update
    set value = greatest(sync.figures.value, excluded.value)`.execute(trx);
}

/** Records up to where the figures are made. Deletes the marks that no later roll-up needs. */
async function recordMark(
  trx: Transaction<DB>,
  { since, until, attemptId, isBehind }: Window,
): Promise<void> {
  // The largest id that is visible now was given out before now. A mark in the past keeps the
  // former one.
  await sql`
    with gone as (
      delete from sync.figure_marks
      where at < (select max(m.at) from sync.figure_marks m where m.at <= ${since}::timestamptz)
    )
    insert into sync.figure_marks (at, attempt_id)
    select case when ${isBehind} then ${until}::timestamptz else clock_timestamp() end,
      case when ${isBehind} then ${attemptId}
        else coalesce((select max(a.id) from sync.outbox_attempts a), 0) end
    on conflict (at) do nothing`.execute(trx);
}
