import { type WalkablePage, type WalkedPage, type WalkOptions, walk } from './walk.ts';

/** This many pages are asked for before they are wanted, and at most this many are handed over together. */
export const mostAhead = 4;

type Outcome<P extends WalkablePage> =
  | { readonly walked: IteratorResult<WalkedPage<P>, void> }
  | { readonly error: unknown };

/** How pages that follow each other become one. */
export interface Joining<P> {
  /** Whether a page may be handed over with others. */
  readonly mayJoin: (page: P) => boolean;
  readonly join: (pages: readonly [P, ...P[]]) => P;
}

/**
 * Walks a list ahead of its consumer: while that writes, the next pages are asked for, and those that have come by then
 * are handed over as one. So whoever is slower sets the pace: a page is written at once where the service is, several in
 * one transaction where the database is.
 * @throws what the walk throws, once all pages before it were handed over
 */
export async function* readAhead<P extends WalkablePage>(
  options: WalkOptions<P>,
  joining: Joining<P>,
): AsyncGenerator<WalkedPage<P>> {
  const left = new AbortController();
  const pages = walk({ ...options, signal: AbortSignal.any([options.signal, left.signal]) });
  const arrived: Outcome<P>[] = [];
  const asked: Promise<unknown>[] = [];
  const ask = () =>
    pages.next().then(
      (walked) => arrived.push({ walked }),
      (error: unknown) => arrived.push({ error }),
    );
  const askOn = () => {
    while (asked.length < mostAhead) asked.push(ask());
  };
  askOn();
  try {
    for (;;) {
      await asked[0];
      const taken = arrived.splice(0);
      asked.splice(0, taken.length);
      askOn();
      const walked = taken.flatMap((outcome) =>
        'walked' in outcome && !outcome.walked.done ? [outcome.walked.value] : [],
      );
      for (const group of groupsOf(walked, joining)) yield joinWalked(group, joining);
      for (const outcome of taken) if ('error' in outcome) throw outcome.error;
      if (walked.length < taken.length) return;
    }
  } finally {
    // The consumer left (it failed, or needs no more): what was asked for is called off, not left behind.
    left.abort();
    await Promise.all(asked);
  }
}

type Group<P extends WalkablePage> = [WalkedPage<P>, ...WalkedPage<P>[]];

/** Pages that are handed over together, in their order. */
function groupsOf<P extends WalkablePage>(walked: readonly WalkedPage<P>[], { mayJoin }: Joining<P>): Group<P>[] {
  const groups: Group<P>[] = [];
  let open = false;
  for (const one of walked) {
    const joins = mayJoin(one.page);
    const last = groups.at(-1);
    if (open && joins && last !== undefined) last.push(one);
    else groups.push([one]);
    open = joins;
  }
  return groups;
}

/** Several pages as one; the walk stands where it stood on the last of them that held rows. */
function joinWalked<P extends WalkablePage>(walked: Group<P>, { join }: Joining<P>): WalkedPage<P> {
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
