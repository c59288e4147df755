/**
 * Ways through a list: walks from page to page, ahead of the database, and reads by id. A walk either reaches the end
 * of its list or fails, so nothing is skipped silently.
 */

import type { ErrorCode } from '../../core/error-codes.ts';
import { WarehouseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import type { CursorMeaning } from '../../erp/pull/cursors.ts';
import { readId } from '../../warehouse/decoding/jsonapi.ts';
import { cursorOf, withCursor } from '../../warehouse/transport/query.ts';

/** One page as the walk sees it. */
export interface WalkablePage {
  readonly data: readonly Json[];
  /** Query of the next page, null at the end; an error where the link cannot be followed. */
  readonly next: string | null | WarehouseError;
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
  /** The last page, as long as it may be, without a next link: there may be more that the service does not show. */
  readonly full: boolean;
  /** True where the list no longer held what was seen before and the walk had to step back. */
  readonly steppedBack: boolean;
}

export interface WalkOptions<P extends WalkablePage> {
  readonly firstQuery: string;
  readonly start: WalkStart;
  readonly fetch: (query: string, signal: AbortSignal) => Promise<P>;
  readonly signal: AbortSignal;
  /** Rows that a page may have. */
  readonly pageSize: number;
  readonly maxPages?: number;
  /** Whether the list is said to be in ascending order of id. */
  readonly sorted: boolean;
}

/** More pages than any list this product is made for (100 rows each). */
const defaultMaxPages = 200_000;
const firstStepBack = 200;
const maxStepsBack = 100;

/**
 * Walks a list page by page (interface.md, Pagination). The meaning of `page[cursor]` is
 * not shown there, so it is learned on the way; a walk that goes on where an earlier one stood asks that page again, which
 * is right under every meaning, and checks that no row slipped through between.
 * @throws WarehouseError `link_repeats` or `too_many_pages` where the links lead nowhere
 */
export async function* walk<P extends WalkablePage>(options: WalkOptions<P>): AsyncGenerator<WalkedPage<P>> {
  const { firstQuery, start, signal, pageSize, maxPages = defaultMaxPages } = options;
  const fetch = (query: string) => options.fetch(query, signal);
  let standing: Standing<P> =
    start.query === null
      ? { query: firstQuery, page: await fetch(firstQuery), steppedBack: false }
      : await resume(start.query, start, options, fetch);
  let meaning = start.meaning;
  const guard = new ProgressGuard(maxPages);
  for (;;) {
    const { query, page, steppedBack } = standing;
    const lastId = lastIdOf(page.data);
    // An empty page is a normal end, whatever its links say.
    const next = page.data.length === 0 ? null : page.next;
    if (typeof next === 'string') meaning = learn(meaning, query, page.data.length, lastId, next);
    const problem = next instanceof WarehouseError ? next : guard.check(query, next, steppedBack);
    const full = page.next === null && page.data.length >= pageSize;
    yield { page, query, meaning, lastId, atEnd: next === null, full, steppedBack };
    // Only now: a link that leads nowhere takes nothing from the rows beside it.
    if (problem !== null) throw problem;
    if (typeof next !== 'string') return;
    standing = await goOn(page, next, { query: next, meaning, lastId }, options, fetch);
  }
}

/** Where a walk stands: a page, and the query it was asked with. */
interface Standing<P> {
  readonly query: string;
  readonly page: P;
  readonly steppedBack: boolean;
}

/**
 * Asks the next page. Under an offset rows that leave the list while it is walked move all others up, past the page
 * boundary; so the page is asked from one row earlier, and the last row seen must stand on it.
 */
async function goOn<P extends WalkablePage>(
  { data }: P,
  next: string,
  after: WalkStart,
  options: WalkOptions<P>,
  fetch: (query: string) => Promise<P>,
): Promise<Standing<P>> {
  const cursor = cursorOf(next);
  if (!options.sorted || after.meaning !== 'offset' || cursor === null || data.length < 2) {
    return { query: next, page: await fetch(next), steppedBack: false };
  }
  return resume(withCursor(next, cursor - 1), after, options, fetch);
}

/** Sees to it that a walk gets on: no page twice, not too many pages, not back for ever. */
class ProgressGuard {
  readonly #maxPages: number;
  #followed = new Set<string>();
  #pages = 0;
  #stepsBack = 0;

  constructor(maxPages: number) {
    this.#maxPages = maxPages;
  }

  /** What is wrong with following `next` from the page that `query` gave; null where nothing is. */
  check(query: string, next: string | null, steppedBack: boolean): WarehouseError | null {
    this.#pages++;
    // After a step back, pages are rightly seen again.
    if (steppedBack) this.#followed = new Set();
    if (steppedBack) this.#stepsBack++;
    this.#followed.add(query);
    if (next === null) return null;
    const failure = (code: ErrorCode, text: string) => new WarehouseError(code, text, { outcome: 'refused' });
    if (this.#followed.has(next)) return failure('link_repeats', 'The list leads back to a page that was read already');
    if (this.#pages >= this.#maxPages) {
      return failure('too_many_pages', `The list did not end after ${this.#maxPages} pages`);
    }
    if (this.#stepsBack > maxStepsBack) {
      return failure('list_unstable', `Rows left the list ${this.#stepsBack} times while it was walked`);
    }
    this.#followed.add(next);
    return null;
  }
}

/** Ids of the rows, as far as they can be read; undecodable rows are the decoder's business. */
export function idsOf(data: readonly Json[]): number[] {
  return data.map(readId).filter((id) => id !== null);
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

/**
 * Asks the page on which the last walk stood. Under a cursor that is an id nothing can be missed. Otherwise the list may
 * have moved below the cursor, so the last row seen, or in a sorted list one before it, must be on the page: where none
 * is, step back, by 200, 400, 800 rows, the very start at last. A cursor of unknown make, or a list without a known
 * order, leaves only the start.
 */
async function resume<P extends WalkablePage>(
  query: string,
  { meaning, lastId }: WalkStart,
  { firstQuery, sorted }: WalkOptions<P>,
  fetch: (query: string) => Promise<P>,
): Promise<Standing<P>> {
  const page = await fetch(query).catch((error: unknown) => {
    if (query === firstQuery || !isCursorRefused(error)) throw error;
    return null;
  });
  const joins = (candidate: P) =>
    lastId === null || idsOf(candidate.data).some((id) => id === lastId || (sorted && id < lastId));
  if (page && (meaning === 'id' || query === firstQuery || joins(page))) return { query, page, steppedBack: false };
  const cursor = cursorOf(query);
  if (page && sorted && meaning !== 'opaque' && cursor !== null) {
    for (let step = firstStepBack; step < cursor; step *= 2) {
      const earlier = withCursor(query, cursor - step);
      const candidate = await fetch(earlier);
      if (joins(candidate)) return { query: earlier, page: candidate, steppedBack: true };
    }
  }
  return { query: firstQuery, page: await fetch(firstQuery), steppedBack: true };
}

/** The service no longer takes the query it gave out itself: an old cursor, say. */
function isCursorRefused(error: unknown): boolean {
  if (!(error instanceof WarehouseError) || error.outcome !== 'refused') return false;
  return [400, 404, 410, 422].includes(error.status ?? 0);
}
