/**
 * One poll of any stream, and the passes of which the polls of the streams are made: `readNew`,
 * `readOpen`, `readWindow` (src/pull/read-window.ts) and `readWaiting`.
 */

import { dayMs } from '../core/time.ts';
import {
  mayHaveWaitingReads,
  type RunContext,
  readStored,
  throwFirst,
  warn,
} from '../schedule/run.ts';
import type { Cursor, CursorPass } from '../schedule/sql/ledger.ts';
import type { QueryParameters } from '../service/transport/query.ts';
import { commitReading, unlist } from './commit.ts';
import { readByIds, readsPerPoll } from './read-by-ids.ts';
import { noCursor, saveCursor } from './sql/stream-transaction.ts';
import { findDueReads, findStillOpen, type OpenKind } from './sql/waiting-reads.ts';
import { type MakePass, type Stream, type StreamContext, toPullContext } from './stream.ts';
import { readIds, type WalkedPage } from './walk.ts';
import { isErrorOfOnePass, type StreamPage, walkList } from './walk-list.ts';

/** An empty poll is a warning if a poll usually fetches at least this number of resources. */
const minUsualFetched = 5;

/**
 * Polls a stream. If all passes succeed, records how fresh the stream is, and a gap if the service
 * no longer lists days that no poll has read. Warns if the poll fetched nothing, but usually
 * fetches some.
 * @throws the first error of a pass; further ones become warnings
 */
export async function pollStream(runContext: RunContext, stream: Stream): Promise<void> {
  const context = toPullContext(runContext, stream);
  const { state, run } = context;
  const { completeAt, usualFetched } = readStored(context);

  const failures: unknown[] = [];
  const makePass: MakePass = async (pass) => {
    try {
      return await pass();
    } catch (error) {
      if (!isErrorOfOnePass(error)) throw error;
      failures.push(error);
      return null;
    }
  };
  await stream.poll(context, makePass);
  throwFirst(context, failures);

  if (state.totals.fetched === 0 && (usualFetched ?? 0) >= minUsualFetched)
    warn(
      context,
      `fetched nothing; a poll usually fetches ${Math.round(usualFetched ?? 0)} resources`,
    );

  const { firstMs, newestSourceMs } = state.service;
  const beganAt = new Date(firstMs ?? run.startedAt.getTime());
  const newestSource = newestSourceMs === null ? null : new Date(newestSourceMs);
  const gap = findGap(completeAt, beganAt, stream.rescan.horizonDays);
  state.end.poll = { stream: stream.name, beganAt, newestSource, gap };
}

/** Returns the span since the last complete poll that the service no longer lists; else null. */
function findGap(completeAt: Date | null, beganAt: Date, horizonDays: number | null) {
  if (completeAt === null || horizonDays === null) return null;
  const listedSince = new Date(beganAt.getTime() - horizonDays * dayMs);

  return completeAt < listedSince ? { from: completeAt, to: listedSince } : null;
}

/**
 * Reads what was added at the end of a list in ascending order of id: from the stored cursor to its
 * end. Stores the cursor with each page.
 */
export async function readNew(context: StreamContext): Promise<{ readonly isFirstLoad: boolean }> {
  const start = readStored(context).cursors.get('new') ?? noCursor;
  let cursor = start;

  await walkList(context, { parameters: {}, start }, async (walked) => {
    const { page, query, meaning, lastId, atEnd } = walked;
    warnOfWalk(context, 'new', walked);

    // An empty page does not move the cursor: it stays at the last page with rows.
    const moved = lastId === null ? { ...cursor, meaning } : { ...cursor, query, meaning, lastId };
    await commitWithCursor(context, page, { pass: 'new', from: cursor, to: moved, atEnd });

    cursor = { ...moved, completed: moved.completed || atEnd };
  });

  return { isFirstLoad: !start.completed };
}

/** The result of a walk without a cursor. */
export interface WholeWalk {
  readonly ids: ReadonlySet<number>;
  /** False if the only page was full and had no next link: the list may have more rows. */
  readonly whole: boolean;
  /** Number of the first reading. */
  readonly readNo: number;
}

/**
 * Reads the rows that may still change.
 * @throws WarehouseError if the walk does not reach the end
 */
export const readOpen = (context: StreamContext, { statuses }: OpenKind): Promise<WholeWalk> =>
  readWhole(context, 'open', { 'filter[status][in]': statuses });

/**
 * Reads a whole list from its start, without a cursor.
 * @param pass its name in warnings; null: a full page is no warning
 * @throws WarehouseError if the walk does not reach the end
 */
export async function readWhole(
  context: StreamContext,
  pass: string | null,
  parameters: QueryParameters,
): Promise<WholeWalk> {
  // What walks of other lists of the stream learned of its links holds for this list, too.
  const cursors = [...(context.run.stored?.cursors.values() ?? [])];
  const learned = cursors.find(({ meaning }) => meaning !== 'unknown') ?? noCursor;
  const start = { ...noCursor, meaning: learned.meaning };

  const ids = new Set<number>();
  let whole = true;
  let readNo = Number.POSITIVE_INFINITY;
  await walkList(context, { parameters, start }, async (walked) => {
    const { page, full } = walked;
    if (pass !== null) warnOfWalk(context, pass, walked);
    whole &&= !full;
    readNo = Math.min(readNo, page.readNo);
    await commitReading(context, page);
    for (const id of readIds(page.data)) ids.add(id);
  });

  return { ids, whole, readNo };
}

/** What `readWaiting` reads. */
interface WaitingOptions {
  /** True: reads everything that is due; else a part, so that a poll is cheap. */
  readonly isFirstLoad: boolean;
  /**
   * The list of open rows, and the ids of rows that it lacks although they are open here: they are
   * read, too. Rows that are still open are postponed then, and those that the service does not
   * know are marked as unlisted. Absent: the stream has no such list.
   */
  readonly open?: {
    readonly kind: OpenKind;
    readonly listed: ReadonlySet<number>;
    readonly unlisted: readonly number[];
  };
}

/** Reads by id what waits and is due, and the open rows that no list shows, each in turn. */
export async function readWaiting(
  context: StreamContext,
  { isFirstLoad, open }: WaitingOptions,
): Promise<void> {
  const { client, db, stream } = context;
  const limit = isFirstLoad ? null : readsPerPoll;
  const due = mayHaveWaitingReads(context)
    ? await findDueReads(db, client, stream.name, { limit })
    : [];
  const ids = interleave(
    due.map(({ id }) => id),
    open?.unlisted ?? [],
  );

  if (ids.length === 0) return;

  await readByIds(context, limit === null ? ids : ids.slice(0, limit), {
    write: async (transaction, { unlisted, readNo }) => {
      if (open !== undefined) await unlist(transaction, stream, unlisted, readNo);
    },
    findStillOpen: async ({ trx }, read) => {
      if (open === undefined) return [];
      const unlisted = read.filter((id) => !open.listed.has(id));
      return findStillOpen(trx, client, open.kind, unlisted);
    },
  });
}

/** Takes ids from two lists in turn, so that a long list does not delay the other. */
function interleave(some: readonly number[], others: readonly number[]): number[] {
  const longest = Math.max(some.length, others.length);
  const inTurn = Array.from({ length: longest }, (_, place) => [some[place], others[place]]);
  return [...new Set(inTurn.flat())].filter((id) => id !== undefined);
}

/** The cursor of a pass before and after a page. */
interface CursorMove {
  readonly pass: CursorPass;
  readonly from: Cursor;
  readonly to: Cursor;
  /** True if the page is the last one of its list. */
  readonly atEnd: boolean;
}

/** Commits a page with the cursor of its pass. A cursor that has not moved is not written. */
export async function commitWithCursor(
  context: StreamContext,
  page: StreamPage,
  { pass, from, to, atEnd }: CursorMove,
): Promise<void> {
  if (isSameCursor(from, to) && (from.completed || !atEnd)) {
    await commitReading(context, page);
    return;
  }

  await commitReading(context, page, (transaction) => saveCursor(transaction, pass, to, atEnd));
  // The next run continues at the cursor.
  if (!atEnd) context.endTurn();
}

/** Returns true if two cursors have the same place, meaning and dates. */
function isSameCursor(a: Cursor, b: Cursor): boolean {
  const toPlaceText = ({ query, meaning, lastId, largestSeen, watermark }: Cursor) =>
    JSON.stringify([query, meaning, lastId, largestSeen, watermark]);
  return toPlaceText(a) === toPlaceText(b);
}

/** Warns of what a page says about its list. */
export function warnOfWalk(
  context: StreamContext,
  pass: string,
  { steppedBack, full }: WalkedPage<StreamPage>,
): void {
  if (steppedBack)
    warn(
      context,
      `${pass}: rows had left the list, or the service refused the cursor; ` +
        'it stepped back and read again',
    );
  if (full)
    warn(
      context,
      `${pass}: the only page is full and has no next link; ` +
        'if the list has more rows, they cannot be read',
    );
}
