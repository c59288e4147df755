import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/**
 * Requests of one second that a process may send. The first may begin at its start, the others
 * follow evenly.
 */
export interface RequestQuota {
  readonly requests: number;
  /**
   * Milliseconds until the first may begin, from when the quota was taken; negative: it may begin
   * at once.
   */
  readonly startsInMs: number;
  /** Milliseconds until the second ends. What was not begun by then is lost. */
  readonly endsInMs: number;
}

/** The account whose service is asked, and the limit that all processes together keep. */
export interface RequestLimit {
  /** Fingerprint of the account. */
  readonly identity: string;
  readonly perSecond: number;
}

/**
 * Takes up to `wanted` requests from the next second that has some left. Each second has
 * `perSecond` slots of equal length, by the clock of the database. Slots that have passed are not
 * granted any more, so that requests do not gather at the end of a second.
 */
export async function takeRequests(
  db: Kysely<DB>,
  limit: RequestLimit,
  wanted: number,
): Promise<RequestQuota> {
  for (;;) {
    const quota = await takeStoredRequests(db, limit, wanted);
    if (quota !== undefined) return quota;

    const now = sql<Date>`clock_timestamp()`;
    await db
      .insertInto('sync.request_budgets')
      .values({ identity: limit.identity, next_at: sql<Date>`to_timestamp(0)`, taken_at: now })
      .onConflict((conflict) => conflict.column('identity').doNothing())
      .execute();
  }
}

/**
 * Takes requests of an account that has a row. The clock is read after the row is locked. If the
 * clock went back, the next slot goes back by the same time: nobody waits for a second that is far
 * ahead.
 */
async function takeStoredRequests(
  db: Kysely<DB>,
  { identity, perSecond }: RequestLimit,
  wanted: number,
): Promise<RequestQuota | undefined> {
  const { rows } = await sql<RequestQuota>`
    with stored as materialized (
      select next_at, taken_at
      from sync.request_budgets
      where identity = ${identity}
      for update
    ), clock as materialized (
      select *, clock_timestamp() as at
      from stored
    ), next as (
      select at, extract(epoch from at)::float8 as now, greatest(
        floor(extract(epoch from at)::float8 * ${perSecond}::int),
        round(extract(epoch from next_at - greatest(interval '0',
          taken_at - at))::float8 * ${perSecond}::int)) as slot
      from clock
    ), taken as (
      select *, least(${wanted}::int, ${perSecond}::int - slot::bigint % ${perSecond}::int)::int
        as requests
      from next
    ), kept as (
      update sync.request_budgets b
      set next_at = to_timestamp((slot + requests) / ${perSecond}::int), taken_at = at
      from taken
      where b.identity = ${identity}
    )
    select requests, (slot / ${perSecond}::int - now) * 1000 as "startsInMs",
      (floor(slot / ${perSecond}::int) + 1 - now) * 1000 as "endsInMs"
    from taken`.execute(db);
  return rows[0];
}
