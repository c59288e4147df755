import { type Kysely, sql } from 'kysely';
import type { StreamScope } from '../connection/stream-scope.ts';
import type { DB } from '../generated/tables.ts';
import type { Freshness } from '../runs/stored-stream.ts';

/** The share of one poll in the moving average of fetched resources. */
export const averageShare = 0.1;

/** Reads the freshness of a stream. Both values are null if it has no complete poll yet. */
export async function readFreshness(db: Kysely<DB>, client: string, stream: string): Promise<Freshness> {
  const row = await db
    .selectFrom('sync.freshness')
    .select(['complete_at as completeAt', 'usual_fetched as usualFetched'])
    .where('client', '=', client)
    .where('stream', '=', stream)
    .executeTakeFirst();
  return row ?? { completeAt: null, usualFetched: null };
}

/** The result of a complete poll. */
export interface PollEnd {
  /** Start of the poll, by the service's clock. */
  readonly beganAt: Date;
  /** Newest date on any resource that it received; null if there was none. */
  readonly newestSource: Date | null;
  readonly fetched: number;
}

/** Records a complete poll. The first one does not count for the usual number: a first load reads everything. */
export async function recordPoll(
  { trx, client, stream }: StreamScope,
  { beganAt, newestSource, fetched }: PollEnd,
): Promise<void> {
  const average = sql<number>`sync.freshness.usual_fetched * (1 - ${averageShare}::float8)
      + ${fetched} * ${averageShare}::float8`;
  const changes = {
    complete_at: sql<Date>`greatest(sync.freshness.complete_at, excluded.complete_at)`,
    newest_source_at: sql<Date | null>`greatest(sync.freshness.newest_source_at, excluded.newest_source_at)`,
    // An empty poll does not count for the average. Otherwise the warning about empty polls would end by itself.
    ...(fetched === 0 ? {} : { usual_fetched: sql<number>`coalesce(${average}, ${fetched})` }),
  };
  await trx
    .insertInto('sync.freshness')
    .values({ client, stream, complete_at: beganAt, newest_source_at: newestSource })
    .onConflict((conflict) => conflict.columns(['client', 'stream']).doUpdateSet(changes))
    .execute();
}

/** Records a gap: a span of days that the service no longer lists and that no poll had read. */
export async function recordGap({ trx, client, stream }: StreamScope, from: Date, to: Date): Promise<void> {
  const later = sql<Date>`greatest(sync.gaps.to_at, excluded.to_at)`;
  await trx
    .insertInto('sync.gaps')
    .values({ client, stream, from_at: from, to_at: to })
    .onConflict((conflict) => conflict.columns(['client', 'stream', 'from_at']).doUpdateSet({ to_at: later }))
    .execute();
}
