/**
 * One poll of any stream, and the passes of which the polls of the streams are made: `readNew`,
 * `readOpen`, `readWindow` and `readWaiting`.
 */

import { StoppedError, WarehouseError } from '../core/errors.ts';
import { limitConcurrency } from '../core/limit-concurrency.ts';
import { addDays, dayMs, isRealDay, toUtcDay } from '../core/time.ts';
import { type RunContext, readStored, serviceNow, throwFirst, warn } from '../schedule/run.ts';
import type { Cursor, CursorPass, DatePass } from '../schedule/sql/ledger.ts';
import { toColumn } from '../service/decoding/fields.ts';
import type { QueryParameters } from '../service/transport/query.ts';
import { commitReading, commitRun } from './commit.ts';
import { readByIds, readsPerPoll } from './read-by-ids.ts';
import { deleteCursors, noCursor, saveCursor } from './sql/stream-transaction.ts';
import {
  type DayWindow,
  findStillOpen,
  findUnlistedOpenRows,
  type OpenKind,
} from './sql/unlisted.ts';
import { listIds } from './sql/upsert.ts';
import { findDueReads, postponeReads } from './sql/waiting-reads.ts';
import { type MakePass, type Stream, type StreamContext, toPullContext } from './stream.ts';
import {
  isErrorOfOnePass,
  readIds,
  type StreamPage,
  toDateFilter,
  type WalkedPage,
  walkList,
} from './walk.ts';

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

/** Finds the rows that are open here but missing from a complete list of the open rows. */
export const findUnlistedOpen = (
  context: StreamContext,
  kind: OpenKind,
  listed: ReadonlySet<number>,
) =>
  findUnlistedOpenRows(context.db, context.client, kind, {
    ...{ age: context.stream.rescan, listed, serviceNow: serviceNow(context) },
  });

/**
 * Postpones the next question for rows that the list of open rows lacks, but another list shows
 * still open, for example with an undocumented status. Otherwise every poll would ask for them.
 * @param readNo number of the reading of the other list
 */
export async function postponeListed(
  context: StreamContext,
  kind: OpenKind,
  ids: readonly number[],
  readNo: number,
): Promise<void> {
  const { db, client, stream } = context;
  const stillOpen = await findStillOpen(db, client, kind, ids);
  if (stillOpen.length === 0) return;

  await commitRun(context, stream.name, (transaction) =>
    postponeReads(transaction, stillOpen, 'listed_still_open', readNo),
  );
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
  const due = context.state.mayHaveDueReads
    ? await findDueReads(db, client, stream.name, limit)
    : [];
  const ids = interleave(due, open?.unlisted ?? []);
  if (ids.length === 0) return;

  const chosen = limit === null ? ids : ids.slice(0, limit);
  for await (const { reading, settle } of readByIds(context, chosen))
    await commitReading(context, reading, async (transaction, page) => {
      if (open === undefined) return settle(transaction, page, { marks: false });

      const notListed = listIds(page.resources).filter((id) => !open.listed.has(id));
      const stillOpen = await findStillOpen(transaction.trx, client, open.kind, notListed);
      return settle(transaction, page, { stillOpen });
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
async function commitWithCursor(
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
function warnOfWalk(
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

/** The filter by which a pass limits a list to recent dates. */
export interface DateWindow {
  readonly pass: DatePass;
  /** Attribute for the list's filter `[gt]`, an exclusive lower date. */
  readonly attribute: string;
  /** Number of days that the first run looks back; null: to the beginning of the list. */
  readonly firstRunDays: number | null;
}

/**
 * The result of a walk of a date window in this run. It holds no ids, because a first load may have
 * a million.
 */
interface WindowWalk {
  /** False if the only page was full and had no next link: the list may have more rows. */
  readonly whole: boolean;
  /** True if no earlier run has reached the end. */
  readonly isFirstLoad: boolean;
  readonly rows: number;
}

/**
 * A first load that has not reached the end of its list after this number of pages is read in
 * parts.
 */
const pagesBeforeParts = 10;
/** Number of parts of such a first load, and number of those that are read at the same time. */
const partCount = 16;
const partsAtOnce = 4;
/**
 * Reads the resources whose date is after the watermark minus the lookback. A long first load is
 * read in parts, several at the same time: it takes as long as the service needs for its pages one
 * after the other.
 */
export async function readWindow(context: StreamContext, window: DateWindow): Promise<WindowWalk> {
  const { cursors } = readStored(context);
  const stored = cursors.get(window.pass) ?? noCursor;
  const fromDay = await findWindowStart(stored, window, context);
  const isFirstLoad = !stored.completed;
  const planned = [...cursors].filter((entry): entry is [PartPass, Cursor] =>
    entry[0].startsWith(`${window.pass} `),
  );

  if (planned.length === 0) {
    const maxPages = isFirstLoad && fromDay !== null ? pagesBeforeParts : Number.POSITIVE_INFINITY;
    const days = { after: fromDay, before: null };
    const walk = { pass: window.pass, stored, days, maxPages };
    const walked = await walkDays(context, window, walk);
    if (walked.isAtEnd) return { ...walked, isFirstLoad };
  }

  const parts = planned.length > 0 ? new Map(planned) : await planParts(context, window);
  const walks = await readParts(context, window, parts);
  const watermark = findLatest([...parts.values(), ...walks].map((part) => part.watermark));
  const cursor = { ...stored, query: null, lastId: null, watermark };
  await endParts(context, window.pass, cursor, [...parts.keys()]);

  return {
    rows: walks.reduce((sum, { rows }) => sum + rows, 0),
    whole: walks.every(({ whole }) => whole),
    isFirstLoad: true,
  };
}

/** A part of a first load: its days are in its name. */
type PartPass = `${DateWindow['pass']} ${string}`;

/**
 * Reads the parts of a first load that are not complete, several at the same time. A part whose
 * page cannot be read fails alone, or it would keep the others from their ends in each run.
 * @throws the first error that concerns more than one part, else the first error
 */
async function readParts(
  context: StreamContext,
  window: DateWindow,
  parts: ReadonlyMap<PartPass, Cursor>,
): Promise<DaysWalk[]> {
  const stop = new AbortController();
  const within = { ...context, signal: AbortSignal.any([context.signal, stop.signal]) };
  const inPool = limitConcurrency(partsAtOnce);
  // One page is committed at a time: each commit changes the counts of the run.
  const inTurn = limitConcurrency(1);
  const walks: DaysWalk[] = [];
  const failures: { readonly error: unknown; readonly isOfPart: boolean }[] = [];

  const readPart = async ([pass, stored]: readonly [PartPass, Cursor]) => {
    const [, after = null, before = null] = pass.split(' ');
    const part = { pass, stored, days: { after, before }, inTurn };
    try {
      walks.push(await walkDays(within, window, part));
    } catch (error) {
      const isOfPart =
        error instanceof WarehouseError
          ? !(await context.health.endsRun(error))
          : isErrorOfOnePass(error);
      failures.push({ error, isOfPart });
      if (!isOfPart) stop.abort(new StoppedError());
    }
  };
  const open = [...parts].filter(([, { completed }]) => !completed);
  await Promise.all(open.map((part) => inPool(() => readPart(part))));

  const first = failures.find(({ isOfPart }) => !isOfPart) ?? failures[0];
  if (first !== undefined) throw first.error;
  return walks;
}

/** Ends a first load in parts: one cursor replaces theirs. */
async function endParts(
  context: StreamContext,
  pass: DatePass,
  cursor: Cursor,
  parts: readonly PartPass[],
): Promise<void> {
  await commitRun(context, context.stream.name, async (transaction) => {
    await saveCursor(transaction, pass, cursor, true);
    await deleteCursors(transaction, parts);
  });
}

/**
 * Divides the days of a first load into parts, and stores a cursor for each. The last part has no
 * end. The parts overlap by a day, because the filters are exclusive.
 */
async function planParts(
  context: StreamContext,
  window: DateWindow,
): Promise<ReadonlyMap<PartPass, Cursor>> {
  const { run, state, stream } = context;
  const today = toUtcDay(state.service.firstMs ?? run.startedAt.getTime());
  const days = window.firstRunDays ?? 0;
  const starts = Array.from({ length: partCount }, (_, part) =>
    addDays(today, Math.round((days * part) / partCount) - days),
  );
  const passes = starts.map((after, part): PartPass => {
    const next = starts[part + 1];
    return next === undefined
      ? `${window.pass} ${after}`
      : `${window.pass} ${after} ${addDays(next, 2)}`;
  });

  await commitRun(context, stream.name, async (transaction) => {
    for (const pass of passes) await saveCursor(transaction, pass, noCursor, false);
  });
  return new Map(passes.map((pass) => [pass, noCursor]));
}

/** A walk of the resources of some days. */
interface DaysWalkOptions {
  readonly pass: CursorPass;
  readonly stored: Cursor;
  /** Exclusive bounds of the filter; null: no bound. */
  readonly days: DayWindow;
  /** Number of pages after which the walk ends early. */
  readonly maxPages?: number;
  /** Makes commits wait for those of other walks. */
  readonly inTurn?: (commit: () => Promise<unknown>) => Promise<unknown>;
}

interface DaysWalk extends Pick<WindowWalk, 'rows' | 'whole'> {
  readonly isAtEnd: boolean;
  /** Largest date seen by complete walks; null: none. */
  readonly watermark: string | null;
}

/**
 * Walks the resources of some days. At the end of the list, moves the watermark to the largest date
 * seen, but never more than a day past the service's clock. An interrupted walk continues from its
 * stored cursor. If that cursor is stale, the walk starts again.
 */
async function walkDays(
  context: StreamContext,
  { attribute }: DateWindow,
  { pass, stored, days, maxPages = Number.POSITIVE_INFINITY, inTurn = runAtOnce }: DaysWalkOptions,
): Promise<DaysWalk> {
  // Rows that the interrupted walk has passed may have changed since. The watermark must not pass
  // days that no walk has read again.
  const start = stored.stale ? { ...stored, query: null, lastId: null, largestSeen: null } : stored;
  let cursor = stored;
  let { query: reached, lastId: lastSeen, largestSeen: largest } = start;
  let [whole, isAtEnd, rows, pages] = [true, false, 0, 0];

  const parameters = toDateFilter(attribute, days);
  await walkList(context, { parameters, start, sorted: false }, async (walked) => {
    const { page, query, meaning, lastId, atEnd, full } = walked;
    warnOfWalk(context, pass, walked);
    whole &&= !full;
    rows += page.data.length;
    pages += page.pages;
    isAtEnd = atEnd;

    if (page.dateMs === null)
      warn(context, `${pass}: the service sends no Date header, so the watermark cannot move`);
    largest = findLatest([largest, findLargestDate(page, toColumn(attribute))]);
    // An empty page does not move the cursor: it has no row to find the place by.
    if (lastId !== null) [reached, lastSeen] = [query, lastId];
    const moved: Cursor = atEnd
      ? {
          ...{ ...start, query: null, meaning, lastId: null, largestSeen: null },
          watermark: findLatest([start.watermark, largest]),
        }
      : { ...start, query: reached, meaning, lastId: lastSeen, largestSeen: largest };

    const move = { pass, from: cursor, to: moved, atEnd };
    await inTurn(() => commitWithCursor(context, page, move));

    cursor = moved;
    return pages >= maxPages && !atEnd ? 'stop' : undefined;
  });

  return { rows, whole, isAtEnd, watermark: cursor.watermark };
}

const runAtOnce = (commit: () => Promise<unknown>) => commit();

/**
 * Returns the largest date of a page, but none more than a day past the service's clock; null if
 * there is none, or if the service does not say its time.
 */
function findLargestDate({ dateMs, decoded }: StreamPage, column: string): string | null {
  if (dateMs === null) return null;
  const latest = addDays(toUtcDay(dateMs), 1);
  const values = decoded.resources.map(({ parent }) => parent[column]);

  // Only the day of a time counts. The lookback covers the difference of a day.
  const dates = values
    .filter((value) => typeof value === 'string')
    .map((value) => value.slice(0, 10));
  return findLatest(dates.filter((date) => isRealDay(date) && date <= latest));
}

/**
 * Returns the exclusive lower date of the window; null for the beginning of the list. It is one day
 * before the lookback because the filter is exclusive (docs/interface.md, 2.5 Filters). If walks
 * have found nothing so far, the database's clock is used and the span is doubled, to save a
 * request for the service's clock in each run.
 */
async function findWindowStart(
  { watermark, completed }: Cursor,
  window: DateWindow,
  { warehouse, state: { service }, signal, run, config }: StreamContext,
): Promise<string | null> {
  if (watermark !== null) return addDays(watermark, -config.LOOKBACK_DAYS - 1);
  if (window.firstRunDays === null) return null;
  if (completed) return addDays(toUtcDay(run.startedAt.getTime()), -2 * window.firstRunDays);
  service.firstMs ??= await warehouse.readClock(signal);
  return addDays(toUtcDay(service.firstMs ?? run.startedAt.getTime()), -window.firstRunDays);
}

function findLatest(dates: readonly (string | null)[]): string | null {
  return dates.reduce(
    (later, date) => (date !== null && (later === null || date > later) ? date : later),
    null,
  );
}
