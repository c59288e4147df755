import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { lockingCte, selectLocked } from '../../db/transaction.ts';
import { anyClient, anyText } from '../../db/values.ts';
import type { Counts } from '../../schedule/run.ts';
import {
  type Cursor,
  type CursorPass,
  otherReadersExist,
  type Run,
  waitingReadsExist,
} from '../../schedule/sql/ledger.ts';
import type { Change } from './feed.ts';
import { rowSet } from './mirror-tables.ts';

/**
 * A transaction that writes for one stream of one client. Everything that a page writes takes it.
 */
export interface StreamTransaction {
  readonly trx: Transaction<DB>;
  readonly client: string;
  /** Name of the stream. */
  readonly stream: string;
}

/**
 * A StreamTransaction of a run: it commits only while the run holds its lease. The changes that
 * are added to it become entries of the feed when all else is written, and are counted.
 */
export interface RunTransaction extends StreamTransaction {
  readonly run: Run;
  readonly addChanges: (changes: readonly Change[]) => void;
  /** Adds to the counts of the run, and replaces those of the changes. */
  readonly count: (counts: Counts) => void;
}

/** A resource with the number of the reading that it comes from. */
export interface NumberedReading {
  readonly id: number;
  readonly readNo: number;
}

/** SQL: resources with the numbers of their readings, as rows named i. */
export const readingSet = (read: readonly NumberedReading[]) =>
  rowSet({ id: 'bigint', readNo: 'bigint' }, read);

/** What a reader learns when it enters a stream. */
export interface StreamEntry {
  /** True if another reader holds a lease: it may write an older reading later. */
  readonly hasOtherReaders: boolean;
  /** True if a resource of the stream may wait to be read, or be in quarantine. */
  readonly hasWaitingReads: boolean;
}

/** Locks the stream until the transaction ends, so that its readers commit one after the other. */
export async function enterStream({
  trx,
  client,
  stream,
  run: { lease },
}: RunTransaction): Promise<StreamEntry> {
  const name = streamLock(client, stream);
  const enter = sql<StreamEntry>`
    with ${lockingCte(name)}
    select ${otherReadersExist(anyClient(client), lease.name, stream)} as "hasOtherReaders",
      ${waitingReadsExist(anyClient(client), stream)} as "hasWaitingReads"
    from locked`;
  const { hasOtherReaders, hasWaitingReads } = await selectLocked(trx, name, enter);

  // The statement read all of this before it had the lock. Another reader may have changed it
  // meanwhile.
  return { hasOtherReaders, hasWaitingReads: hasWaitingReads || hasOtherReaders };
}

/**
 * Locks the stream until the transaction ends, so that no reader commits in the middle of a
 * settlement of pushes.
 * @returns the reading number for what the settlement writes. Readers that asked before the pushes
 *   were answered have smaller numbers.
 */
export async function lockStream({ trx, client, stream }: StreamTransaction): Promise<number> {
  const name = streamLock(client, stream);
  // The number is drawn only when the name is locked.
  const draw = sql<{
    readNo: number;
  }>`with ${lockingCte(name)} select nextval('sync.read_no') as "readNo" from locked`;
  return (await selectLocked(trx, name, draw)).readNo;
}

const streamLock = (client: string, stream: string) => `rows ${client} ${stream}`;

/**
 * Records that these rows were found unchanged, each by its own reading. Such rows are not written,
 * so they do not show when they were last seen. If a poll and a rescan read one stream at the same
 * time, an older reading could then overwrite what a newer one found unchanged. While a stream has
 * one reader, nothing needs to be recorded.
 */
export async function recordConfirmations(
  { trx, client, stream }: StreamTransaction,
  found: readonly NumberedReading[],
): Promise<void> {
  if (found.length === 0) return;
  await sql`
    insert into sync.confirmations (client, stream, read_no, ids)
    select ${client}, ${stream}, i."readNo", array_agg(i.id)
    from ${readingSet(found)}
    group by i."readNo"`.execute(trx);
}

/** SQL: true if a reading newer than `readNo` found the row unchanged. */
export function isConfirmedSince(
  client: string,
  stream: string,
  readNo: number | RawBuilder<unknown>,
  id: RawBuilder<unknown>,
) {
  return sql`exists (
    select from sync.confirmations c
    where c.client = ${anyClient(client)} and c.stream = ${stream} and c.read_no > ${readNo}
      and ${id} = any(c.ids))`;
}

/** Draws the number of a reading. Call it before the request is sent. */
export async function drawReadNo(db: Kysely<DB>): Promise<number> {
  const { readNo } = await db
    .selectNoFrom(sql<number>`nextval('sync.read_no')`.as('readNo'))
    .executeTakeFirstOrThrow();
  return readNo;
}

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

/**
 * Stores the cursor of a pass, in the transaction of the page that it points to.
 * @param atEnd true if the walk just reached its end
 */
export async function saveCursor(
  { trx, client, stream }: StreamTransaction,
  pass: CursorPass,
  cursor: Cursor,
  atEnd: boolean,
): Promise<void> {
  const { query, meaning, lastId, largestSeen, watermark } = cursor;
  const place = { query, meaning, last_id: lastId, largest_seen: largestSeen, watermark };
  const completedAt = { completed_at: sql<Date>`now()` };

  await trx
    .insertInto('sync.cursors')
    .values({ client, stream, pass, ...place, ...(atEnd && completedAt) })
    .onConflict((conflict) =>
      conflict
        .columns(['client', 'stream', 'pass'])
        .doUpdateSet({ ...place, ...(atEnd && completedAt), updated_at: sql<Date>`now()` }),
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
