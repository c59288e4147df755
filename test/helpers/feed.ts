import type { Database } from '../../src/db/pool.ts';
import { numberChanges } from '../../src/pull/sql/feed.ts';

/** Moves all committed changes to the feed, as workers do. */
export async function numberFeed(db: Database): Promise<void> {
  while ((await numberChanges(db)).numbered !== 0);
}
