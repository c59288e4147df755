import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { maxPagesAhead, walkAhead } from '../../../src/pull/prefetch.ts';
import {
  type WalkablePage,
  type WalkedPage,
  type WalkOptions,
  type WalkStart,
  walk,
} from '../../../src/pull/walk.ts';

interface Page extends WalkablePage {
  readonly data: readonly { id: number }[];
}
const start: WalkStart = { query: null, meaning: 'unknown', lastId: null };
const makePage = (
  ids: readonly number[],
  next: Page['next'],
  { size = 0, release = (): void => undefined } = {},
): Page => ({
  data: ids.map((id) => ({ id })),
  next,
  size,
  release,
});
/** Joins all pages, except for pages that hold the row `alone`. */
const makeJoiner = (alone = 0) => ({
  mayJoin: ({ data }: Page) => data.every(({ id }) => id !== alone),
  join: (pages: readonly [Page, ...Page[]]): Page =>
    makePage(
      pages.flatMap(({ data }) => data.map(({ id }) => id)),
      pages.at(-1)?.next ?? null,
    ),
});
const read = (
  fetch: WalkOptions<Page>['fetch'],
  write: (walked: WalkedPage<Page>) => Promise<void>,
  { alone = 0, pageSize = 1 } = {},
) =>
  walkAhead(
    (signal) => walk({ firstQuery: 'p=1', start, fetch, signal, pageSize, sorted: true }),
    makeJoiner(alone),
    write,
  );

/** Makes a list of `pages` pages with one row each; the last page is empty. */
const list = (pages: number) => async (query: string) => {
  const page = Number(query.slice(2));
  return makePage(page < pages ? [page] : [], page < pages ? `p=${page + 1}` : null);
};

test('a slow consumer gets the pages that arrived meanwhile as one, up to the maximum', async () => {
  const handed: number[][] = [];
  await read(list(12), async ({ page, query, lastId, atEnd, full }) => {
    handed.push(page.data.map(({ id }) => id));
    expect([query, lastId]).toEqual([`p=${lastId}`, page.data.at(-1)?.id]);
    expect([atEnd, full]).toEqual([handed.flat().length === 11, false]);
    for (let turns = 0; turns < 100; turns++) await turn();
  });
  expect(handed.flat()).toEqual(Array.from({ length: 11 }, (_, index) => index + 1));
  expect(Math.max(...handed.map(({ length }) => length))).toBe(maxPagesAhead);
  expect(handed[0]).toEqual([1]);
});

test('a page that may not be joined is handed over alone, in its place', async () => {
  const handed: number[][] = [];
  const write = async ({ page, query, lastId, atEnd }: WalkedPage<Page>) => {
    handed.push(page.data.map(({ id }) => id));
    expect([query, lastId]).toEqual([`p=${lastId}`, page.data.at(-1)?.id]);
    expect(atEnd).toBe(handed.flat().length === 11);
    for (let turns = 0; turns < 100; turns++) await turn();
  };
  await read(list(12), write, { alone: 4 });
  expect(handed.flat()).toEqual(Array.from({ length: 11 }, (_, index) => index + 1));
  expect(handed.filter((ids) => ids.includes(4))).toEqual([[4]]);
  expect(handed.some((ids) => ids.length > 1)).toBe(true);
});

test('each page of a slow service is handed over at once', async () => {
  const handed: number[] = [];
  const fetch = async (query: string) => {
    for (let turns = 0; turns < 20; turns++) await turn();
    return list(6)(query);
  };
  await read(fetch, async ({ page }) => {
    handed.push(page.data.length);
  });
  expect(handed).toEqual([1, 1, 1, 1, 1, 0]);
});

test('an error is thrown after all pages before it', async () => {
  const fetch = async (query: string) => {
    if (query === 'p=5') throw new Error('gone');
    return list(9)(query);
  };
  const seen: number[] = [];
  const work = read(fetch, async ({ page }) => {
    seen.push(...page.data.map(({ id }) => id));
    for (let turns = 0; turns < 100; turns++) await turn();
  });
  await expect(work).rejects.toThrow('gone');
  expect(seen).toEqual([1, 2, 3, 4]);
});

test('requests that were made ahead are aborted when the consumer fails', async () => {
  let isAborted = false;
  const fetch = async (query: string, signal: AbortSignal) => {
    if (query === 'p=1') return list(9)(query);
    return new Promise<never>((_resolve, reject) =>
      signal.addEventListener('abort', () => {
        isAborted = true;
        reject(new Error('called off'));
      }),
    );
  };
  const work = read(fetch, async () => {
    throw new Error('no room');
  });
  await expect(work).rejects.toThrow('no room');
  expect(isAborted).toBe(true);
});

test('the last page counts as full by its own rows, not by rows of pages joined with it', async () => {
  const fetch = async (query: string): Promise<Page> => {
    const page = Number(query.slice(2));
    const rows = page < 4 ? 3 : 2;
    const ids = Array.from({ length: rows }, (_, row) => page * 3 + row);
    return makePage(ids, page < 4 ? `p=${page + 1}` : null);
  };
  const fullFlags: boolean[] = [];
  const write = async ({ full }: WalkedPage<Page>) => {
    fullFlags.push(full);
    for (let turns = 0; turns < 100; turns++) await turn();
  };
  await read(fetch, write, { pageSize: 3 });
  expect(fullFlags).toEqual([false, false]);
});

test('nothing is requested ahead of a large page, and each page is released after it was written', async () => {
  const events: string[] = [];
  const fetch = async (query: string) => {
    events.push(`request ${query}`);
    const page = Number(query.slice(2));
    const release = () => {
      events.push(`release ${page}`);
    };
    return makePage([page], page < 3 ? `p=${page + 1}` : null, { size: 4_000_001, release });
  };
  await read(fetch, async ({ page }) => {
    for (let turns = 0; turns < 100; turns++) await turn();
    events.push(`written ${page.data[0]?.id}`);
  });
  const expected = [1, 2, 3].flatMap((page) => [
    `request p=${page}`,
    `written ${page}`,
    `release ${page}`,
  ]);
  expect(events).toEqual(expected);
});
