import { addDays, utcDay } from '../core/time.ts';
import { type Cursor, readCursor, saveCursor } from '../erp/progress.ts';
import { encodeQuery, type QueryParameters } from '../warehouse/query.ts';
import { commitReading, fetchPage, type PullContext, pageSize, warn } from './pull.ts';
import type { Stream } from './stream.ts';
import { idsOf, isSuspiciouslyFull, walk } from './walk.ts';

/**
 * Walks on from where the last run stood, for ever. For lists sorted by ascending id, where new rows come at the end.
 * @returns whether the walk had reached its end in an earlier run, that is: whether the first load is behind us
 */
export async function walkOn(
  context: PullContext,
  stream: Stream,
  pass: string,
  parameters: QueryParameters,
): Promise<boolean> {
  const start = await readCursor(context.db, context.client, stream.name, pass);
  let cursor = start;
  const pages = walk({
    firstQuery: listQuery(stream, parameters),
    start,
    fetch: (query, signal) => fetchPage(context, stream, query, signal),
    signal: context.signal,
    sorted: true,
  });
  for await (const { page, query, meaning, lastId, atEnd, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (isSuspiciouslyFull(page, pageSize)) warnFull(context, pass);
    // An empty page moves nothing: the walk stands on the last page that held rows.
    cursor = lastId === null ? { ...cursor, meaning } : { ...cursor, query, meaning, lastId };
    const moved = cursor;
    await commitReading(context, stream, page, async (trx) => {
      await saveCursor(trx, context.client, stream.name, pass, moved, atEnd);
      return [];
    });
  }
  return start.completed;
}

/** What a walk showed. */
export interface Listed {
  readonly ids: Set<number>;
  /** False where the last page was full and had no next link: there may be more. */
  readonly whole: boolean;
}

/** Walks a whole list from its start, without a cursor; complete, as it throws otherwise. */
export async function walkWhole(
  context: PullContext,
  stream: Stream,
  pass: string,
  parameters: QueryParameters,
  warnWhenFull = true,
): Promise<Listed> {
  const ids = new Set<number>();
  let whole = true;
  const pages = walk({
    firstQuery: listQuery(stream, parameters),
    start: { query: null, meaning: 'unknown', lastId: null },
    fetch: (query, signal) => fetchPage(context, stream, query, signal),
    signal: context.signal,
    sorted: stream.rescan.sorted,
  });
  for await (const { page, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (isSuspiciouslyFull(page, pageSize)) {
      whole = false;
      if (warnWhenFull) warnFull(context, pass);
    }
    await commitReading(context, stream, page);
    for (const id of idsOf(page.data)) ids.add(id);
  }
  return { ids, whole };
}

/** What a walk of a window showed in this run. Not its ids: a first load may hold a million. */
export interface Windowed extends Pick<Listed, 'whole'> {
  readonly rows: number;
  /** Whether an earlier run had reached the end. */
  readonly firstLoadDone: boolean;
}

export interface DateWindow {
  /** Filter of the list that takes an exclusive lower date, such as `filter[orderedOn][gt]`. */
  readonly filter: string;
  /** Column of the parent's row that the filter speaks of. */
  readonly column: string;
  /** How far the first run looks back; null: to the beginning. */
  readonly firstRunDays: number | null;
}

/**
 * Walks what is dated after the watermark less the lookback, to its end; only then the watermark moves, to the largest
 * date seen, and never past the service's own clock plus a day. A walk that was cut short goes on where it stood, unless
 * that was more than a day ago.
 */
export async function walkWindow(
  context: PullContext,
  stream: Stream,
  pass: string,
  window: DateWindow,
  parameters: QueryParameters,
): Promise<Windowed> {
  let [whole, rows] = [true, 0];
  const stored = await readCursor(context.db, context.client, stream.name, pass);
  // What it has passed may have changed since: a watermark from both halves would be past days nobody asked for.
  const before = stored.stale ? { ...stored, query: null, lastId: null, largestSeen: null } : stored;
  let largest = before.largestSeen;
  const pages = walk({
    firstQuery: listQuery(stream, { ...parameters, ...(await windowStart(before, window, context)) }),
    start: before,
    fetch: (query, signal) => fetchPage(context, stream, query, signal),
    signal: context.signal,
    sorted: false,
  });
  for await (const { page, query, meaning, lastId, atEnd, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (isSuspiciouslyFull(page, pageSize)) {
      whole = false;
      warnFull(context, pass);
    }
    rows += page.data.length;
    if (page.dateMs === null) warn(context, `${pass}: the service sends no Date, so the watermark cannot move`);
    const cap = page.dateMs === null ? '' : addDays(utcDay(page.dateMs), 1);
    await commitReading(context, stream, page, async (trx, { families }) => {
      const values = families.map(({ parent }) => parent[window.column]).filter((value) => typeof value === 'string');
      // A time counts by its day: a day more or less is what the lookback is for.
      const dates = values.map((value) => value.slice(0, 10));
      largest = laterOf([largest, ...dates.filter((date) => date <= cap)]);
      const next: Cursor = atEnd
        ? {
            ...before,
            query: null,
            meaning,
            lastId: null,
            largestSeen: null,
            watermark: laterOf([before.watermark, largest]),
          }
        : { ...before, query, meaning, lastId, largestSeen: largest };
      await saveCursor(trx, context.client, stream.name, pass, next, atEnd);
      return [];
    });
  }
  return { rows, whole, firstLoadDone: before.completed };
}

/** The date to ask after: filters are exclusive, so one day more than the lookback. */
async function windowStart(
  { watermark }: Cursor,
  window: DateWindow,
  { warehouse, service, signal, run, lookbackDays }: PullContext,
): Promise<QueryParameters> {
  if (watermark !== null) return { [window.filter]: addDays(watermark, -lookbackDays - 1) };
  if (window.firstRunDays === null) return {};
  service.firstMs ??= await warehouse.clock(signal);
  return { [window.filter]: addDays(utcDay(service.firstMs ?? run.startedAt.getTime()), -window.firstRunDays) };
}

function laterOf(dates: readonly (string | null)[]): string | null {
  return dates.reduce((later, date) => (date !== null && (later === null || date > later) ? date : later), null);
}

/** The query of a list's first page. */
export function listQuery({ include }: Stream, parameters: QueryParameters): string {
  return encodeQuery({ 'page[size]': pageSize, ...(include.length > 0 ? { include } : {}), ...parameters });
}

function warnSteppedBack(context: PullContext, pass: string): void {
  warn(context, `${pass}: the list had moved, or did not take its cursor; stepped back and read on from there`);
}

function warnFull(context: PullContext, pass: string): void {
  warn(context, `${pass}: the last page is full and has no next link; rows beyond it, if any, cannot be listed`);
}
