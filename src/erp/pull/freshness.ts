import { type Kysely, sql } from 'kysely';
import type { StreamScope } from '../connection/stream-scope.ts';
import type { DB } from '../generated/tables.ts';

/** How far a stream has come, as far as it is known before a poll. */
export interface Freshness {
  /** Service's clock when the last complete poll began; null before the first. */
  readonly completeAt: Date | null;
  /** Resources a poll usually reads; null while too little is known. */
  readonly usualFetched: number | null;
}

/** The weight of one poll in what is usual. */
const weight = 0.1;

export async function readFreshness(db: Kysely<DB>, client: string, stream: string): Promise<Freshness> {
  const row = await db
    .selectFrom('sync.freshness')
    .select(['complete_at as completeAt', 'usual_fetched as usualFetched'])
    .where('client', '=', client)
    .where('stream', '=', stream)
    .executeTakeFirst();
  return row ?? { completeAt: null, usualFetched: null };
}

/** What a complete poll has learned. */
export interface PollEnd {
  /** Service's clock when it began. */
  readonly beganAt: Date;
  /** Newest date on any resource it received; null where there was none. */
  readonly newestSource: Date | null;
  readonly fetched: number;
}

/** Records a complete poll; what a first load fetched is not what is usual. */
export async function recordPoll(
  { trx, client, stream }: StreamScope,
  { beganAt, newestSource, fetched }: PollEnd,
): Promise<void> {
  const average = sql<number>`sync.freshness.usual_fetched * (1 - ${weight}::float8) + ${fetched} * ${weight}::float8`;
  const changes = {
    complete_at: sql<Date>`greatest(sync.freshness.complete_at, excluded.complete_at)`,
    newest_source_at: sql<Date | null>`greatest(sync.freshness.newest_source_at, excluded.newest_source_at)`,
    // An empty poll does not count. Otherwise the warning about empty polls would end by itself.
    ...(fetched === 0 ? {} : { usual_fetched: sql<number>`coalesce(${average}, ${fetched})` }),
  };
  await trx
    .insertInto('sync.freshness')
    .values({ client, stream, complete_at: beganAt, newest_source_at: newestSource })
    .onConflict((conflict) => conflict.columns(['client', 'stream']).doUpdateSet(changes))
    .execute();
}

/** Names a span that fell out of what the service lists before a poll had read it. */
export async function recordGap({ trx, client, stream }: StreamScope, from: Date, to: Date): Promise<void> {
  const later = sql<Date>`greatest(sync.gaps.to_at, excluded.to_at)`;
  await trx
    .insertInto('sync.gaps')
    .values({ client, stream, from_at: from, to_at: to })
    .onConflict((conflict) => conflict.columns(['client', 'stream', 'from_at']).doUpdateSet({ to_at: later }))
    .execute();
}
