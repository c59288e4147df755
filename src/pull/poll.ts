/**
 * One poll of any stream. Its passes are those that the declaration of the stream names. A pass
 * whose page cannot be read fails alone, because the other passes read other pages.
 */

import { StoppedError } from '../core/errors.ts';
import { limitConcurrency } from '../core/limit-concurrency.ts';
import { addDays, dayMs, isRealDay, toUtcDay } from '../core/time.ts';
import { mayWait, readStored, throwFirst, warn } from '../schedule/run.ts';
import type { Cursor, CursorPass } from '../schedule/sql/ledger.ts';
import type { QueryParameters } from '../service/transport/query.ts';
import { commitReading, unlist } from './commit-reading.ts';
import type { PullContext } from './pull-context.ts';
import { readByIds, readsPerPoll } from './read-by-ids.ts';
import { findStillOpen, findUnlistedOpenRows, type OpenKind } from './sql/open-rows.ts';
import type { DayWindow } from './sql/rescans.ts';
import { deleteCursors, noCursor, saveCursor, writeStream } from './sql/stream-transaction.ts';
import { findDueReads, postponeReads } from './sql/waiting-reads.ts';
import { type DateWindow, type Stream, toOpenKind } from './stream.ts';
import { readIds, type WalkedPage } from './walk.ts';
import { isErrorOfOnePass, type StreamPage, toDateFilter, walkList } from './walk-list.ts';

/** An empty poll is a warning if a poll usually fetches at least this number of resources. */
const minUsualFetched = 5;

/**
 * Polls a stream. If all passes succeed, records how fresh the stream is, and a gap if the service
 * no longer lists days that no poll has read. Warns if the poll fetched nothing, but usually
 * fetches some.
 * @throws the first error of a pass; further ones become warnings
 */
export async function pollStream(context: PullContext, stream: Stream): Promise<void> {
  const { totals, service, end } = context.state;
  const { completeAt, usualFetched } = readStored(context);
  await runPasses(context, stream);
  const beganAt = new Date(service.firstMs ?? context.run.startedAt.getTime());
  const { horizonDays } = stream.rescan;
  const listedSince =
    horizonDays === null ? null : new Date(beganAt.getTime() - horizonDays * dayMs);
  if (totals.fetched === 0 && (usualFetched ?? 0) >= minUsualFetched)
    warn(
      context,
      `fetched nothing; a poll usually fetches ${Math.round(usualFetched ?? 0)} resources`,
    );
  const newestSource = service.newestSourceMs === null ? null : new Date(service.newestSourceMs);
  const hasGap = listedSince !== null && completeAt !== null && completeAt < listedSince;
  const gap = hasGap ? { from: completeAt, to: listedSince } : null;
  end.poll = { stream: stream.name, beganAt, newestSource, gap };
}

async function runPasses(context: PullContext, stream: Stream): Promise<void> {
  const { passes } = stream;
  const failures: unknown[] = [];
  const attempt = async <T>(
    isDeclared: unknown,
    pass: () => Promise<T>,
  ): Promise<T | undefined> => {
    try {
      return isDeclared ? await pass() : undefined;
    } catch (error) {
      if (!isErrorOfOnePass(error)) throw error;
      failures.push(error);
      return undefined;
    }
  };
  const added = await attempt(passes.new, () => walkNew(context, stream));
  const open = await attempt(passes.open, () =>
    walkWhole(context, stream, 'open', { 'filter[status][in]': passes.open?.statuses ?? [] }),
  );
  const window = await attempt(passes.window, () =>
    walkWindow(context, stream, passes.window as DateWindow),
  );
  // If the first load fails, few rows are read by id, as in every later poll.
  const limit = (added ?? window)?.isFirstLoad ? null : readsPerPoll;
  // Only a complete list of the open rows shows which ones are no longer open.
  const mayRead = passes.rereads !== undefined && (passes.open === undefined || open !== undefined);
  await attempt(mayRead, () => readWaiting(context, stream, open?.ids ?? new Set(), limit));
  await attempt(passes.last, async () => passes.last?.(context, { open, window }));
  throwFirst(context, failures);
}

/**
 * Walks a list in ascending order of id from the stored cursor to its end. Stores the cursor with
 * each page.
 */
async function walkNew(
  context: PullContext,
  stream: Stream,
): Promise<Pick<WindowWalk, 'isFirstLoad'>> {
  const start = readStored(context).cursors.get('new') ?? noCursor;
  let cursor = start;
  let { completed } = start;
  await walkList(context, stream, {}, start, async (walked) => {
    const { page, query, meaning, lastId, atEnd } = walked;
    warnOfWalk(context, 'new', walked);
    // An empty page does not move the cursor: it stays at the last page with rows.
    const moved = lastId === null ? { ...cursor, meaning } : { ...cursor, query, meaning, lastId };
    const isUnchanged = isSameCursor(cursor, moved) && (completed || !atEnd);
    await commitWithCursor(context, stream, page, 'new', isUnchanged ? null : moved, atEnd);
    cursor = moved;
    completed ||= atEnd;
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
 * Walks a whole list from its start, without a cursor.
 * @param pass its name in warnings; null: a full page is no warning
 * @throws WarehouseError if the walk does not reach the end
 */
export async function walkWhole(
  context: PullContext,
  stream: Stream,
  pass: string | null,
  parameters: QueryParameters,
): Promise<WholeWalk> {
  const ids = new Set<number>();
  let whole = true;
  let readNo = Number.POSITIVE_INFINITY;
  // What walks of other lists of the stream learned of its links holds for this list, too.
  const cursors = [...(context.run.stored?.cursors.values() ?? [])];
  const learned = cursors.find(({ meaning }) => meaning !== 'unknown') ?? noCursor;
  await walkList(
    context,
    stream,
    parameters,
    { ...noCursor, meaning: learned.meaning },
    async (walked) => {
      const { page, full } = walked;
      if (pass !== null) warnOfWalk(context, pass, walked);
      whole &&= !full;
      readNo = Math.min(readNo, page.readNo);
      await commitReading(context, stream, page);
      for (const id of readIds(page.data)) ids.add(id);
    },
  );
  return { ids, whole, readNo };
}

/**
 * The result of a walk of a date window in this run. It holds no ids, because a first load may have
 * a million.
 */
interface WindowWalk extends Pick<WholeWalk, 'whole'> {
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
 * Walks the resources whose date is after the watermark minus the lookback. A long first load is
 * read in parts, several at the same time: it takes as long as the service needs for its pages one
 * after the other.
 */
async function walkWindow(
  context: PullContext,
  stream: Stream,
  window: DateWindow,
): Promise<WindowWalk> {
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
    const walked = await walkDays(context, stream, window, {
      pass: window.pass,
      stored,
      days,
      maxPages,
    });
    if (walked.isAtEnd) return { ...walked, isFirstLoad };
  }
  return {
    ...(await loadInParts(context, stream, window, stored, new Map(planned))),
    isFirstLoad: true,
  };
}

/** A part of a first load: its days are in its name. */
type PartPass = `${DateWindow['pass']} ${string}`;

/**
 * Reads the parts of a first load that are not complete. The first run plans them and stores a
 * cursor for each.
 */
async function loadInParts(
  context: PullContext,
  stream: Stream,
  window: DateWindow,
  stored: Cursor,
  planned: ReadonlyMap<PartPass, Cursor>,
): Promise<Pick<WindowWalk, 'rows' | 'whole'>> {
  const parts = planned.size > 0 ? planned : await planParts(context, stream, window);
  const open = [...parts].filter(([, { completed }]) => !completed);
  const failed = new AbortController();
  const within = { ...context, signal: AbortSignal.any([context.signal, failed.signal]) };
  const inPool = limitConcurrency(partsAtOnce);
  // One page is committed at a time: each commit changes the counts of the run.
  const inTurn = limitConcurrency(1);

  const readPart = async ([pass, stored]: readonly [PartPass, Cursor]) => {
    const [, after = null, before = null] = pass.split(' ');
    const part = { pass, stored, days: { after, before }, inTurn };
    try {
      return await inPool(() => walkDays(within, stream, window, part));
    } catch (error) {
      failed.abort(new StoppedError());
      throw error;
    }
  };
  const walks = await settleAll(open.map(readPart));

  const watermark = findLatest([
    ...[...parts.values()].map((part) => part.watermark),
    ...walks.map((w) => w.watermark),
  ]);
  await writeStream(context.db, context.run, stream.name, async (transaction) => {
    await saveCursor(
      transaction,
      window.pass,
      { ...stored, query: null, lastId: null, watermark },
      true,
    );
    await deleteCursors(transaction, [...parts.keys()]);
  });
  return {
    rows: walks.reduce((sum, { rows }) => sum + rows, 0),
    whole: walks.every(({ whole }) => whole),
  };
}

/**
 * Waits for all works. Returns their results.
 * @throws the first error that is more than a stop, if any failed
 */
async function settleAll<T>(works: readonly Promise<T>[]): Promise<T[]> {
  const results = await Promise.allSettled(works);
  const errors = results.flatMap((result): unknown[] =>
    result.status === 'rejected' ? [result.reason] : [],
  );
  if (errors.length > 0)
    throw errors.find((error) => !(error instanceof StoppedError)) ?? errors[0];

  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

/**
 * Divides the days of a first load into parts, and stores a cursor for each. The last part has no
 * end. The parts overlap by a day, because the filters are exclusive.
 */
async function planParts(
  context: PullContext,
  stream: Stream,
  window: DateWindow,
): Promise<ReadonlyMap<PartPass, Cursor>> {
  const today = toUtcDay(context.state.service.firstMs ?? context.run.startedAt.getTime());
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
  await writeStream(context.db, context.run, stream.name, async (transaction) => {
    for (const pass of passes) await saveCursor(transaction, pass, noCursor, false);
  });
  context.state.hasWritten = true;
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
  context: PullContext,
  stream: Stream,
  { attribute, column }: DateWindow,
  {
    pass,
    stored,
    days,
    maxPages = Number.POSITIVE_INFINITY,
    inTurn = (commit) => commit(),
  }: DaysWalkOptions,
): Promise<DaysWalk> {
  let whole = true;
  let rows = 0;
  let pages = 0;
  let isAtEnd = false;
  // Rows that the interrupted walk has passed may have changed since. The watermark must not pass
  // days that no walk has read again.
  const resumed = stored.stale
    ? { ...stored, query: null, lastId: null, largestSeen: null }
    : stored;
  let largest = resumed.largestSeen;
  let current = stored;
  const filter = toDateFilter(attribute, days);
  const write = async (walked: WalkedPage<StreamPage>) => {
    const { page, query, meaning, lastId, atEnd, full } = walked;
    warnOfWalk(context, pass, walked);
    whole &&= !full;
    rows += page.data.length;
    pages += page.pages;
    isAtEnd = atEnd;
    if (page.dateMs === null)
      warn(context, `${pass}: the service sends no Date header, so the watermark cannot move`);
    const cap = page.dateMs === null ? '' : addDays(toUtcDay(page.dateMs), 1);
    const values = page.decoded.families.map(({ parent }) => parent[column]);
    // Only the day of a time counts. The lookback covers the difference of a day.
    const dates = values
      .filter((value) => typeof value === 'string')
      .map((value) => value.slice(0, 10));
    largest = findLatest([largest, ...dates.filter((date) => isRealDay(date) && date <= cap)]);
    const watermark = findLatest([resumed.watermark, largest]);
    const next: Cursor = atEnd
      ? { ...resumed, query: null, meaning, lastId: null, largestSeen: null, watermark }
      : { ...resumed, query, meaning, lastId, largestSeen: largest };
    const isUnchanged = isSameCursor(current, next) && (stored.completed || !atEnd);
    await inTurn(() =>
      commitWithCursor(context, stream, page, pass, isUnchanged ? null : next, atEnd),
    );
    current = next;
    return pages >= maxPages && !atEnd ? 'stop' : undefined;
  };
  await walkList(context, stream, filter, resumed, write, false);
  return { rows, whole, isAtEnd, watermark: current.watermark };
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
  { warehouse, state: { service }, signal, run, config }: PullContext,
): Promise<string | null> {
  if (watermark !== null) return addDays(watermark, -config.LOOKBACK_DAYS - 1);
  if (window.firstRunDays === null) return null;
  if (completed) return addDays(toUtcDay(run.startedAt.getTime()), -2 * window.firstRunDays);
  service.firstMs ??= await warehouse.readClock(signal);
  return addDays(toUtcDay(service.firstMs ?? run.startedAt.getTime()), -window.firstRunDays);
}

/**
 * Commits a page.
 * @param cursor the cursor to store with it; null: it has not moved
 */
async function commitWithCursor(
  context: PullContext,
  stream: Stream,
  page: StreamPage,
  pass: CursorPass,
  cursor: Cursor | null,
  atEnd: boolean,
): Promise<void> {
  await commitReading(
    context,
    stream,
    page,
    cursor &&
      (async (transaction) => {
        await saveCursor(transaction, pass, cursor, atEnd);
        return { changes: [], result: null };
      }),
  );
  // The next run continues at the cursor.
  if (cursor !== null && !atEnd) context.endTurn();
}

/** Returns true if two cursors have the same place, meaning and dates. */
function isSameCursor(a: Cursor, b: Cursor): boolean {
  const toPlaceText = ({ query, meaning, lastId, largestSeen, watermark }: Cursor) =>
    JSON.stringify([query, meaning, lastId, largestSeen, watermark]);
  return toPlaceText(a) === toPlaceText(b);
}

function findLatest(dates: readonly (string | null)[]): string | null {
  return dates.reduce(
    (later, date) => (date !== null && (later === null || date > later) ? date : later),
    null,
  );
}

function warnOfWalk(
  context: PullContext,
  pass: string,
  { steppedBack, full }: WalkedPage<StreamPage>,
): void {
  if (steppedBack)
    warn(
      context,
      `${pass}: rows had left the list, or the service refused the cursor; it stepped back and read again`,
    );
  if (full)
    warn(
      context,
      `${pass}: the only page is full and has no next link; if the list has more rows, they cannot be read`,
    );
}

/**
 * Reads by id what the lists did not show: rows that are stored as open but that the list of open
 * rows lacked, rows that wait for a reread, and quarantined ones.
 * @param listed the ids of the list of open rows
 * @param limit maximum number of ids; null: no limit
 */
async function readWaiting(
  context: PullContext,
  stream: Stream,
  listed: ReadonlySet<number>,
  limit: number | null,
): Promise<void> {
  const { client, db } = context;
  const { settle, rereads } = stream.passes;
  const kind = toOpenKind(stream);
  const unlisted = kind === null ? [] : await findUnlistedOpenRows(db, client, kind, [...listed]);
  const listable = unlisted.filter(({ gone }) => !gone);
  const found = settle === undefined ? new Set() : await settle(context, stream, listable);
  const settled = unlisted.map(({ id }) => id).filter((id) => found.has(id));
  if (kind !== null) await postponeUnsettled(context, kind, settled);
  const unread = unlisted.map(({ id }) => id).filter((id) => !found.has(id));
  await rereads?.prepare?.(context, limit === null);
  const due = mayWait(context) ? await findDueReads(db, client, stream.name, limit) : [];
  const waiting = due.map(({ id }) => id);
  await readByIds(context, stream, interleave([waiting, unread], limit), {
    writeExtra: async (transaction, { absent, readNo }) => ({
      changes:
        rereads?.absent === 'unlisted' ? await unlist(transaction, stream, absent, readNo) : [],
      result: null,
    }),
    unsettled: async ({ trx }, ids) => {
      const unlistedIds = ids.filter((id) => !listed.has(id));
      return kind === null ? [] : findStillOpen(trx, client, kind, unlistedIds);
    },
  });
}

/**
 * Postpones rows that are still open, for example by an undocumented status: every poll would ask
 * for them.
 */
async function postponeUnsettled(
  { client, db, run }: PullContext,
  kind: OpenKind,
  found: readonly number[],
): Promise<void> {
  if (found.length === 0) return;
  const unsettled = await findStillOpen(db, client, kind, found);
  if (unsettled.length === 0) return;
  await writeStream(db, run, kind.stream, (transaction) =>
    postponeReads(transaction, unsettled, 'listed_still_open'),
  );
}

/**
 * Takes at most `limit` ids (null: all) from the lists in turn, so that a long list does not delay
 * the others.
 */
function interleave(lists: readonly (readonly number[])[], limit: number | null): number[] {
  const longest = lists.reduce((most, { length }) => Math.max(most, length), 0);
  const taken = new Set<number>();
  for (let place = 0; place < longest; place++)
    for (const list of lists) {
      const id = list[place];
      if (id === undefined) continue;
      if (limit !== null && taken.size >= limit) return [...taken];
      taken.add(id);
    }
  return [...taken];
}
