import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { maxPagesAhead, readAhead } from '../../../src/sync/paging/read-ahead.ts';
import type { WalkablePage, WalkOptions, WalkStart } from '../../../src/sync/paging/walk.ts';

interface Page extends WalkablePage {
  readonly data: readonly { id: number }[];
}
const start: WalkStart = { query: null, meaning: 'unknown', lastId: null };
/** Joins all pages, except for pages that hold the row `alone`. */
const makeJoiner = (alone = 0) => ({
  mayJoin: ({ data }: Page) => data.every(({ id }) => id !== alone),
  join: (pages: readonly [Page, ...Page[]]): Page => ({
    data: pages.flatMap(({ data }) => data),
    next: pages.at(-1)?.next ?? null,
  }),
});
const read = (fetch: WalkOptions<Page>['fetch'], alone?: number) =>
  readAhead(
    { firstQuery: 'p=1', start, fetch, signal: new AbortController().signal, pageSize: 1, sorted: true },
    makeJoiner(alone),
  );

/** Makes a list of `pages` pages with one row each; the last page is empty. */
const list = (pages: number) => async (query: string) => {
  const page = Number(query.slice(2));
  return { data: page < pages ? [{ id: page }] : [], next: page < pages ? `p=${page + 1}` : null };
};

test('a slow consumer gets the pages that arrived meanwhile as one, up to the maximum', async () => {
  const handed: number[][] = [];
  for await (const { page, query, lastId, atEnd, full } of read(list(12))) {
    handed.push(page.data.map(({ id }) => id));
    expect([query, lastId]).toEqual([`p=${lastId}`, page.data.at(-1)?.id]);
    expect([atEnd, full]).toEqual([handed.flat().length === 11, false]);
    for (let turns = 0; turns < 100; turns++) await turn();
  }
  expect(handed.flat()).toEqual(Array.from({ length: 11 }, (_, index) => index + 1));
  expect(Math.max(...handed.map(({ length }) => length))).toBe(maxPagesAhead);
  expect(handed[0]).toEqual([1]);
});

test('a page that may not be joined is handed over alone, in its place', async () => {
  const handed: number[][] = [];
  for await (const { page, query, lastId, atEnd } of read(list(12), 4)) {
    handed.push(page.data.map(({ id }) => id));
    expect([query, lastId]).toEqual([`p=${lastId}`, page.data.at(-1)?.id]);
    expect(atEnd).toBe(handed.flat().length === 11);
    for (let turns = 0; turns < 100; turns++) await turn();
  }
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
  for await (const { page } of read(fetch)) handed.push(page.data.length);
  expect(handed).toEqual([1, 1, 1, 1, 1, 0]);
});

test('an error is thrown after all pages before it', async () => {
  const fetch = async (query: string) => {
    if (query === 'p=5') throw new Error('gone');
    return list(9)(query);
  };
  const seen: number[] = [];
  const work = async () => {
    for await (const { page } of read(fetch)) {
      seen.push(...page.data.map(({ id }) => id));
      for (let turns = 0; turns < 100; turns++) await turn();
    }
  };
  await expect(work()).rejects.toThrow('gone');
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
  const work = async () => {
    for await (const _ of read(fetch)) throw new Error('no room');
  };
  await expect(work()).rejects.toThrow('no room');
  expect(isAborted).toBe(true);
});

test('the last page counts as full by its own rows, not by rows of pages joined with it', async () => {
  const fetch = async (query: string): Promise<Page> => {
    const page = Number(query.slice(2));
    const rows = page < 4 ? 3 : 2;
    return {
      data: Array.from({ length: rows }, (_, row) => ({ id: page * 3 + row })),
      next: page < 4 ? `p=${page + 1}` : null,
    };
  };
  const fullFlags: boolean[] = [];
  const options = { firstQuery: 'p=1', start, fetch, signal: new AbortController().signal, pageSize: 3, sorted: true };
  for await (const { full } of readAhead(options, makeJoiner())) {
    fullFlags.push(full);
    for (let turns = 0; turns < 100; turns++) await turn();
  }
  expect(fullFlags).toEqual([false, false]);
});
