import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/**
 * SQL: the states of rows that block the rows behind them in their lane, as in the partial index
 * outbox_lanes.
 */
export const unfinishedStatuses = sql`('pending', 'sending', 'unknown', 'dead')`;

/**
 * SQL: true if a row of the outbox has failed, and its kind lets others pass then.
 * @param row alias of the row
 * @param behind SQL of the kind of the row that would pass; by default any
 */
export function letsPass(row: string, behind?: RawBuilder<string>): RawBuilder<boolean> {
  const passing =
    behind === undefined ? sql`k.overtaken_by <> '{}'` : sql`${behind} = any(k.overtaken_by)`;
  const column = (name: string) => sql.ref(`${row}.${name}`);

  return sql`((${column('status')} = 'dead'
      or ${column('status')} = 'unknown' and ${column('next_attempt_at')} is null)
    and exists (select from sync.outbox_kinds k where k.kind = ${column('kind')} and ${passing}))`;
}

/**
 * SQL: true if row `o` of the outbox must wait for another row of its lane: an earlier one that is
 * unfinished, or a later one that is under way. A row that was committed late may have a smaller id
 * than one that is under way already.
 */
export const isBlocked = sql<boolean>`exists (
      select from fulfilment.outbox b
      where b.client = o.client and b.family = o.family and b.reference = o.reference
        and b.id < o.id and b.status in ${unfinishedStatuses} and not ${letsPass('b', sql`o.kind`)}
      union all
      select from fulfilment.outbox b
      where b.client = o.client and b.family = o.family and b.reference = o.reference
        and b.id > o.id and b.status in ('sending', 'unknown')
        and not ${letsPass('b', sql`o.kind`)})`;

/** A lane: its rows are sent one after the other. */
export interface Lane {
  readonly client: string;
  readonly family: string;
  readonly reference: string;
}

/** A lane that one of its rows does not hold any more. */
export interface FreedLane extends Lane {
  /** When that row was finished, as Postgres writes it; null: it is not known. */
  readonly freedAt: string | null;
}

/** What the release of lanes did. */
export interface ReleasedLanes {
  /** Number of first rows that were due already. */
  readonly due: number;
  /** Number of first rows that a claim had postponed, and that are due now. */
  readonly released: number;
  /** Lanes whose first row somebody has locked. Release them again. */
  readonly locked: readonly FreedLane[];
}

const noLanes: ReleasedLanes = { due: 0, released: 0, locked: [] };

/**
 * Makes due the first row of each lane, without failed rows that let others pass. Skips locked
 * rows. Call it in the transaction that frees the lanes, and again after its commit: a claim that
 * ran meanwhile has postponed the row, because it still saw the row before it. A row that was tried
 * since then waits for its next try, so it stays as it is.
 * @param lanes one without `freedAt` is freed by this transaction
 */
export async function releaseLanes(
  db: Kysely<DB>,
  lanes: readonly (Lane | FreedLane)[],
): Promise<ReleasedLanes> {
  if (lanes.length === 0) return noLanes;
  const { rows } = await sql<FreedLane & { state: 'due' | 'released' | 'locked' }>`
    with heads as materialized (
      select h.id, l.client, l.family, l.reference, l.freed_at,
        h.next_attempt_at <= clock_timestamp() as is_due
      from (
        select n.client, n.family, n.reference,
          max(coalesce(n."freedAt", 'infinity')) as freed_at
        from json_to_recordset(${JSON.stringify(lanes)}::json)
          as n (client text, family text, reference text, "freedAt" timestamptz)
        group by 1, 2, 3
      ) l
      cross join lateral (
        select b.id, b.status, b.next_attempt_at
        from fulfilment.outbox b
        where b.client = l.client and b.family = l.family and b.reference = l.reference
          and b.status in ${unfinishedStatuses}
          and not ${letsPass('b')}
        order by b.id
        limit 1
      ) h
      where h.status = 'pending' and not exists (
        select from sync.outbox_attempts a
        where a.outbox_id = h.id and a.at > l.freed_at)
    ), free as materialized (
      -- They are found by their id, and their state is compared outside, as in claim-rows.ts.
      select o.id, heads.is_due
      from heads
      cross join lateral (
        select b.id, b.status
        from fulfilment.outbox b
        where b.id = heads.id and b.next_attempt_at is not null
        limit 1
        for no key update of b skip locked
      ) o
      where o.status = 'pending'
    ), released as (
      update fulfilment.outbox o
      set next_attempt_at = clock_timestamp()
      from free
      where o.id = free.id and not free.is_due
    )
    -- A claim that has locked a due row may postpone it: it still sees the row before it.
    select client, family, reference, freed_at::text as "freedAt",
      case when id not in (select id from free) then 'locked'
        when is_due then 'due' else 'released' end as state
    from heads`.execute(db);
  const find = (state: string) => rows.filter((row) => row.state === state);
  return { due: find('due').length, released: find('released').length, locked: find('locked') };
}

/** Finds the lanes of rows that do not hold them any more. */
export async function findFreedLanes(
  db: Kysely<DB>,
  outboxIds: readonly number[],
): Promise<FreedLane[]> {
  if (outboxIds.length === 0) return [];
  const { rows } = await sql<FreedLane>`
    select distinct o.client, o.family, o.reference, coalesce(o.finished_at, (
        select max(a.at)
        from sync.outbox_attempts a
        where a.outbox_id = o.id))::text as "freedAt"
    from unnest(${outboxIds}::bigint[]) as i (id)
    -- One by one: as a join, a plan that expects few rows would read the whole outbox.
    cross join lateral (
      select b.id, b.client, b.family, b.reference, b.kind, b.status, b.next_attempt_at,
        b.finished_at
      from fulfilment.outbox b
      where b.id = i.id
      limit 1
    ) o
    where o.status in ('done', 'cancelled') or ${letsPass('o')}`.execute(db);
  return rows;
}
