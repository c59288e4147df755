/** Reads the pages of a walk ahead of the database. */

import type { WalkablePage, WalkedPage } from './walk.ts';

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

/** Pages in a row that are written together. */
type PageGroup<P extends WalkablePage> = [WalkedPage<P>, ...WalkedPage<P>[]];

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
 * @param walk begins the walk; the signal ends it
 * @param write ends the walk early if it returns `stop`
 * @throws the error of the walk, after all earlier pages were written; or the error of `write`
 */
export async function walkAhead<P extends WalkablePage>(
  walk: (signal: AbortSignal) => AsyncGenerator<WalkedPage<P>, void, void>,
  joiner: PageJoiner<P>,
  write: (walked: WalkedPage<P>) => Promise<unknown>,
): Promise<void> {
  await using pages = new Prefetch(walk);

  // A function of its own: this one would keep a page in memory while it waits for the next.
  const writeNext = async () => {
    const group = await pages.takeGroup(joiner.mayJoin);
    if (group === null) return 'stop';

    const result = await write(joinGroup(group, joiner));

    pages.release(group);
    return result;
  };
  while ((await writeNext()) !== 'stop');
}

/**
 * Fetches the pages of a walk while earlier ones are written: up to `maxPagesAhead`, but none ahead
 * of a large page. Disposal ends the walk, waits for its open request, and releases every page.
 */
class Prefetch<P extends WalkablePage> implements AsyncDisposable {
  readonly #walk: AsyncGenerator<WalkedPage<P>, void, void>;
  readonly #abandoned = new AbortController();
  readonly #arrived: WalkedPage<P>[] = [];
  /** The group that is being written. */
  #taken: readonly WalkedPage<P>[] = [];
  /** The page that is being fetched; null if none is. */
  #fetching: Promise<void> | null = null;
  /** How the walk ended; null before. */
  #end: { readonly error?: unknown } | null = null;

  constructor(walk: (signal: AbortSignal) => AsyncGenerator<WalkedPage<P>, void, void>) {
    this.#walk = walk(this.#abandoned.signal);
    this.#fetch();
  }

  /**
   * Returns the next page, with those behind it that have arrived and may be joined with it; null at
   * the end of the walk. Waits for a page if none has arrived.
   * @throws the error of the walk, after all its pages
   */
  async takeGroup(mayJoin: (page: P) => boolean): Promise<PageGroup<P> | null> {
    while (this.#arrived.length === 0 && this.#fetching !== null) await this.#fetching;

    const first = this.#arrived.shift();
    if (first === undefined && this.#end !== null && 'error' in this.#end) throw this.#end.error;
    if (first === undefined) return null;

    const firstAlone = [first, ...this.#arrived].findIndex(({ page }) => !mayJoin(page));
    const joined = firstAlone < 0 ? this.#arrived.length : Math.max(0, firstAlone - 1);
    const group: PageGroup<P> = [first, ...this.#arrived.splice(0, joined)];
    this.#taken = group;
    this.#fetch();
    return group;
  }

  /** Gives back the memory of a group that was written. */
  release(group: PageGroup<P>): void {
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
    const isSmall = ({ page }: WalkedPage<P>) => page.size <= maxSizeAhead;
    return (
      !this.#abandoned.signal.aborted &&
      this.#arrived.length < maxPagesAhead &&
      this.#arrived.every(isSmall) &&
      this.#taken.every(isSmall)
    );
  }
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
