import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { makeQuarantineEntry } from '../../../src/pull/decode.ts';
import {
  maxPagesAhead,
  type StreamPage,
  type WalkedPage,
  type WalkOptions,
  type WalkStart,
  walk,
  walkAhead,
} from '../../../src/pull/walk.ts';

const start: WalkStart = { query: null, meaning: 'unknown', lastId: null };
const makeResource = (id: number) => ({
  ...{ parent: { id, raw: { id } }, children: [], source: {} },
});
const makePage = (
  ids: readonly number[],
  next: StreamPage['next'],
  more: Partial<StreamPage> = {},
): StreamPage => ({
  data: ids.map((id) => ({ id })),
  next,
  ...{ included: [], links: {}, escaped: false, size: 0, dateMs: null },
  ...{ readNo: 1, pages: 1, received: ids.length, release: () => undefined },
  decoded: { resources: ids.map(makeResource), quarantined: [] },
  ...more,
});
const listRows = ({ data }: StreamPage) => data.map((row) => (row as { id: number }).id);
const read = (
  fetch: WalkOptions<StreamPage>['fetch'],
  write: (walked: WalkedPage<StreamPage>) => Promise<void>,
  { pageSize = 1 } = {},
) =>
  walkAhead(
    (signal) => walk({ firstQuery: 'p=1', start, fetch, signal, pageSize, sorted: true }),
    write,
  );

/** Makes a list of `pages` pages with one row each; the last page is empty. */
const list = (pages: number) => async (query: string) => {
  const page = Number(query.slice(2));
  return makePage(page < pages ? [page] : [], page < pages ? `p=${page + 1}` : null);
};

/** Waits until all pages ahead have arrived. */
async function waitForPages(): Promise<void> {
  for (let turns = 0; turns < 100; turns++) await turn();
}

/** Reads a list of eleven rows slowly. Returns the ids that were handed over together. */
async function readSlowly(fetch: WalkOptions<StreamPage>['fetch']): Promise<number[][]> {
  const handed: number[][] = [];
  await read(fetch, async ({ page, query, lastId, atEnd, full }) => {
    handed.push(listRows(page));
    expect([query, lastId]).toEqual([`p=${lastId}`, listRows(page).at(-1)]);
    expect([atEnd, full]).toEqual([handed.flat().length === 11, false]);
    await waitForPages();
  });
  expect(handed.flat()).toEqual(Array.from({ length: 11 }, (_, index) => index + 1));
  return handed;
}

test('a slow consumer gets the pages that arrived meanwhile as one, up to the maximum', async () => {
  const handed = await readSlowly(list(12));
  expect(Math.max(...handed.map(({ length }) => length))).toBe(maxPagesAhead);
  expect(handed[0]).toEqual([1]);
});

test('a page with an undecodable resource is handed over alone, in its place', async () => {
  const entry = makeQuarantineEntry(4, {}, { path: '', reason: '' });
  const bad = { resources: [], quarantined: [entry] };
  const handed = await readSlowly(async (query: string) => {
    const page = await list(12)(query);
    return query === 'p=4' ? { ...page, decoded: bad } : page;
  });
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
    seen.push(...listRows(page));
    await waitForPages();
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
  const fetch = async (query: string): Promise<StreamPage> => {
    const page = Number(query.slice(2));
    const rows = page < 4 ? 3 : 2;
    const ids = Array.from({ length: rows }, (_, row) => page * 3 + row);
    return makePage(ids, page < 4 ? `p=${page + 1}` : null);
  };
  const fullFlags: boolean[] = [];
  const write = async ({ full }: WalkedPage<StreamPage>) => {
    fullFlags.push(full);
    await waitForPages();
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
    await waitForPages();
    events.push(`written ${listRows(page)[0]}`);
  });
  const expected = [1, 2, 3].flatMap((page) => [
    `request p=${page}`,
    `written ${page}`,
    `release ${page}`,
  ]);
  expect(events).toEqual(expected);
});

test('joined pages have the number of the oldest request, and all their resources', async () => {
  const pages: Readonly<Record<string, StreamPage>> = {
    'p=1': makePage([9], 'p=2'),
    'p=2': makePage([1, 2], 'p=3', { readNo: 11 }),
    'p=3': makePage([2, 3], null, { readNo: 13, dateMs: 13 }),
  };
  const written: StreamPage[] = [];
  const fetch = async (query: string) => pages[query] ?? makePage([], null);
  await read(fetch, async ({ page }) => {
    written.push(page);
    await waitForPages();
  });

  const [, joined] = written;
  expect(joined).toMatchObject({ readNo: 11, pages: 2, received: 4, next: null, dateMs: 13 });
  expect(joined?.decoded.resources.map(({ parent }) => parent.id)).toEqual([1, 2, 2, 3]);
});
