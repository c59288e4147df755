/**
 * What polls remember between two runs: cursors, rows to be read again, absences, quarantine and freshness. All of it
 * is written in the transaction of the page that it follows from.
 */

import { type Kysely, sql } from 'kysely';
import type { StreamScope } from '../connection/stream-scope.ts';
import type { DB } from '../generated/tables.ts';

/** A walk over a list of a stream that keeps a cursor of its own; docs/streams.md says which stream has which. */
export type CursorPass = 'new' | 'placed' | 'processed' | 'completed';

/** What `page[cursor]` was seen to mean at this service; interface.md (Pagination) does not show it. */
export type CursorMeaning = 'unknown' | 'id' | 'offset' | 'opaque';

/** Where one walk over a list stands. */
export interface Cursor {
  /** Query with which the last page that held rows was asked. */
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  /** Largest date seen in a walk that is under way, YYYY-MM-DD. */
  readonly largestSeen: string | null;
  /** Largest date seen in a completed walk, YYYY-MM-DD. */
  readonly watermark: string | null;
  readonly completed: boolean;
  /** Whether it was last moved more than a day ago. */
  readonly stale: boolean;
}

const noCursor: Cursor = {
  query: null,
  meaning: 'unknown',
  lastId: null,
  largestSeen: null,
  watermark: null,
  completed: false,
  stale: false,
};

/** Reads where a walk stands; the beginning where it never ran. */
export async function readCursor(db: Kysely<DB>, client: string, stream: string, pass: CursorPass): Promise<Cursor> {
  const row = await db
    .selectFrom('sync.cursors')
    .selectAll()
    .select(sql<boolean>`updated_at < now() - interval '1 day'`.as('stale'))
    .where('client', '=', client)
    .where('stream', '=', stream)
    .where('pass', '=', pass)
    .executeTakeFirst();
  if (row === undefined) return noCursor;
  return {
    query: row.query,
    meaning: row.meaning as CursorMeaning,
    lastId: row.last_id,
    largestSeen: row.largest_seen,
    watermark: row.watermark,
    completed: row.completed_at !== null,
    stale: row.stale,
  };
}

const positionColumns = ['query', 'meaning', 'last_id', 'largest_seen', 'watermark'] as const;

/**
 * Stores where a walk stands, in the transaction of the page it stands on. A row that would not change is not written.
 * @param atEnd true where the walk just reached its end
 */
export async function saveCursor(
  { trx, client, stream }: StreamScope,
  pass: CursorPass,
  cursor: Cursor,
  atEnd: boolean,
): Promise<void> {
  const { query, meaning, lastId, largestSeen, watermark } = cursor;
  const position = { query, meaning, last_id: lastId, largest_seen: largestSeen, watermark };
  const completed = { completed_at: atEnd ? sql<Date>`now()` : null };
  await trx
    .insertInto('sync.cursors')
    .values({ client, stream, pass, ...position, ...completed })
    .onConflict((conflict) =>
      conflict
        .columns(['client', 'stream', 'pass'])
        .doUpdateSet({
          ...position,
          completed_at: sql<Date | null>`coalesce(excluded.completed_at, sync.cursors.completed_at)`,
          updated_at: sql<Date>`now()`,
        })
        .where((eb) =>
          eb.or([
            sql<boolean>`excluded.completed_at is not null and sync.cursors.completed_at is null`,
            ...positionColumns.map((column) =>
              eb(`sync.cursors.${column}`, 'is distinct from', sql.ref<string | number>(`excluded.${column}`)),
            ),
          ]),
        ),
    )
    .execute();
}
