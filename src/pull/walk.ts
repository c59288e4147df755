/**
 * Reads lists of the service page by page, ahead of the database. A walk either reaches the end of
 * its list or fails, so it never skips rows silently.
 */

import { createHash } from 'node:crypto';
import type { OperationName } from '../../config/operations.ts';
import type { ErrorCode } from '../core/error-codes.ts';
import { toStopError, WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import type { CursorMeaning } from '../schedule/sql/ledger.ts';
import type { ListPage, Warehouse } from '../service/client.ts';
import { readId } from '../service/decoding/jsonapi.ts';
import { toClientHold } from '../service/health/client-hold.ts';
import {
  encodeQuery,
  type QueryParameters,
  readPageCursor,
  setPageCursor,
} from '../service/transport/query.ts';
import type { Reading } from './commit-reading.ts';
import { type DecodedPage, decodePage, QuarantineShareError, type ReadById } from './decode.ts';
import type { PullContext } from './pull-context.ts';
import type { Family } from './sql/mirror-tables.ts';
import type { DayWindow } from './sql/rescans.ts';
import { drawReadNo } from './sql/stream-transaction.ts';
import type { Stream } from './stream.ts';

/** Number of resources that we ask for on each page. */
const pageSize = 100;

/** A page of a list as rows, or several pages in a row as one. */
export type StreamPage = ListPage & Reading & { readonly release: () => void };

/**
 * Returns the query of a list's first page. Without `page[size]`, pages have 100 rows
 * (docs/interface.md, 2.4 Paging).
 */
const toListQuery = (
  { warehouse }: PullContext,
  { list, include }: Stream,
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

/**
 * Walks a stream's list from `start`, and hands each page to `write` until it returns `stop`. Reads
 * pages ahead of it.
 */
export function walkList(
  context: PullContext,
  stream: Stream,
  parameters: QueryParameters,
  start: WalkStart,
  write: (walked: WalkedPage<StreamPage>) => Promise<unknown>,
  sorted = stream.rescan.sorted,
): Promise<void> {
  const { signal } = context;
  const firstQuery = toListQuery(context, stream, parameters);
  const fetch = (query: string, walkSignal: AbortSignal) =>
    fetchPage(context, stream, query, walkSignal);
  return walkAhead({ firstQuery, start, fetch, signal, pageSize, sorted }, streamPageJoiner, write);
}

/**
 * Fetches and decodes one page of a stream's list. Draws the reading's number again before each
 * send, also before a repeated one, because an answer is as old as its request. The caller releases
 * the page when it is committed.
 */
async function fetchPage(
  context: PullContext,
  stream: Stream,
  query: string,
  signal: AbortSignal,
): Promise<StreamPage> {
  const { service } = context.state;
  let readNo = 0;
  const beforeSend = async () => {
    readNo = await drawReadNo(context.db);
  };
  let release: () => void = () => undefined;
  const keep = (given: () => void) => {
    release = given;
  };
  try {
    const page = await context.warehouse.list(stream.list, query, { signal, beforeSend, keep });
    service.firstMs ??= page.dateMs;
    service.lastMs = page.dateMs ?? service.lastMs;
    const decoded = await decodePage(page, stream.decoder(context.zone));
    return { ...page, readNo, pages: 1, resources: page.data.length, decoded, release };
  } catch (error) {
    release();
    throw error;
  }
}

/** A page whose answer has this number of characters or more is written alone. */
const maxJoinedCharacters = 4_000_000;

/**
 * Joins several pages into one. Each family keeps the number of the request that fetched it. If a
 * resource is on several pages, the last one counts. A page with undecodable resources is not
 * joined, so that too many of them fail only that page.
 */
export const streamPageJoiner: PageJoiner<StreamPage> = {
  mayJoin: ({ decoded, size }) => decoded.quarantined.length === 0 && size < maxJoinedCharacters,
  join: (pages) => ({
    ...(pages.at(-1) ?? pages[0]),
    data: pages.flatMap(({ data }) => data),
    resources: pages.reduce((sum, { resources }) => sum + resources, 0),
    escaped: pages.some(({ escaped }) => escaped),
    readNo: pages.reduce((least, page) => Math.min(least, page.readNo), Number.POSITIVE_INFINITY),
    pages: pages.length,
    decoded: joinDecoded(pages),
    release: () => {
      for (const page of pages) page.release();
    },
  }),
};

function joinDecoded(pages: readonly StreamPage[]): DecodedPage {
  const families = new Map<number, Family>();
  const mustReadById = new Map<number, ReadById>();
  const sources = new Map<number, Json>();
  for (const { decoded, readNo } of pages)
    for (const { parent, children } of decoded.families) {
      // Delete first: the family must move to the place of its last mention, because lines are
      // claimed in that order.
      families.delete(parent.id);
      families.set(parent.id, { parent: { ...parent, read_no: readNo }, children });
      sources.set(parent.id, decoded.sources.get(parent.id) ?? null);
      const when = decoded.mustReadById.get(parent.id);
      if (when === undefined) mustReadById.delete(parent.id);
      else mustReadById.set(parent.id, when);
    }
  const warnings = [...new Set(pages.flatMap(({ decoded }) => decoded.warnings))];
  return { families: [...families.values()], quarantined: [], warnings, mustReadById, sources };
}

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
const firstStepBackRows = 200;
const maxStepsBack = 100;

/**
 * Maximum number of pages that are requested ahead. It is also the maximum number of pages that are
 * joined.
 */
export const maxPagesAhead = 4;
/**
 * No page is requested ahead of a page with more characters than this: it takes a large part of the
 * memory.
 */
const maxSizeAhead = 4_000_000;

/** Joins several pages in a row into one. */
export interface PageJoiner<P> {
  /** Returns true if a page may be joined with others. */
  readonly mayJoin: (page: P) => boolean;
  readonly join: (pages: readonly [P, ...P[]]) => P;
}

/**
 * Walks a list ahead of `write`. Requests the next pages while it writes, and joins the pages that
 * have arrived by then. If the service is slower, each page is written at once; if the database is
 * slower, several pages are written in one transaction. Releases each page after it was written.
 * Ends before the end of the list if `write` returns `stop`.
 * @throws the error of the walk, after all earlier pages were written; or the error of `write`
 */
export async function walkAhead<P extends WalkablePage>(
  options: WalkOptions<P>,
  joiner: PageJoiner<P>,
  write: (walked: WalkedPage<P>) => Promise<unknown>,
): Promise<void> {
  const abandoned = new AbortController();
  const arrived: WalkedPage<P>[] = [];
  const inHand: PageGroup<P>[] = [];
  let change = Promise.withResolvers<void>();
  const reportChange = () => {
    change.resolve();
    change = Promise.withResolvers();
  };
  const isSmall = ({ page }: WalkedPage<P>) => page.size <= maxSizeAhead;
  const mayFetch = () =>
    abandoned.signal.aborted ||
    (arrived.length < maxPagesAhead && arrived.every(isSmall) && inHand.flat().every(isSmall));
  let end: { readonly error?: unknown } | null = null;
  const fetching = walk(
    { ...options, signal: AbortSignal.any([options.signal, abandoned.signal]) },
    async (walked) => {
      arrived.push(walked);
      reportChange();
      while (!mayFetch()) await change.promise;
    },
  )
    .then(
      () => ({}),
      (error: unknown) => ({ error }),
    )
    .then((ended) => {
      end = ended;
      reportChange();
    });
  const writeNext = async ([group]: readonly PageGroup<P>[]) => {
    const result = group && (await write(joinGroup(group, joiner)));
    for (const { page } of inHand.shift() ?? []) page.release();
    return result;
  };
  try {
    for (;;) {
      while (arrived.length === 0 && end === null) await change.promise;
      const hasEnded = end as { readonly error?: unknown } | null;
      for (const group of groupPages(arrived.splice(0), joiner)) inHand.push(group);
      reportChange();
      while (inHand.length > 0) if ((await writeNext(inHand)) === 'stop') return;
      reportChange();
      if (hasEnded !== null && 'error' in hasEnded) throw hasEnded.error;
      if (hasEnded !== null) return;
    }
  } finally {
    // If `write` has failed or stopped the walk, this cancels the open request and waits for its
    // end.
    abandoned.abort();
    reportChange();
    await fetching;
    for (const { page } of [...inHand.flat(), ...arrived]) page.release();
  }
}

type PageGroup<P extends WalkablePage> = [WalkedPage<P>, ...WalkedPage<P>[]];

/** Groups the pages that may be joined, in their order. */
function groupPages<P extends WalkablePage>(
  walked: readonly WalkedPage<P>[],
  { mayJoin }: PageJoiner<P>,
): PageGroup<P>[] {
  const groups: PageGroup<P>[] = [];
  let isOpen = false;
  for (const one of walked) {
    const canJoin = mayJoin(one.page);
    const last = groups.at(-1);
    if (isOpen && canJoin && last !== undefined) last.push(one);
    else groups.push([one]);
    isOpen = canJoin;
  }
  return groups;
}

/** Joins a group into one page. Its place is that of the last page with rows. */
function joinGroup<P extends WalkablePage>(
  walked: PageGroup<P>,
  { join }: PageJoiner<P>,
): WalkedPage<P> {
  const [first, ...more] = walked;
  if (more.length === 0) return first;
  const last = more.at(-1) ?? first;
  const { query, lastId } = walked.findLast((one) => one.lastId !== null) ?? last;
  return {
    page: join([first.page, ...more.map(({ page }) => page)]),
    query,
    lastId,
    meaning: last.meaning,
    atEnd: last.atEnd,
    full: last.full,
    steppedBack: walked.some(({ steppedBack }) => steppedBack),
  };
}

/**
 * Walks a list page by page, and hands each page to `onPage`. The meaning of `page[cursor]` is not
 * known (docs/interface.md, 2.6 Not shown), so the walk learns it from the links. A walk that
 * continues an earlier one fetches that walk's last page again, which works under every meaning. It
 * also checks that no row was skipped between the two walks.
 * @throws WarehouseError `link_repeats`, `too_many_pages` or `list_unstable` if the links do not
 *   lead to an end
 */
export async function walk<P extends WalkablePage>(
  options: WalkOptions<P>,
  onPage: (walked: WalkedPage<P>) => Promise<void>,
): Promise<void> {
  const { firstQuery, start, signal, pageSize, maxPages = defaultMaxPages } = options;
  const guard = new ProgressGuard(maxPages);
  let { meaning } = start;
  const fetch = async (query: string) => {
    if (signal.aborted) throw toStopError(signal);
    return options.fetch(query, signal);
  };
  // Keeps nothing of a page but what the next step needs: a page may take a large part of the
  // memory.
  const handOver = async ({
    query,
    page,
    steppedBack,
  }: WalkPosition<P>): Promise<NextStep | null> => {
    const lastId = readIds(page.data).at(-1) ?? null;
    const rows = page.data.length;
    // An empty page is the end of the list, even if it has a next link.
    const next = rows === 0 ? null : page.next;
    if (typeof next === 'string') meaning = learnMeaning(meaning, query, rows, lastId, next);
    const problem = next instanceof WarehouseError ? next : guard.check(query, next, steppedBack);
    // A service that gave a link before, in this list or an earlier walk of it, gives one to the
    // last page, too.
    const givesLinks = query !== firstQuery || meaning !== 'unknown';
    const full = page.next === null && rows >= pageSize && !givesLinks;
    await onPage({ page, query, meaning, lastId, atEnd: next === null, full, steppedBack });
    // Thrown after the page was handed over: its rows are good even if its link is not.
    if (problem !== null) throw problem;
    return typeof next === 'string' ? { query: next, rows, meaning, lastId } : null;
  };
  const begin = async () => ({
    query: firstQuery,
    page: await fetch(firstQuery),
    steppedBack: false,
  });
  let step = await handOver(
    start.query === null ? await begin() : await resumeWalk(start.query, start, options, fetch),
  );
  while (step !== null) step = await handOver(await fetchNext(step, options, fetch));
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

/** Guards a walk against endless lists: repeated links, too many pages and too many steps back. */
class ProgressGuard {
  readonly #maxPages: number;
  /** Hashes of the queries that were followed. A query may have thousands of characters. */
  #followed = new Set<string>();
  #pages = 0;
  #stepsBack = 0;

  constructor(maxPages: number) {
    this.#maxPages = maxPages;
  }

  /**
   * Returns the error if `next` must not be followed from the page of `query`; null if it may be
   * followed.
   */
  check(query: string, next: string | null, steppedBack: boolean): WarehouseError | null {
    this.#pages++;
    // After a step back, the walk meets the same pages again.
    if (steppedBack) this.#followed = new Set();
    if (steppedBack) this.#stepsBack++;
    this.#followed.add(toHash(query));
    if (next === null) return null;
    const hash = toHash(next);
    const failure = (code: ErrorCode, text: string) =>
      new WarehouseError(code, text, { outcome: 'refused' });
    if (this.#followed.has(hash))
      return failure('link_repeats', 'The list leads back to a page that was read already');
    if (this.#pages >= this.#maxPages) {
      return failure('too_many_pages', `The list did not end after ${this.#maxPages} pages`);
    }
    if (this.#stepsBack > maxStepsBack) {
      return failure(
        'list_unstable',
        `Rows left the list ${this.#stepsBack} times while it was walked`,
      );
    }
    this.#followed.add(hash);
    return null;
  }
}

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
  query: string,
  rows: number,
  lastId: number | null,
  next: string,
): CursorMeaning {
  const [cursor, nextCursor] = [readPageCursor(query), readPageCursor(next)];
  const isId = nextCursor !== null && nextCursor === lastId;
  const isOffset = nextCursor !== null && cursor !== null && nextCursor === cursor + rows;
  if (isId && isOffset) return before;
  return isId ? 'id' : isOffset ? 'offset' : 'opaque';
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
 * @throws WarehouseError if a page cannot be read, or the list has more than `maxPages` pages
 */
export async function* listPages(
  warehouse: Warehouse,
  { operation, filter, maxPages, signal }: ListQuery,
): AsyncGenerator<ListPage, void, void> {
  let query: string | null = encodeQuery(filter);
  for (let pages = 0; query !== null; pages++) {
    if (pages === maxPages)
      throw new WarehouseError(
        'endless_list',
        `${operation}: the list has more than ${maxPages} pages`,
        { outcome: 'unknown', operation },
      );
    const page: ListPage = await warehouse.list(operation, query, { signal });
    if (page.next instanceof WarehouseError) throw page.next;
    yield page;
    query = page.data.length === 0 ? null : page.next;
  }
}

/**
 * Returns true if the error concerns the page that was read, and not the whole client, database or
 * lease.
 */
export const isErrorOfOnePass = (error: unknown) =>
  error instanceof QuarantineShareError ||
  (error instanceof WarehouseError && toClientHold(error) === null);
