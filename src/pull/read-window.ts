/**
 * Reads the resources of a list by date: those after the watermark minus the lookback. A long first
 * load is read in parts, several at the same time.
 */

import { StoppedError, WarehouseError } from '../core/errors.ts';
import { limitConcurrency } from '../core/limit-concurrency.ts';
import { addDays, isRealDay, toUtcDay } from '../core/time.ts';
import { readStored, warn } from '../schedule/run.ts';
import type { Cursor, CursorPass, DatePass } from '../schedule/sql/ledger.ts';
import { commitRun, noCounts } from './commit.ts';
import { commitWithCursor, warnOfWalk } from './poll.ts';
import type { DayWindow } from './sql/listed-rows.ts';
import { deleteCursors, noCursor, saveCursor } from './sql/stream-transaction.ts';
import type { StreamContext } from './stream.ts';
import { isErrorOfOnePass, type StreamPage, toDateFilter, walkList } from './walk-list.ts';

/** The filter by which a pass limits a list to recent dates. */
export interface DateWindow {
  readonly pass: DatePass;
  /** Attribute for the list's filter `[gt]`, an exclusive lower date. */
  readonly attribute: string;
  /** Column of the parent row with the date that the filter compares. */
  readonly column: string;
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
  await endParts(context, { ...stored, query: null, lastId: null }, { window, parts, walks });

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

/** Ends a first load in parts: one cursor, with the largest date of all, replaces theirs. */
async function endParts(
  context: StreamContext,
  stored: Cursor,
  { window, parts, walks }: FirstLoad,
): Promise<void> {
  const readBefore = [...parts.values()].map((part) => part.watermark);
  const watermark = findLatest([...readBefore, ...walks.map((walk) => walk.watermark)]);

  await commitRun(context, context.stream.name, async (transaction) => {
    await saveCursor(transaction, window.pass, { ...stored, watermark }, true);
    await deleteCursors(transaction, [...parts.keys()]);
    return noCounts;
  });
}

/** A first load in parts, with the walks of this run. */
interface FirstLoad {
  readonly window: DateWindow;
  readonly parts: ReadonlyMap<PartPass, Cursor>;
  readonly walks: readonly DaysWalk[];
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
    return noCounts;
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
  { attribute, column }: DateWindow,
  { pass, stored, days, maxPages = Number.POSITIVE_INFINITY, inTurn = runAtOnce }: DaysWalkOptions,
): Promise<DaysWalk> {
  // Rows that the interrupted walk has passed may have changed since. The watermark must not pass
  // days that no walk has read again.
  const start = stored.stale ? { ...stored, query: null, lastId: null, largestSeen: null } : stored;
  let cursor = stored;
  let largest = start.largestSeen;
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
    largest = findLatest([largest, findLargestDate(page, column)]);
    const moved: Cursor = atEnd
      ? {
          ...{ ...start, query: null, meaning, lastId: null, largestSeen: null },
          watermark: findLatest([start.watermark, largest]),
        }
      : { ...start, query, meaning, lastId, largestSeen: largest };

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
