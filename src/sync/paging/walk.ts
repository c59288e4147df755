/**
 * Reads lists of the service: page by page, ahead of the database, or by id. A walk either reaches the end of its list
 * or fails, so it never skips rows silently.
 */

import type { ErrorCode } from '../../core/error-codes.ts';
import { WarehouseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import type { CursorMeaning } from '../../erp/runs/stored-stream.ts';
import { readId } from '../../warehouse/decoding/jsonapi.ts';
import { readPageCursor, setPageCursor } from '../../warehouse/transport/query.ts';

/** The members of a page that a walk needs. */
export interface WalkablePage {
  readonly data: readonly Json[];
  /** Query of the next page; null at the end; an error if the link cannot be followed. */
  readonly next: string | null | WarehouseError;
}

/** The place at which a walk begins: the start of the list (null query), or the page that the last walk reached. */
export interface WalkStart {
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
}

/** A page of a walk, and the state of the walk at that page. */
export interface WalkedPage<P extends WalkablePage> {
  readonly page: P;
  /** The query that fetched the page. */
  readonly query: string;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  readonly atEnd: boolean;
  /** True if the last page has the maximum length and no next link: the service may hide further rows. */
  readonly full: boolean;
  /** True if the list no longer had the rows seen before, and the walk stepped back. */
  readonly steppedBack: boolean;
}

/** The list to walk and the way to fetch its pages. */
export interface WalkOptions<P extends WalkablePage> {
  readonly firstQuery: string;
  readonly start: WalkStart;
  readonly fetch: (query: string, signal: AbortSignal) => Promise<P>;
  readonly signal: AbortSignal;
  /** Maximum number of rows of a page. */
  readonly pageSize: number;
  readonly maxPages?: number;
  /** True if the list is documented to be in ascending order of id. */
  readonly sorted: boolean;
}

/** Maximum number of pages, with 100 rows each. No expected list is longer. */
const defaultMaxPages = 200_000;
const firstStepBackRows = 200;
const maxStepsBack = 100;

/**
 * Walks a list page by page. The meaning of `page[cursor]` is not known (docs/interface.md, 2.6 Not shown), so the walk
 * learns it from the links. A walk that continues an earlier one fetches that walk's last page again, which works under
 * every meaning. It also checks that no row was skipped between the two walks.
 * @throws WarehouseError `link_repeats`, `too_many_pages` or `list_unstable` if the links do not lead to an end
 */
export async function* walk<P extends WalkablePage>(options: WalkOptions<P>): AsyncGenerator<WalkedPage<P>> {
  const { firstQuery, start, signal, pageSize, maxPages = defaultMaxPages } = options;
  const fetch = (query: string) => options.fetch(query, signal);
  let position: WalkPosition<P> =
    start.query === null
      ? { query: firstQuery, page: await fetch(firstQuery), steppedBack: false }
      : await resumeWalk(start.query, start, options, fetch);
  let meaning = start.meaning;
  const guard = new ProgressGuard(maxPages);
  for (;;) {
    const { query, page, steppedBack } = position;
    const lastId = findLastId(page.data);
    // An empty page is the end of the list, even if it has a next link.
    const next = page.data.length === 0 ? null : page.next;
    if (typeof next === 'string') meaning = learnMeaning(meaning, query, page.data.length, lastId, next);
    const problem = next instanceof WarehouseError ? next : guard.check(query, next, steppedBack);
    const full = page.next === null && page.data.length >= pageSize;
    yield { page, query, meaning, lastId, atEnd: next === null, full, steppedBack };
    // Thrown after the yield: the rows of the page are good even if its link is not.
    if (problem !== null) throw problem;
    if (typeof next !== 'string') return;
    position = await fetchNext(page, next, { query: next, meaning, lastId }, options, fetch);
  }
}

/** The current page of a walk, and the query that fetched it. */
interface WalkPosition<P> {
  readonly query: string;
  readonly page: P;
  readonly steppedBack: boolean;
}

/**
 * Fetches the next page. If cursors are offsets, a row that leaves the list during the walk moves the later rows up,
 * and one of them could be skipped. Therefore the page is fetched from one row earlier, and must contain the last row
 * seen.
 */
async function fetchNext<P extends WalkablePage>(
  { data }: P,
  next: string,
  after: WalkStart,
  options: WalkOptions<P>,
  fetch: (query: string) => Promise<P>,
): Promise<WalkPosition<P>> {
  const cursor = readPageCursor(next);
  if (!options.sorted || after.meaning !== 'offset' || cursor === null || data.length < 2) {
    return { query: next, page: await fetch(next), steppedBack: false };
  }
  return resumeWalk(setPageCursor(next, cursor - 1), after, options, fetch);
}

/** Guards a walk against endless lists: repeated links, too many pages and too many steps back. */
class ProgressGuard {
  readonly #maxPages: number;
  #followed = new Set<string>();
  #pages = 0;
  #stepsBack = 0;

  constructor(maxPages: number) {
    this.#maxPages = maxPages;
  }

  /** Returns the error if `next` must not be followed from the page of `query`; null if it may be followed. */
  check(query: string, next: string | null, steppedBack: boolean): WarehouseError | null {
    this.#pages++;
    // After a step back, the walk meets the same pages again.
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

/** Returns the ids of the rows. Skips rows without a readable id; the decoder reports them. */
export function readIds(data: readonly Json[]): number[] {
  return data.map(readId).filter((id) => id !== null);
}

function findLastId(data: readonly Json[]): number | null {
  return readIds(data).at(-1) ?? null;
}

/** Returns the meaning of the cursors, judged by the next one. Keeps the known meaning if it fits both meanings. */
function learnMeaning(
  before: CursorMeaning,
  query: string,
  rows: number,
  lastId: number | null,
  next: string | null,
): CursorMeaning {
  if (next === null) return before;
  const [cursor, nextCursor] = [readPageCursor(query), readPageCursor(next)];
  const isId = nextCursor !== null && nextCursor === lastId;
  const isOffset = nextCursor !== null && cursor !== null && nextCursor === cursor + rows;
  if (isId && isOffset) return before;
  return isId ? 'id' : isOffset ? 'offset' : 'opaque';
}

/**
 * Fetches the last page of the previous walk again. If cursors are ids, nothing can be skipped. Otherwise rows may have
 * left the list, so the page must contain the last row seen or, in a sorted list, an earlier row. If it does not, the
 * walk steps back by 200, 400, 800 rows and so on, and finally to the start. If the cursor's meaning is opaque or the
 * list is not sorted, the walk returns to the start at once.
 */
async function resumeWalk<P extends WalkablePage>(
  query: string,
  { meaning, lastId }: WalkStart,
  { firstQuery, sorted }: WalkOptions<P>,
  fetch: (query: string) => Promise<P>,
): Promise<WalkPosition<P>> {
  const page = await fetch(query).catch((error: unknown) => {
    if (query === firstQuery || !isCursorRefused(error)) throw error;
    return null;
  });
  const continuesList = (candidate: P) =>
    lastId === null || readIds(candidate.data).some((id) => id === lastId || (sorted && id < lastId));
  if (page && (meaning === 'id' || query === firstQuery || continuesList(page)))
    return { query, page, steppedBack: false };
  const cursor = readPageCursor(query);
  if (page && sorted && meaning !== 'opaque' && cursor !== null) {
    for (let step = firstStepBackRows; step < cursor; step *= 2) {
      const earlier = setPageCursor(query, cursor - step);
      const candidate = await fetch(earlier);
      if (continuesList(candidate)) return { query: earlier, page: candidate, steppedBack: true };
    }
  }
  return { query: firstQuery, page: await fetch(firstQuery), steppedBack: true };
}

/** Returns true if the service refuses a query from its own link, for example because the cursor is too old. */
function isCursorRefused(error: unknown): boolean {
  if (!(error instanceof WarehouseError) || error.outcome !== 'refused') return false;
  return [400, 404, 410, 422].includes(error.status ?? 0);
}
