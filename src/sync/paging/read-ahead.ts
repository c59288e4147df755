import { type WalkablePage, type WalkedPage, type WalkOptions, walk } from './walk.ts';

/** Maximum number of pages that are requested ahead. It is also the maximum number of pages that are joined. */
export const maxPagesAhead = 4;

/** The next page of the walk, or the error that the walk threw. */
type PageResult<P extends WalkablePage> =
  | { readonly walked: IteratorResult<WalkedPage<P>, void> }
  | { readonly error: unknown };

/** Joins several pages in a row into one. */
export interface PageJoiner<P> {
  /** Returns true if a page may be joined with others. */
  readonly mayJoin: (page: P) => boolean;
  readonly join: (pages: readonly [P, ...P[]]) => P;
}

/**
 * Walks a list ahead of its consumer. Requests the next pages while the consumer writes, and joins the pages that have
 * arrived by then. If the service is slower, each page is written at once; if the database is slower, several pages are
 * written in one transaction.
 * @throws the error of the walk, after all earlier pages were yielded
 */
export async function* readAhead<P extends WalkablePage>(
  options: WalkOptions<P>,
  joiner: PageJoiner<P>,
): AsyncGenerator<WalkedPage<P>> {
  const abandoned = new AbortController();
  const pages = walk({ ...options, signal: AbortSignal.any([options.signal, abandoned.signal]) });
  const arrived: PageResult<P>[] = [];
  const requests: Promise<unknown>[] = [];
  const requestPage = () =>
    pages.next().then(
      (walked) => arrived.push({ walked }),
      (error: unknown) => arrived.push({ error }),
    );
  const requestAhead = () => {
    while (requests.length < maxPagesAhead) requests.push(requestPage());
  };
  requestAhead();
  try {
    for (;;) {
      await requests[0];
      const taken = arrived.splice(0);
      requests.splice(0, taken.length);
      requestAhead();
      const walked = taken.flatMap((outcome) =>
        'walked' in outcome && !outcome.walked.done ? [outcome.walked.value] : [],
      );
      for (const group of groupPages(walked, joiner)) yield joinGroup(group, joiner);
      for (const outcome of taken) if ('error' in outcome) throw outcome.error;
      if (walked.length < taken.length) return;
    }
  } finally {
    // The consumer failed or needs no more pages: cancel the open requests and wait for them.
    abandoned.abort();
    await Promise.all(requests);
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
function joinGroup<P extends WalkablePage>(walked: PageGroup<P>, { join }: PageJoiner<P>): WalkedPage<P> {
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
