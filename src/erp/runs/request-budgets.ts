import { type Kysely, sql } from 'kysely';
import type { RequestQuota } from '../../core/request-quota.ts';
import type { DB } from '../generated/tables.ts';

/** The account whose service is asked, and the limit that all processes together keep. */
export interface RequestLimit {
  /** Fingerprint of the account. */
  readonly identity: string;
  readonly perSecond: number;
}

/**
 * Takes up to `wanted` requests from the next second that has some left. Each second has `perSecond` slots of equal
 * length, by the clock of the database. Slots that have passed are not granted any more, so that requests do not gather
 * at the end of a second. If the clock went back, the second goes back by the same time: nobody waits for a second that
 * is far ahead.
 */
export async function takeRequests(
  db: Kysely<DB>,
  { identity, perSecond }: RequestLimit,
  wanted: number,
): Promise<RequestQuota> {
  const share = await takeStoredRequests(db, { identity, perSecond }, wanted);
  if (share !== undefined) return share;
  const now = sql<Date>`clock_timestamp()`;
  await db
    .insertInto('sync.request_budgets')
    .values({ identity, second: sql<Date>`date_trunc('second', ${now})`, granted: 0, taken_at: now })
    .onConflict((conflict) => conflict.column('identity').doNothing())
    .execute();
  const first = await takeStoredRequests(db, { identity, perSecond }, wanted);
  if (first === undefined) throw new TypeError('the budget of an account was removed while requests were taken');
  return first;
}

/** Takes requests of an account that has a row. The clock is read after the row is locked. */
async function takeStoredRequests(
  db: Kysely<DB>,
  { identity, perSecond }: RequestLimit,
  wanted: number,
): Promise<RequestQuota | undefined> {
  const { rows } = await sql<RequestQuota>`
    with stored as materialized (
      select identity, second, granted, taken_at
      from sync.request_budgets
      where identity = ${identity}
      for update
    ), timed as materialized (
      select s.*, clock_timestamp() as at
      from stored s
    ), steady as (
      select identity, granted, at, date_trunc('second', at) as this_second,
        floor(extract(epoch from at - date_trunc('second', at)) * ${perSecond}::int)::int as passed,
        second - make_interval(secs => round(greatest(0, extract(epoch from taken_at - at)))::int) as second
      from timed
    ), present as (
      select identity, at, greatest(second, this_second) as second,
        case
          when second > this_second then granted
          when second = this_second then greatest(granted, passed)
          else passed
        end as granted
      from steady
    ), open as (
      select identity, at,
        case when granted < ${perSecond}::int then second else second + interval '1 second' end as second,
        case when granted < ${perSecond}::int then granted else 0 end as granted
      from present
    ), taken as materialized (
      select *, least(${wanted}::int, ${perSecond}::int - granted) as requests
      from open
    ), kept as (
      update sync.request_budgets b
      set second = t.second, granted = t.granted + t.requests, taken_at = t.at
      from taken t
      where b.identity = t.identity
    )
    select requests,
      (extract(epoch from second - at) * 1000 + granted * 1000.0 / ${perSecond}::int)::float8 as "startsInMs",
      (extract(epoch from second - at) * 1000 + 1000)::float8 as "endsInMs"
    from taken`.execute(db);
  return rows[0];
}
