import { sql } from 'kysely';
import type { Database } from '../../db/pool.ts';

/** The state of a client's outbox: rows by status, and the ages of the oldest rows. */
export interface OutboxStatus {
  /**
   * Null: all clients together that no worker has ever had. The ERP may insert rows for any number
   * of names.
   */
  readonly client: string | null;
  /** Without the planned ones. */
  readonly pending: number;
  /** Number of pending rows whose `not_before` is in the future. */
  readonly planned: number;
  readonly sending: number;
  readonly unknown: number;
  /** Number of unknown rows that only a person can decide. */
  readonly toDecide: number;
  /** Number of pending rows whose codes could not be checked: the settings cannot be read. */
  readonly settingsUnread: number;
  readonly dead: number;
  /** Number of clients whose rows are dead or undecided. */
  readonly stuckClients: number;
  readonly doneLastDay: number;
  /** Age of the oldest unfinished row that is not planned, whatever it waits for. */
  readonly oldestSeconds: number | null;
  /**
   * Age of the oldest unfinished row that needs no person: neither dead, undecided nor planned. It
   * counts from `not_before` if there is one.
   */
  readonly oldestMovingSeconds: number | null;
}

/**
 * Reads the state of the outbox of each client that a worker has had, and of all others together.
 * Counts done rows of the last day only.
 */
export async function readOutboxStatus(db: Database): Promise<OutboxStatus[]> {
  const { rows } = await sql<OutboxStatus>`
    with counted as (
      select o.client, o.status, count(*)::int as count, min(o.waits_from) as oldest,
        min(o.waits_from) filter (where o.status <> 'dead'
          and (o.status <> 'unknown' or o.next_attempt_at is not null)) as moving,
        count(*) filter (where o.next_attempt_at is null)::int as undated,
        count(*) filter (where o.last_code = 'settings_unread')::int as unread
      from (
        select client, next_attempt_at,
          case when status = 'pending' and last_error is not null then (
            select a.error_code
            from sync.outbox_attempts a
            where a.outbox_id = outbox.id
            order by a.id desc
            limit 1) end as last_code,
          case when status = 'pending' and not_before > now() then 'planned' else status end
            as status,
          -- A planned row waits from its day on.
          case when status <> 'pending' or not_before is null then created_at
            when not_before <= now() then greatest(created_at, not_before) end as waits_from
        from fulfilment.outbox
        where status in ('pending', 'sending', 'unknown', 'dead')
      ) o
      group by o.client, o.status
      union all
      select client, 'done', count(*)::int, null, null, 0, 0
      from fulfilment.outbox
      where finished_at > now() - interval '1 day' and status = 'done'
      group by client
    )
    select k.client,
      coalesce(sum(count) filter (where status = 'pending'), 0)::int as pending,
      coalesce(sum(count) filter (where status = 'planned'), 0)::int as planned,
      coalesce(sum(count) filter (where status = 'sending'), 0)::int as sending,
      coalesce(sum(count) filter (where status = 'unknown'), 0)::int as unknown,
      coalesce(sum(undated) filter (where status = 'unknown'), 0)::int as "toDecide",
      coalesce(sum(unread), 0)::int as "settingsUnread",
      coalesce(sum(count) filter (where status = 'dead'), 0)::int as dead,
      count(distinct c.client) filter (
        where status = 'dead' or status = 'unknown' and undated > 0)::int as "stuckClients",
      coalesce(sum(count) filter (where status = 'done'), 0)::int as "doneLastDay",
      extract(epoch from now() - min(oldest))::float8 as "oldestSeconds",
      extract(epoch from now() - min(moving))::float8 as "oldestMovingSeconds"
    from counted c
    left join sync.clients k on k.client = c.client
    group by k.client
    order by k.client nulls last`.execute(db);

  return rows;
}
