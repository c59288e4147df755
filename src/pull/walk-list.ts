/** Walks the lists of a stream: its pages as rows, ahead of the database. */

import { WarehouseError } from '../core/errors.ts';
import type { ListPage } from '../service/client.ts';
import { concernsWholeClient } from '../service/health/evidence.ts';
import { encodeQuery, type QueryParameters } from '../service/transport/query.ts';
import type { Reading } from './commit.ts';
import { decodePage, QuarantineShareError } from './decode.ts';
import type { DayWindow } from './sql/listed-rows.ts';
import { drawReadNo } from './sql/stream-transaction.ts';
import type { StreamContext } from './stream.ts';
import { type WalkedPage, type WalkStart, walk } from './walk.ts';

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
export interface ListWalk {
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
