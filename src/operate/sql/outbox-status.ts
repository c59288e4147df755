import { sql } from 'kysely';
import type { Database } from '../../db/pool.ts';

/** The state of a client's outbox: rows by status, and the ages of the oldest rows. */
export interface OutboxStatus {
  /**
   * Null: all clients together that no worker has ever had. The ERP may insert rows for any number
   * of names.
   */
  readonly client: string | null;
  readonly pending: number;
  readonly sending: number;
  readonly unknown: number;
  /** Number of unknown rows that only a person can decide. */
  readonly toDecide: number;
  readonly dead: number;
  /** Number of clients whose rows are dead or undecided. */
  readonly stuckClients: number;
  readonly doneLastDay: number;
  /** Age of the oldest unfinished row, whatever it waits for. */
  readonly oldestSeconds: number | null;
  /**
   * Age of the oldest unfinished row that needs no person: neither dead nor undecided. It counts
   * from `not_before` if there is one, so it may be negative.
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
      select client, status, count(*)::int as count, min(created_at) as oldest,
        min(greatest(created_at, not_before)) filter (where status <> 'dead'
          and (status <> 'unknown' or next_attempt_at is not null)) as moving,
        count(*) filter (where next_attempt_at is null)::int as undated
      from fulfilment.outbox
      where status in ('pending', 'sending', 'unknown', 'dead')
      group by client, status
      union all
      select client, 'done', count(*)::int, null, null, 0
      from fulfilment.outbox
      where finished_at > now() - interval '1 day' and status = 'done'
      group by client
    )
    select k.client,
      coalesce(sum(count) filter (where status = 'pending'), 0)::int as pending,
      coalesce(sum(count) filter (where status = 'sending'), 0)::int as sending,
      coalesce(sum(count) filter (where status = 'unknown'), 0)::int as unknown,
      coalesce(sum(undated) filter (where status = 'unknown'), 0)::int as "toDecide",
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
