import { addDays, toUtcDay } from '../../core/time.ts';
import { noCursor, saveCursor } from '../../erp/pull/cursors.ts';
import type { Cursor, CursorPass } from '../../erp/runs/stored-stream.ts';
import type { StreamTransaction } from '../../erp/runs/stream-transaction.ts';
import { encodeQuery, type QueryParameters } from '../../warehouse/transport/query.ts';
import { commitReading } from '../commit/commit-reading.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, readStored, warn } from '../run/pull-context.ts';
import { pageSize, walkPages } from './list-page.ts';
import { readIds } from './walk.ts';

/**
 * Walks a list from the stored cursor to its end, and stores the cursor with each page. For lists in ascending order of
 * id, in which new rows come at the end.
 * @returns true if an earlier run had already reached the end, which means that the first load is done
 */
export async function continueWalk(
  context: PullContext,
  stream: Stream,
  pass: CursorPass,
  parameters: QueryParameters,
): Promise<boolean> {
  const start = readStored(context).cursors.get(pass) ?? noCursor;
  let cursor = start;
  let { completed } = start;
  const pages = walkPages(context, stream, listQuery(context, stream, parameters), start, true);
  for await (const { page, query, meaning, lastId, atEnd, full, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (full) warnFull(context, pass);
    // An empty page does not move the cursor: it stays at the last page with rows.
    const moved = lastId === null ? { ...cursor, meaning } : { ...cursor, query, meaning, lastId };
    const isUnchanged = isSameCursor(cursor, moved) && (completed || !atEnd);
    await commitReading(context, stream, page, isUnchanged ? null : makeCursorWriter(pass, moved, atEnd));
    cursor = moved;
    completed ||= atEnd;
  }
  return start.completed;
}

/** A pass that walks a whole list and keeps no cursor. */
type WholePass = 'open' | 'settle';

/** The result of a walk without a cursor. */
export interface WalkResult {
  readonly ids: Set<number>;
  /** False if the last page was full and had no next link: the list may have more rows. */
  readonly whole: boolean;
}

/**
 * Walks a whole list from its start, without a cursor.
 * @throws WarehouseError if the walk does not reach the end
 */
export async function walkWhole(
  context: PullContext,
  stream: Stream,
  pass: WholePass,
  parameters: QueryParameters,
  warnWhenFull = true,
): Promise<WalkResult> {
  const ids = new Set<number>();
  let whole = true;
  const start = { query: null, meaning: 'unknown', lastId: null } as const;
  const pages = walkPages(context, stream, listQuery(context, stream, parameters), start, stream.rescan.sorted);
  for await (const { page, full, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (full) {
      whole = false;
      if (warnWhenFull) warnFull(context, pass);
    }
    await commitReading(context, stream, page);
    for (const id of readIds(page.data)) ids.add(id);
  }
  return { ids, whole };
}

/** The result of a walk of a date window in this run. It holds no ids, because a first load may have a million. */
export interface WindowWalkResult extends Pick<WalkResult, 'whole'> {
  readonly rows: number;
  /** True if an earlier run had already reached the end. */
  readonly firstLoadDone: boolean;
}

/** The filter by which a pass limits a list to recent dates. */
export interface DateWindow {
  /** Filter of the list that takes an exclusive lower date, such as `filter[orderedOn][gt]`. */
  readonly filter: string;
  /** Column of the parent row with the date that the filter compares. */
  readonly column: string;
  /** Number of days that the first run looks back; null: to the beginning of the list. */
  readonly firstRunDays: number | null;
}

/**
 * Walks the resources whose date is after the watermark minus the lookback. At the end of the list, moves the watermark
 * to the largest date seen, but never more than a day past the service's clock. An interrupted walk continues from its
 * stored cursor. If that cursor is stale, the walk starts again.
 */
export async function walkWindow(
  context: PullContext,
  stream: Stream,
  pass: CursorPass,
  window: DateWindow,
  parameters: QueryParameters,
): Promise<WindowWalkResult> {
  let [whole, rows] = [true, 0];
  const stored = readStored(context).cursors.get(pass) ?? noCursor;
  // Rows that the interrupted walk has passed may have changed since. The watermark must not pass days that no walk has
  // read again.
  const before = stored.stale ? { ...stored, query: null, lastId: null, largestSeen: null } : stored;
  let largest = before.largestSeen;
  let current = stored;
  const fromDay = await findWindowStart(before, window, context);
  const firstQuery = listQuery(context, stream, {
    ...parameters,
    ...(fromDay === null ? {} : { [window.filter]: fromDay }),
  });
  const pages = walkPages(context, stream, firstQuery, before, false);
  for await (const { page, query, meaning, lastId, atEnd, full, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (full) {
      whole = false;
      warnFull(context, pass);
    }
    rows += page.data.length;
    if (page.dateMs === null) warn(context, `${pass}: the service sends no Date header, so the watermark cannot move`);
    const cap = page.dateMs === null ? '' : addDays(toUtcDay(page.dateMs), 1);
    const values = page.decoded.families.map(({ parent }) => parent[window.column]);
    // Only the day of a time counts. The lookback covers the difference of a day.
    const dates = values.filter((value) => typeof value === 'string').map((value) => value.slice(0, 10));
    largest = findLatest([largest, ...dates.filter((date) => date <= cap)]);
    const watermark = findLatest([before.watermark, largest]);
    const next: Cursor = atEnd
      ? { ...before, query: null, meaning, lastId: null, largestSeen: null, watermark }
      : { ...before, query, meaning, lastId, largestSeen: largest };
    const isUnchanged = isSameCursor(current, next) && (stored.completed || !atEnd);
    await commitReading(context, stream, page, isUnchanged ? null : makeCursorWriter(pass, next, atEnd));
    current = next;
  }
  return { rows, whole, firstLoadDone: before.completed };
}

/**
 * Returns the exclusive lower date of the window; null for the beginning of the list. It is one day before the lookback
 * because the filter is exclusive (docs/interface.md, 2.5 Filters). If walks have found nothing so far, the database's
 * clock is used and the span is doubled, to save a request for the service's clock in each run.
 */
async function findWindowStart(
  { watermark, completed }: Cursor,
  window: DateWindow,
  { warehouse, state: { service }, signal, run, lookbackDays }: PullContext,
): Promise<string | null> {
  if (watermark !== null) return addDays(watermark, -lookbackDays - 1);
  if (window.firstRunDays === null) return null;
  if (completed) return addDays(toUtcDay(run.startedAt.getTime()), -2 * window.firstRunDays);
  service.firstMs ??= await warehouse.readClock(signal);
  return addDays(toUtcDay(service.firstMs ?? run.startedAt.getTime()), -window.firstRunDays);
}

/** Returns true if two cursors have the same place, meaning and dates. */
function isSameCursor(a: Cursor, b: Cursor): boolean {
  const toPlaceText = ({ query, meaning, lastId, largestSeen, watermark }: Cursor) =>
    JSON.stringify([query, meaning, lastId, largestSeen, watermark]);
  return toPlaceText(a) === toPlaceText(b);
}

/** Returns a function that stores the cursor in the transaction of a page. */
function makeCursorWriter(pass: CursorPass, cursor: Cursor, atEnd: boolean) {
  return async (transaction: StreamTransaction) => {
    await saveCursor(transaction, pass, cursor, atEnd);
    return { changes: [], result: null };
  };
}

function findLatest(dates: readonly (string | null)[]): string | null {
  return dates.reduce((later, date) => (date !== null && (later === null || date > later) ? date : later), null);
}

/** Returns the query of a list's first page. Without `page[size]`, pages have 100 rows (docs/interface.md, 2.4 Paging). */
export function listQuery({ warehouse }: PullContext, { list, include }: Stream, parameters: QueryParameters): string {
  return encodeQuery({
    ...(warehouse.takesPageSize(list) ? { 'page[size]': pageSize } : {}),
    ...(include.length > 0 ? { include } : {}),
    ...parameters,
  });
}

function warnSteppedBack(context: PullContext, pass: CursorPass | WholePass): void {
  warn(context, `${pass}: rows had left the list, or the service refused the cursor; it stepped back and read again`);
}

function warnFull(context: PullContext, pass: CursorPass | WholePass): void {
  warn(context, `${pass}: the last page is full and has no next link; if the list has more rows, they cannot be read`);
}
