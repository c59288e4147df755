/**
 * Walks lists of the service page by page. A walk either reaches the end of its list or fails, so
 * it never skips rows silently.
 */

import { createHash } from 'node:crypto';
import type { OperationName } from '../../config/operations.ts';
import type { ErrorCode } from '../core/error-codes.ts';
import { toStopError, WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import type { CursorMeaning } from '../schedule/sql/ledger.ts';
import type { ListPage, Warehouse } from '../service/client.ts';
import { readId } from '../service/decoding/jsonapi.ts';
import { concernsWholeClient } from '../service/health/evidence.ts';
import {
  encodeQuery,
  type QueryParameters,
  readPageCursor,
  setPageCursor,
} from '../service/transport/query.ts';
import type { Reading } from './commit.ts';
import { decodePage, QuarantineShareError } from './decode.ts';
import { drawReadNo, noCursor } from './sql/stream-transaction.ts';
import type { DayWindow } from './sql/unlisted.ts';
import type { StreamContext } from './stream.ts';

/** The members of a page that a walk needs. */
export interface WalkablePage {
  readonly data: readonly Json[];
  /** Query of the next page; null at the end; an error if the link cannot be followed. */
  readonly next: string | null | WarehouseError;
  /** Number of characters of the answer. */
  readonly size: number;
  /** Gives back the memory that the page holds (src/service/transport/answer-budget.ts). */
  readonly release: () => void;
}

/**
 * The place at which a walk begins: the start of the list (null query), or the page that the last
 * walk reached.
 */
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
  /**
   * True if the only page has the maximum length and no next link: the service may hide further
   * rows.
   */
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
/**
 * Maximum number of empty pages in a row. A service that filters after it has divided the list into
 * pages has empty pages between others, so an empty page with a link is no end.
 */
const maxEmptyPages = 100;
const firstStepBackRows = 200;
const maxStepsBack = 100;

/**
 * Walks a list page by page. The meaning of `page[cursor]` is not known (docs/interface.md, 2.6 Not
 * shown), so the walk learns it from the links. A walk that continues an earlier one fetches that
 * walk's last page again, which works under every meaning. It also checks that no row was skipped
 * between the two walks.
 * @throws WarehouseError `link_repeats`, `too_many_pages` or `list_unstable` if the links do not
 *   lead to an end
 */
export async function* walk<P extends WalkablePage>(
  options: WalkOptions<P>,
): AsyncGenerator<WalkedPage<P>, void, void> {
  const { firstQuery, start, signal, pageSize, maxPages = defaultMaxPages } = options;
  const guard = new ProgressGuard(maxPages);
  let { meaning } = start;

  const fetch = async (query: string) => {
    if (signal.aborted) throw toStopError(signal);
    return options.fetch(query, signal);
  };
  const begin = async () => ({
    query: firstQuery,
    page: await fetch(firstQuery),
    steppedBack: false,
  });

  // It ends before the next page is fetched, so that nothing of its page is kept but what the next
  // step needs: a page may take a large part of the memory.
  async function* handOver(position: WalkPosition<P>) {
    const { query, page, steppedBack } = position;
    const lastId = readIds(page.data).at(-1) ?? null;
    const rows = page.data.length;

    const next = rows === 0 && leadsBack(query, page.next) ? null : page.next;
    if (typeof next === 'string' && rows > 0)
      meaning = learnMeaning(meaning, { query, rows, lastId }, next);
    const problem =
      next instanceof WarehouseError ? next : guard.check(query, next, { rows, steppedBack });

    // A service that gave a link before, in this list or an earlier walk of it, gives one to the
    // last page, too.
    const givesLinks = query !== firstQuery || meaning !== 'unknown';
    const full = page.next === null && rows >= pageSize && !givesLinks;
    yield { page, query, meaning, lastId, atEnd: next === null, full, steppedBack };

    // Thrown after the page was handed over: its rows are good even if its link is not.
    if (problem !== null) throw problem;
    return typeof next === 'string' ? { query: next, rows, meaning, lastId } : null;
  }

  let step: NextStep | null = yield* handOver(
    start.query === null ? await begin() : await resumeWalk(start.query, start, options, fetch),
  );
  while (step !== null) step = yield* handOver(await fetchNext(step, options, fetch));
}

/** Returns true if an empty page is the last: its link leads to itself or to an earlier page. */
function leadsBack(query: string, next: WalkablePage['next']): boolean {
  if (typeof next !== 'string') return false;
  const [cursor, nextCursor] = [readPageCursor(query), readPageCursor(next)];
  return cursor === null || nextCursor === null ? next === query : nextCursor <= cursor;
}

/** The current page of a walk, and the query that fetched it. */
interface WalkPosition<P> {
  readonly query: string;
  readonly page: P;
  readonly steppedBack: boolean;
}

/** The next page to fetch, and what is known of the page before it. */
interface NextStep extends WalkStart {
  readonly query: string;
  readonly rows: number;
}

/**
 * Fetches the next page. If cursors are offsets, a row that leaves the list during the walk moves
 * the later rows up, and one of them could be skipped. Therefore the page is fetched from one row
 * earlier, and must contain the last row seen.
 */
async function fetchNext<P extends WalkablePage>(
  next: NextStep,
  options: WalkOptions<P>,
  fetch: (query: string) => Promise<P>,
): Promise<WalkPosition<P>> {
  const { query, rows, meaning } = next;
  const cursor = readPageCursor(query);
  if (!options.sorted || meaning !== 'offset' || cursor === null || rows < 2)
    return { query, page: await fetch(query), steppedBack: false };
  return resumeWalk(setPageCursor(query, cursor - 1), next, options, fetch);
}

/**
 * Guards a walk against endless lists: repeated links, too many pages, empty pages and steps back.
 */
class ProgressGuard {
  readonly #maxPages: number;
  /** Hashes of the queries that were followed. A query may have thousands of characters. */
  #followed = new Set<string>();
  #pages = 0;
  #emptyPages = 0;
  #stepsBack = 0;

  constructor(maxPages: number) {
    this.#maxPages = maxPages;
  }

  /**
   * Returns the error if `next` must not be followed from the page of `query`; null if it may be
   * followed.
   */
  check(
    query: string,
    next: string | null,
    { rows, steppedBack }: { readonly rows: number; readonly steppedBack: boolean },
  ): WarehouseError | null {
    this.#pages++;
    this.#emptyPages = rows === 0 ? this.#emptyPages + 1 : 0;
    // After a step back, the walk meets the same pages again.
    if (steppedBack) this.#followed = new Set();
    if (steppedBack) this.#stepsBack++;
    this.#followed.add(toHash(query));
    if (next === null) return null;

    const hash = toHash(next);
    if (this.#followed.has(hash))
      return refuse('link_repeats', 'The list leads back to a page that was read already');
    if (this.#pages >= this.#maxPages)
      return refuse('too_many_pages', `The list did not end after ${this.#maxPages} pages`);
    if (this.#emptyPages >= maxEmptyPages)
      return refuse(
        'too_many_pages',
        `The list has ${maxEmptyPages} empty pages in a row, and the last one links to another`,
      );
    if (this.#stepsBack > maxStepsBack)
      return refuse(
        'list_unstable',
        `Rows left the list ${this.#stepsBack} times while it was walked`,
      );

    this.#followed.add(hash);
    return null;
  }
}

const refuse = (code: ErrorCode, text: string) =>
  new WarehouseError(code, text, { outcome: 'refused' });

const toHash = (query: string) => createHash('sha256').update(query).digest('base64');

/** Returns the ids of the rows. Skips rows without a readable id; the decoder reports them. */
export function readIds(data: readonly Json[]): number[] {
  return data.map(readId).filter((id) => id !== null);
}

/**
 * Returns the meaning of the cursors, judged by the next one. Keeps the known meaning if it fits
 * both meanings.
 */
function learnMeaning(
  before: CursorMeaning,
  { query, rows, lastId }: { query: string; rows: number; lastId: number | null },
  next: string,
): CursorMeaning {
  const [cursor, nextCursor] = [readPageCursor(query), readPageCursor(next)];
  const isId = nextCursor !== null && nextCursor === lastId;
  const isOffset = nextCursor !== null && cursor !== null && nextCursor === cursor + rows;
  if (isId && isOffset) return before;
  if (isId) return 'id';
  return isOffset ? 'offset' : 'opaque';
}

/**
 * Fetches the last page of the previous walk again. If cursors are ids, nothing can be skipped.
 * Otherwise rows may have left the list, so the page must contain the last row seen or, in a sorted
 * list, an earlier row. If it does not, the walk steps back by 200, 400, 800 rows and so on, and
 * finally to the start. If the cursor's meaning is opaque or the list is not sorted, the walk
 * returns to the start at once.
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
    lastId === null ||
    readIds(candidate.data).some((id) => id === lastId || (sorted && id < lastId));
  if (page && (meaning === 'id' || query === firstQuery || continuesList(page)))
    return { query, page, steppedBack: false };
  page?.release();

  const cursor = readPageCursor(query);
  if (page && sorted && meaning !== 'opaque' && cursor !== null) {
    for (let step = firstStepBackRows; step < cursor; step *= 2) {
      const earlier = setPageCursor(query, cursor - step);
      const candidate = await fetch(earlier);
      if (continuesList(candidate)) return { query: earlier, page: candidate, steppedBack: true };
      candidate.release();
    }
  }

  return { query: firstQuery, page: await fetch(firstQuery), steppedBack: true };
}

/**
 * Returns true if the service refuses a query from its own link, for example because the cursor is
 * too old.
 */
function isCursorRefused(error: unknown): boolean {
  if (!(error instanceof WarehouseError) || error.outcome !== 'refused') return false;
  return [400, 404, 410, 422].includes(error.status ?? 0);
}

/** A list of the service and the parameters for reading it. */
export interface ListQuery {
  readonly operation: OperationName;
  /** Members of the query: include, page size, filters. */
  readonly filter: QueryParameters;
  /** A list with more pages than this counts as unreadable. */
  readonly maxPages: number;
  readonly signal: AbortSignal;
}

/**
 * Reads all pages of a list, for look-ups of pushes.
 * @throws WarehouseError if a page cannot be read, or as `walk` does
 */
export async function* listPages(
  warehouse: Warehouse,
  { operation, filter, maxPages, signal }: ListQuery,
): AsyncGenerator<ListPage, void, void> {
  const fetch = async (query: string) => ({
    ...(await warehouse.list(operation, query, { signal })),
    release: () => undefined,
  });
  const firstQuery = encodeQuery(filter);
  const pages = walk({
    ...{ firstQuery, start: noCursor, fetch, signal, pageSize, maxPages, sorted: false },
  });

  for await (const { page } of pages) yield page;
}

/** Number of resources that we ask for on each page. */
const pageSize = 100;

/** A page of a list as rows, or several pages in a row as one. */
export type StreamPage = ListPage & Reading & { readonly release: () => void };

/**
 * Returns the query of a list's first page. Without `page[size]`, pages have 100 rows
 * (docs/interface.md, 2.4 Paging).
 */
const toListQuery = (
  { warehouse, stream: { list, include } }: StreamContext,
  parameters: QueryParameters,
): string =>
  encodeQuery({
    ...(warehouse.takesPageSize(list) ? { 'page[size]': pageSize } : {}),
    ...(include.length > 0 ? { include } : {}),
    ...parameters,
  });

/** Returns the filter of a list by a date attribute. Both bounds are exclusive. */
export const toDateFilter = (attribute: string, { after, before }: DayWindow): QueryParameters => ({
  ...(after === null ? {} : { [`filter[${attribute}][gt]`]: after }),
  ...(before === null ? {} : { [`filter[${attribute}][lt]`]: before }),
});

/** The part of a list to walk. */
interface ListWalk {
  readonly parameters: QueryParameters;
  readonly start: WalkStart;
  /** True if the list is in ascending order of id; default: what its stream says. */
  readonly sorted?: boolean;
}

/**
 * Walks a stream's list, and hands each page to `write` until it returns `stop`. Reads pages ahead
 * of it.
 */
export function walkList(
  context: StreamContext,
  { parameters, start, sorted = context.stream.rescan.sorted }: ListWalk,
  write: (walked: WalkedPage<StreamPage>) => Promise<unknown>,
): Promise<void> {
  const firstQuery = toListQuery(context, parameters);
  const fetch = (query: string, signal: AbortSignal) => fetchPage(context, query, signal);
  const begin = (abandoned: AbortSignal) => {
    const signal = AbortSignal.any([context.signal, abandoned]);
    return walk({ firstQuery, start, fetch, signal, pageSize, sorted });
  };

  return walkAhead(begin, write);
}

/**
 * Fetches and decodes one page of a stream's list. Draws the reading's number again before each
 * send, also before a repeated one, because an answer is as old as its request. The caller releases
 * the page when it is committed.
 */
async function fetchPage(
  context: StreamContext,
  query: string,
  signal: AbortSignal,
): Promise<StreamPage> {
  const { stream, state } = context;
  const { service } = state;
  let readNo = 0;
  const beforeSend = async () => {
    readNo = context.run.takeReadNo() ?? (await drawReadNo(context.db));
  };
  let release: () => void = () => undefined;
  const keep = (given: () => void) => {
    release = given;
  };
  try {
    const page = await context.warehouse.list(stream.list, query, { signal, beforeSend, keep });
    service.firstMs ??= page.dateMs;
    service.lastMs = page.dateMs ?? service.lastMs;
    const decoded = await decodePage({ ...page, readNo }, stream.decoder(context.zone));
    return { ...page, readNo, pages: 1, received: page.data.length, decoded, release };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Maximum number of pages that are requested ahead. It is also the maximum number of pages that are
 * joined.
 */
export const maxPagesAhead = 4;
/**
 * A page with more characters than this takes a large part of the memory: no page is requested
 * ahead of it, and it is written alone.
 */
const maxSizeAhead = 4_000_000;

type Walked = WalkedPage<StreamPage>;

/** Pages in a row that are written together. */
type PageGroup = readonly [Walked, ...Walked[]];

/**
 * Walks a list ahead of `write`. Requests the next pages while it writes, and joins the pages that
 * have arrived by then. If the service is slower, each page is written at once; if the database is
 * slower, several pages are written in one transaction. Releases each page after it was written.
 * @param begin begins the walk; the signal ends it
 * @param write ends the walk early if it returns `stop`
 * @throws the error of the walk, after all earlier pages were written; or the error of `write`
 */
export async function walkAhead(
  begin: (signal: AbortSignal) => AsyncGenerator<Walked, void, void>,
  write: (walked: Walked) => Promise<unknown>,
): Promise<void> {
  await using pages = new Prefetch(begin);

  // A function of its own: this one would keep a page in memory while it waits for the next.
  const writeNext = async () => {
    const group = await pages.takeGroup();
    if (group === null) return 'stop';

    const result = await write(joinGroup(group));

    pages.release(group);
    return result;
  };
  while ((await writeNext()) !== 'stop');
}

/**
 * Fetches the pages of a walk while earlier ones are written: up to `maxPagesAhead`, but none ahead
 * of a large page. Disposal ends the walk, waits for its open request, and releases every page.
 */
class Prefetch implements AsyncDisposable {
  readonly #walk: AsyncGenerator<Walked, void, void>;
  readonly #abandoned = new AbortController();
  readonly #arrived: Walked[] = [];
  /** The group that is being written. */
  #taken: readonly Walked[] = [];
  /** The page that is being fetched; null if none is. */
  #fetching: Promise<void> | null = null;
  /** How the walk ended; null before. */
  #end: { readonly error?: unknown } | null = null;

  constructor(begin: (signal: AbortSignal) => AsyncGenerator<Walked, void, void>) {
    this.#walk = begin(this.#abandoned.signal);
    this.#fetch();
  }

  /**
   * Returns the next page, with those behind it that have arrived and may be joined with it; null
   * at the end of the walk. Waits for a page if none has arrived.
   * @throws the error of the walk, after all its pages
   */
  async takeGroup(): Promise<PageGroup | null> {
    while (this.#arrived.length === 0 && this.#fetching !== null) await this.#fetching;

    const first = this.#arrived.shift();
    if (first === undefined && this.#end !== null && 'error' in this.#end) throw this.#end.error;
    if (first === undefined) return null;

    const firstAlone = [first, ...this.#arrived].findIndex((walked) => !mayJoin(walked));
    const joined = firstAlone < 0 ? this.#arrived.length : Math.max(0, firstAlone - 1);
    const group: PageGroup = [first, ...this.#arrived.splice(0, joined)];
    this.#taken = group;
    this.#fetch();
    return group;
  }

  /** Gives back the memory of a group that was written. */
  release(group: PageGroup): void {
    for (const { page } of group) page.release();
    this.#taken = [];
    this.#fetch();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abandoned.abort();
    await this.#fetching;
    await this.#walk.return();
    for (const { page } of [...this.#taken, ...this.#arrived]) page.release();
  }

  /** Fetches the next page, if there is room for it, and then those behind it. */
  #fetch(): void {
    if (this.#fetching !== null || this.#end !== null || !this.#hasRoom()) return;

    this.#fetching = this.#walk
      .next()
      .then(
        ({ value }) => {
          if (value === undefined) this.#end = {};
          else this.#arrived.push(value);
        },
        (error: unknown) => {
          this.#end = { error };
        },
      )
      .then(() => {
        this.#fetching = null;
        this.#fetch();
      });
  }

  #hasRoom(): boolean {
    return (
      !this.#abandoned.signal.aborted &&
      this.#arrived.length < maxPagesAhead &&
      this.#arrived.every(isSmall) &&
      this.#taken.every(isSmall)
    );
  }
}

const isSmall = ({ page }: Walked) => page.size <= maxSizeAhead;

/**
 * Returns whether a page may be joined with others. One with undecodable resources is not, so that
 * too many of them fail only that page.
 */
const mayJoin = (walked: Walked) => isSmall(walked) && walked.page.decoded.quarantined.length === 0;

/** Joins a group into one page. Its place is that of the last page with rows. */
function joinGroup(group: PageGroup): Walked {
  const [first, ...more] = group;
  const last = more.at(-1);
  if (last === undefined) return first;

  const { query, lastId } = group.findLast((one) => one.lastId !== null) ?? last;
  const steppedBack = group.some((one) => one.steppedBack);
  const page = joinPages([first.page, ...more.map((one) => one.page)]);
  return { ...last, page, query, lastId, steppedBack };
}

/** Joins several pages into one. Its number is that of the oldest request. */
function joinPages(pages: readonly [StreamPage, ...StreamPage[]]): StreamPage {
  return {
    ...(pages.at(-1) ?? pages[0]),
    data: pages.flatMap(({ data }) => data),
    received: pages.reduce((sum, { received }) => sum + received, 0),
    readNo: pages.reduce((least, { readNo }) => Math.min(least, readNo), pages[0].readNo),
    pages: pages.length,
    // A page with undecodable resources is joined with none.
    decoded: { resources: pages.flatMap(({ decoded }) => decoded.resources), quarantined: [] },
    release: () => {
      for (const page of pages) page.release();
    },
  };
}

/**
 * Returns true if the error concerns the page that was read, and not the whole client, database or
 * lease.
 */
export const isErrorOfOnePass = (error: unknown) =>
  error instanceof QuarantineShareError ||
  (error instanceof WarehouseError && !concernsWholeClient(error));
