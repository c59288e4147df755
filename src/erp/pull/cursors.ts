/**
 * The state that polls keep between two runs: cursors, rereads, absences, quarantine and freshness. It is written in
 * the transaction of the page that it results from.
 */

import { sql } from 'kysely';
import { anyText } from '../connection/values.ts';
import type { Cursor, CursorPass } from '../runs/start-run.ts';
import type { StreamTransaction } from '../runs/stream-transaction.ts';

/** The cursor of a pass that never ran. */
export const noCursor: Cursor = {
  query: null,
  meaning: 'unknown',
  lastId: null,
  largestSeen: null,
  watermark: null,
  completed: false,
  stale: false,
};

const positionColumns = ['query', 'meaning', 'last_id', 'largest_seen', 'watermark'] as const;

/**
 * Stores the cursor of a pass, in the transaction of the page that it points to. An unchanged cursor is not written.
 * @param atEnd true if the walk just reached its end
 */
export async function saveCursor(
  { trx, client, stream }: StreamTransaction,
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

/** Deletes the cursors of walks that are over. */
export async function deleteCursors(
  { trx, client, stream }: StreamTransaction,
  passes: readonly CursorPass[],
): Promise<void> {
  await trx
    .deleteFrom('sync.cursors')
    .where('client', '=', client)
    .where('stream', '=', stream)
    .where('pass', '=', anyText(passes))
    .execute();
}
