import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** Minimum rate in rows per second. One row in two seconds shows whether the limit is still in force. */
const minPerSecond = 0.5;
/** Rate in rows per second from which the limit is dropped. */
const unlimitedPerSecond = 500;
/** Growth of the rate in rows per second for each row that is sent. The rate grows by a tenth of itself per second. */
const growth = 0.1;
/** Share of the rows of one second that may be sent at once. */
const burst = 0.25;
/** Refusals within this span lower the rate once, because their rows were under way together. */
const loweringSpan = sql`interval '1 second'`;

/** The send rate of a client whose service refused rows with 429. */
export interface StoredRate {
  readonly client: string;
  readonly perSecond: number;
  readonly since: Date;
  /** Number of refusals since then. */
  readonly refused: number;
}

/** Reads the send rates of all clients that have one. */
export async function readRates(db: Kysely<DB>): Promise<StoredRate[]> {
  return db
    .selectFrom('sync.push_rates')
    .select(['client', 'per_second as perSecond', 'since', 'refused'])
    .orderBy('client')
    .execute();
}

/**
 * Lowers the send rate after a 429: all workers together send half as many rows per second from now on.
 * @param achieved rows that the service accepted from this worker in the last second; used if there is no rate yet
 */
export async function lowerRate(db: Kysely<DB>, client: string, achieved: number): Promise<void> {
  const now = sql<Date>`clock_timestamp()`;
  const isRecent = sql`sync.push_rates.lowered_at > ${now} - ${loweringSpan}`;
  const halved = sql<number>`greatest(${minPerSecond}::float8, sync.push_rates.per_second / 2)`;
  const changes = {
    refused: sql<number>`sync.push_rates.refused + 1`,
    per_second: sql<number>`case when ${isRecent} then sync.push_rates.per_second else ${halved} end`,
    lowered_at: sql<Date>`case when ${isRecent} then sync.push_rates.lowered_at else ${now} end`,
    allowance: 0,
    filled_at: now,
  };
  await db
    .insertInto('sync.push_rates')
    .values({ client, per_second: Math.max(minPerSecond, achieved / 2), allowance: 0, refused: 1 })
    .onConflict((conflict) => conflict.column('client').doUpdateSet(changes))
    .execute();
}

/** The rows that may be sent now for a client with a send rate. */
export interface Allowance {
  /** Number of rows, at most as many as the caller wanted. */
  readonly rows: number;
  /** Milliseconds until the next row may be sent. */
  readonly nextInMs: number;
}

/**
 * Takes up to `wanted` rows from the allowance that all workers share. The rate grows with each row.
 * @returns null if the client has no send rate, or no longer
 */
export async function takeAllowance(db: Kysely<DB>, client: string, wanted: number): Promise<Allowance | null> {
  const { rows } = await sql<Allowance>`
    with filled as materialized (
      select client, per_second,
        least(greatest(1, per_second * ${burst}::float8),
              allowance + per_second * extract(epoch from clock_timestamp() - filled_at)::float8) as allowance
      from sync.push_rates
      where client = ${client}
      for update
    ), taken as (
      select *, least(${wanted}::int, floor(greatest(0, allowance)))::int as rows
      from filled
    ), ended as (
      delete from sync.push_rates r
      using taken t
      where r.client = t.client and t.per_second >= ${unlimitedPerSecond}
      returning 1
    ), kept as (
      update sync.push_rates r
      set allowance = t.allowance - t.rows, filled_at = clock_timestamp(),
        per_second = t.per_second + ${growth}::float8 * t.rows
      from taken t
      where r.client = t.client and t.per_second < ${unlimitedPerSecond}
    )
    select rows, greatest(0, (1 - (allowance - rows)) / per_second * 1000) as "nextInMs"
    from taken
    where not exists (select from ended)`.execute(db);
  return rows[0] ?? null;
}

/** Gives back the allowance that was taken but not used for a row. */
export async function returnAllowance(db: Kysely<DB>, client: string, rows: number): Promise<void> {
  await db
    .updateTable('sync.push_rates')
    .set((eb) => ({
      allowance: eb('allowance', '+', rows),
      per_second: sql<number>`greatest(${minPerSecond}::float8, per_second - ${growth}::float8 * ${rows}::int)`,
    }))
    .where('client', '=', client)
    .execute();
}
