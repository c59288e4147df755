import type { Transaction } from 'kysely';
import { addDays, utcDay } from '../../core/time.ts';
import type { DB } from '../../erp/generated/tables.ts';
import { type Cursor, type CursorPass, readCursor, saveCursor } from '../../erp/pull/cursors.ts';
import { encodeQuery, type QueryParameters } from '../../warehouse/transport/query.ts';
import { commitReading } from '../commit/commit-reading.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';
import { pageSize, walkPages } from './list-page.ts';
import { idsOf } from './walk.ts';

/**
 * Walks on from where the last run stood, for ever. For lists sorted by ascending id, where new rows come at the end.
 * @returns whether the walk had reached its end in an earlier run, that is: whether the first load is behind us
 */
export async function walkOn(
  context: PullContext,
  stream: Stream,
  pass: CursorPass,
  parameters: QueryParameters,
): Promise<boolean> {
  const start = await readCursor(context.db, context.client, stream.name, pass);
  let cursor = start;
  let { completed } = start;
  const pages = walkPages(context, stream, listQuery(stream, parameters), start, true);
  for await (const { page, query, meaning, lastId, atEnd, full, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (full) warnFull(context, pass);
    // An empty page moves nothing: the walk stands on the last page that held rows.
    const moved = lastId === null ? { ...cursor, meaning } : { ...cursor, query, meaning, lastId };
    const stands = isSamePlace(cursor, moved) && (completed || !atEnd);
    await commitReading(context, stream, page, stands ? null : savesCursor(context, stream, pass, moved, atEnd));
    cursor = moved;
    completed ||= atEnd;
  }
  return start.completed;
}

/** A walk over a whole list, which keeps no cursor. */
type WholePass = 'open' | 'settle';

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
  pass: WholePass,
  parameters: QueryParameters,
  warnWhenFull = true,
): Promise<Listed> {
  const ids = new Set<number>();
  let whole = true;
  const start = { query: null, meaning: 'unknown', lastId: null } as const;
  const pages = walkPages(context, stream, listQuery(stream, parameters), start, stream.rescan.sorted);
  for await (const { page, full, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (full) {
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
  pass: CursorPass,
  window: DateWindow,
  parameters: QueryParameters,
): Promise<Windowed> {
  let [whole, rows] = [true, 0];
  const stored = await readCursor(context.db, context.client, stream.name, pass);
  // What it has passed may have changed since: a watermark from both halves would be past days nobody asked for.
  const before = stored.stale ? { ...stored, query: null, lastId: null, largestSeen: null } : stored;
  let largest = before.largestSeen;
  let at = stored;
  const asked = await windowStart(before, window, context);
  const firstQuery = listQuery(stream, { ...parameters, ...(asked === null ? {} : { [window.filter]: asked }) });
  const pages = walkPages(context, stream, firstQuery, before, false);
  for await (const { page, query, meaning, lastId, atEnd, full, steppedBack } of pages) {
    if (steppedBack) warnSteppedBack(context, pass);
    if (full) {
      whole = false;
      warnFull(context, pass);
    }
    rows += page.data.length;
    if (page.dateMs === null) warn(context, `${pass}: the service sends no Date, so the watermark cannot move`);
    const cap = page.dateMs === null ? '' : addDays(utcDay(page.dateMs), 1);
    const values = page.decoded.families.map(({ parent }) => parent[window.column]);
    // A time counts by its day: a day more or less is what the lookback is for.
    const dates = values.filter((value) => typeof value === 'string').map((value) => value.slice(0, 10));
    largest = laterOf([largest, ...dates.filter((date) => date <= cap)]);
    const watermark = laterOf([before.watermark, largest]);
    const next: Cursor = atEnd
      ? { ...before, query: null, meaning, lastId: null, largestSeen: null, watermark }
      : { ...before, query, meaning, lastId, largestSeen: largest };
    const stands = isSamePlace(at, next) && (stored.completed || !atEnd);
    await commitReading(context, stream, page, stands ? null : savesCursor(context, stream, pass, next, atEnd));
    at = next;
  }
  return { rows, whole, firstLoadDone: before.completed };
}

/**
 * The date to ask after, null for the beginning: filters are exclusive, so one day more than the lookback. Where walks have
 * found nothing so far, the service is not asked for its clock each time: twice as far back, the database's will do.
 */
async function windowStart(
  { watermark, completed }: Cursor,
  window: DateWindow,
  { warehouse, state: { service }, signal, run, lookbackDays }: PullContext,
): Promise<string | null> {
  if (watermark !== null) return addDays(watermark, -lookbackDays - 1);
  if (window.firstRunDays === null) return null;
  if (completed) return addDays(utcDay(run.startedAt.getTime()), -2 * window.firstRunDays);
  service.firstMs ??= await warehouse.clock(signal);
  return addDays(utcDay(service.firstMs ?? run.startedAt.getTime()), -window.firstRunDays);
}

/** Whether two cursors stand at the same place, and know the same. */
function isSamePlace(a: Cursor, b: Cursor): boolean {
  const placeOf = ({ query, meaning, lastId, largestSeen, watermark }: Cursor) =>
    JSON.stringify([query, meaning, lastId, largestSeen, watermark]);
  return placeOf(a) === placeOf(b);
}

/** What a page is written with, so that the walk goes on from there. */
function savesCursor({ client }: PullContext, stream: Stream, pass: CursorPass, cursor: Cursor, atEnd: boolean) {
  return async (trx: Transaction<DB>) => {
    await saveCursor({ trx, client, stream: stream.name }, pass, cursor, atEnd);
    return { changes: [], result: null };
  };
}

function laterOf(dates: readonly (string | null)[]): string | null {
  return dates.reduce((later, date) => (date !== null && (later === null || date > later) ? date : later), null);
}

/** The query of a list's first page. */
export function listQuery({ include }: Stream, parameters: QueryParameters): string {
  return encodeQuery({ 'page[size]': pageSize, ...(include.length > 0 ? { include } : {}), ...parameters });
}

function warnSteppedBack(context: PullContext, pass: CursorPass | WholePass): void {
  warn(context, `${pass}: the list had moved, or did not take its cursor; stepped back and read on from there`);
}

function warnFull(context: PullContext, pass: CursorPass | WholePass): void {
  warn(context, `${pass}: the last page is full and has no next link; rows beyond it, if any, cannot be listed`);
}
