import { WarehouseError } from '../core/errors.ts';
import { isObject, type Json } from '../core/json.ts';
import type { CursorMeaning } from '../erp/progress.ts';
import { cursorOf, withCursor } from '../warehouse/query.ts';

/** One page as the walk sees it. */
export interface WalkablePage {
  readonly data: readonly Json[];
  readonly next: string | null;
}

/** Where a walk begins anew: from the start, or at the page where the last one stood. */
export interface WalkStart {
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
}

/** A page with what was learned on the way to it. */
export interface WalkedPage<P extends WalkablePage> {
  readonly page: P;
  /** The query it was asked with. */
  readonly query: string;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  readonly atEnd: boolean;
  /** True where the list no longer held what was seen before and the walk had to step back. */
  readonly steppedBack: boolean;
}

export interface WalkOptions<P extends WalkablePage> {
  readonly firstQuery: string;
  readonly start: WalkStart;
  readonly fetch: (query: string, signal: AbortSignal) => Promise<P>;
  readonly signal: AbortSignal;
  readonly maxPages?: number;
}

/** More pages than any list this product is made for (100 rows each). */
const defaultMaxPages = 200_000;
const firstStepBack = 200;

/**
 * Walks a list sorted by ascending id (interface.md, Pagination) page by page, one page ahead of the consumer. The
 * meaning of `page[cursor]` is not shown there, so it is learned on the way; a walk that goes on where an earlier one
 * stood asks that page again, which is right under every meaning, and checks that no row slipped through between.
 * @throws WarehouseError `link_repeats` or `too_many_pages` where the links lead nowhere
 */
export async function* walk<P extends WalkablePage>(options: WalkOptions<P>): AsyncGenerator<WalkedPage<P>> {
  const { firstQuery, start, maxPages = defaultMaxPages } = options;
  const ahead = new AbortController();
  const signal = AbortSignal.any([options.signal, ahead.signal]);
  const fetch = (query: string) => options.fetch(query, signal);
  const begun = start.query === null ? null : await resume(start.query, start, firstQuery, fetch);
  let query = begun?.query ?? firstQuery;
  let page = begun?.page ?? (await fetch(query));
  let meaning = start.meaning;
  const asked = new Set([query]);
  for (let pages = 1; ; pages++) {
    const lastId = lastIdOf(page.data);
    // An empty page is a normal end, whatever its links say.
    const next = page.data.length === 0 ? null : page.next;
    meaning = learn(meaning, query, page.data.length, lastId, next);
    if (next !== null) guard(asked, next, pages, maxPages);
    const prefetch = next === null ? null : settled(fetch(next));
    let consumed = false;
    try {
      const steppedBack = pages === 1 && (begun?.steppedBack ?? false);
      yield { page, query, meaning, lastId, atEnd: next === null, steppedBack };
      consumed = true;
    } finally {
      // The consumer left (it failed, or needs no more): the page fetched ahead is called off, not left behind.
      if (!consumed) ahead.abort();
      if (!consumed) await prefetch;
    }
    if (next === null || prefetch === null) return;
    const fetched = await prefetch;
    if ('error' in fetched) throw fetched.error;
    query = next;
    page = fetched.page;
  }
}

/** A promise as its outcome, so that a page fetched ahead may fail before anyone looks. */
async function settled<P>(promise: Promise<P>): Promise<{ page: P } | { error: unknown }> {
  return promise.then(
    (page) => ({ page }),
    (error: unknown) => ({ error }),
  );
}

function guard(asked: Set<string>, next: string, pages: number, maxPages: number): void {
  if (asked.has(next)) {
    throw new WarehouseError('link_repeats', `The list leads back to a page that was read already: page ${pages + 1}`, {
      outcome: 'refused',
    });
  }
  if (pages >= maxPages) {
    throw new WarehouseError('too_many_pages', `The list did not end after ${maxPages} pages`, { outcome: 'refused' });
  }
  asked.add(next);
}

/** Ids of the rows, as far as they can be read; undecodable rows are the decoder's business. */
export function idsOf(data: readonly Json[]): number[] {
  return data
    .map((resource) => (isObject(resource) ? Number(resource.id) : Number.NaN))
    .filter((id) => Number.isSafeInteger(id) && id > 0);
}

function lastIdOf(data: readonly Json[]): number | null {
  return idsOf(data).at(-1) ?? null;
}

/** What the next cursor was made from. Where several readings fit, what was known before stands. */
function learn(
  before: CursorMeaning,
  query: string,
  rows: number,
  lastId: number | null,
  next: string | null,
): CursorMeaning {
  if (next === null) return before;
  const [cursor, nextCursor] = [cursorOf(query), cursorOf(next)];
  const isId = nextCursor !== null && nextCursor === lastId;
  const isOffset = nextCursor !== null && cursor !== null && nextCursor === cursor + rows;
  if (isId && isOffset) return before;
  return isId ? 'id' : isOffset ? 'offset' : 'opaque';
}

interface Resumed<P> {
  readonly query: string;
  readonly page: P;
  readonly steppedBack: boolean;
}

/**
 * Asks the page on which the last walk stood. Under a cursor that is an id nothing can be missed. Otherwise the list may
 * have moved below the cursor, so a row at or before the last one seen must be on the page: where none is, step back,
 * by 200, 400, 800 rows, the very start at last. A cursor of unknown make leaves only the start.
 */
async function resume<P extends WalkablePage>(
  query: string,
  { meaning, lastId }: WalkStart,
  firstQuery: string,
  fetch: (query: string) => Promise<P>,
): Promise<Resumed<P>> {
  const page = await fetch(query);
  const joins = (candidate: P) => lastId === null || idsOf(candidate.data).some((id) => id <= lastId);
  if (meaning === 'id' || query === firstQuery || joins(page)) return { query, page, steppedBack: false };
  const cursor = cursorOf(query);
  if (meaning !== 'opaque' && cursor !== null) {
    for (let step = firstStepBack; step < cursor; step *= 2) {
      const earlier = withCursor(query, cursor - step);
      const candidate = await fetch(earlier);
      if (joins(candidate)) return { query: earlier, page: candidate, steppedBack: true };
    }
  }
  return { query: firstQuery, page: await fetch(firstQuery), steppedBack: true };
}

/** A page as long as asked for, without a next link: there may be more that the service does not show. */
export function isSuspiciouslyFull(page: WalkablePage, pageSize: number): boolean {
  return page.next === null && page.data.length >= pageSize;
}
