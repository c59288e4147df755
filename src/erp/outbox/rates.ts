import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** The slowest rate: a row in two seconds finds out whether a limit is still there. */
const slowest = 0.5;
/** Beyond this many rows a second there is no limit worth keeping to. */
const unlimited = 500;
/** What each row that is sent adds to the rows a second: a tenth more in a second, whatever the rate is. */
const growth = 0.1;
/** How much of a second's rows may be sent in one go. */
const burst = 0.25;
/** Refusals of rows that were under way together lower the rate once. */
const onceIn = sql`interval '1 second'`;

/** How fast rows of a client are sent, whose service refused some with 429. */
export interface StoredRate {
  readonly client: string;
  readonly perSecond: number;
  readonly since: Date;
  /** Refusals since then. */
  readonly refused: number;
}

/** The rates of all clients that have one. */
export async function readRates(db: Kysely<DB>): Promise<StoredRate[]> {
  return db
    .selectFrom('sync.push_rates')
    .select(['client', 'per_second as perSecond', 'since', 'refused'])
    .orderBy('client')
    .execute();
}

/**
 * Notes a 429: all workers together send half as many rows a second from now on.
 * @param achieved rows a second that this worker got through in the last second, where no rate is kept yet
 */
export async function lowerRate(db: Kysely<DB>, client: string, achieved: number): Promise<void> {
  const now = sql<Date>`clock_timestamp()`;
  const isRecent = sql`sync.push_rates.lowered_at > ${now} - ${onceIn}`;
  const halved = sql<number>`greatest(${slowest}::float8, sync.push_rates.per_second / 2)`;
  const changes = {
    refused: sql<number>`sync.push_rates.refused + 1`,
    per_second: sql<number>`case when ${isRecent} then sync.push_rates.per_second else ${halved} end`,
    lowered_at: sql<Date>`case when ${isRecent} then sync.push_rates.lowered_at else ${now} end`,
    allowance: 0,
    filled_at: now,
  };
  await db
    .insertInto('sync.push_rates')
    .values({ client, per_second: Math.max(slowest, achieved / 2), allowance: 0, refused: 1 })
    .onConflict((conflict) => conflict.column('client').doUpdateSet(changes))
    .execute();
}

/** What may be sent of a client whose rate is limited. */
export interface Allowance {
  /** Rows, at most as many as were asked for. */
  readonly rows: number;
  /** When the next one may be. */
  readonly nextInMs: number;
}

/**
 * Takes up to `wanted` rows from what all workers together may send now. The rate grows with each.
 * @returns null where no rate is kept (any more)
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
      where r.client = t.client and t.per_second >= ${unlimited}
      returning 1
    ), kept as (
      update sync.push_rates r
      set allowance = t.allowance - t.rows, filled_at = clock_timestamp(),
        per_second = t.per_second + ${growth}::float8 * t.rows
      from taken t
      where r.client = t.client and t.per_second < ${unlimited}
    )
    select rows, greatest(0, (1 - (allowance - rows)) / per_second * 1000) as "nextInMs"
    from taken
    where not exists (select from ended)`.execute(db);
  return rows[0] ?? null;
}

/** Gives back what was taken and for which there was no row. */
export async function returnAllowance(db: Kysely<DB>, client: string, rows: number): Promise<void> {
  await db
    .updateTable('sync.push_rates')
    .set((eb) => ({
      allowance: eb('allowance', '+', rows),
      per_second: sql<number>`greatest(${slowest}::float8, per_second - ${growth}::float8 * ${rows}::int)`,
    }))
    .where('client', '=', client)
    .execute();
}
