import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WarehouseError } from '../../../src/core/errors.ts';
import {
  type WalkablePage,
  type WalkOptions,
  type WalkStart,
  walk,
} from '../../../src/pull/walk.ts';
import { readPageCursor } from '../../../src/service/transport/query.ts';

const beginning: WalkStart = { query: null, meaning: 'unknown', lastId: null };
type Meaning = 'id' | 'offset' | 'opaque';

interface ListOptions {
  readonly pageSize?: number;
  readonly emptyLastPage?: boolean;
}

const makePage = (ids: readonly number[], next: string | null | WarehouseError) => ({
  data: ids.map((id) => ({ id })),
  next,
  size: 0,
  release: () => undefined,
});

/** Makes a list that is paged as a service would page it. `meaning` says what its cursor means. */
function makeList(
  ids: readonly number[],
  meaning: Meaning,
  { pageSize = 3, emptyLastPage = false }: ListOptions = {},
) {
  const queries: string[] = [];
  const fetch = async (query: string) => {
    queries.push(query);
    const cursor = readPageCursor(query) ?? 0;
    const start =
      cursor === 0 || meaning === 'offset'
        ? cursor
        : meaning === 'id'
          ? ids.filter((id) => id <= cursor).length
          : (cursor - 1_000_003) / 17;
    const shown = ids.slice(start, start + pageSize);
    const end = start + shown.length;
    const cursorAfter = { id: shown.at(-1) ?? 0, offset: end, opaque: end * 17 + 1_000_003 }[
      meaning
    ];
    const more = end < ids.length || (emptyLastPage && shown.length === pageSize);
    return makePage(shown, more ? `page[cursor]=${cursorAfter}` : null);
  };
  return { queries, fetch };
}

const makeOptions = <P extends WalkablePage>(
  fetch: WalkOptions<P>['fetch'],
  more: Partial<WalkOptions<P>> = {},
): WalkOptions<P> => ({
  ...{ firstQuery: 'first=1', start: beginning, fetch, pageSize: 3, sorted: true },
  signal: new AbortController().signal,
  ...more,
});

async function walkAll(list: ReturnType<typeof makeList>, start = beginning) {
  const seen: number[] = [];
  let end: WalkStart = start;
  let [steppedBack, full] = [false, false];
  for await (const step of walk(makeOptions(list.fetch, { start }))) {
    seen.push(...step.page.data.map(({ id }) => id));
    steppedBack ||= step.steppedBack;
    full ||= step.full;
    if (step.lastId !== null)
      end = { query: step.query, meaning: step.meaning, lastId: step.lastId };
  }
  return { seen, end, steppedBack, full };
}

const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);
const meanings: Meaning[] = ['id', 'offset', 'opaque'];

describe.each(meanings)('a list whose cursor is %s', (meaning) => {
  test('is read whole, and the meaning of its cursor is learned', async () => {
    const { seen, end } = await walkAll(makeList(range(11, 20), meaning));
    expect([...new Set(seen)]).toEqual(range(11, 20));
    expect(end.meaning).toBe(meaning);
  });

  test('may hide rows only if its one page is full and no link was ever seen', async () => {
    expect(await walkAll(makeList(range(11, 13), meaning))).toMatchObject({ full: true });
    const whole = await walkAll(makeList(range(11, 16), meaning));
    expect(whole.full).toBe(false);
    expect(await walkAll(makeList(range(11, 16), meaning), whole.end)).toMatchObject({
      full: false,
    });
  });

  test('is continued by reading its last page again: one request if nothing is new', async () => {
    const { end } = await walkAll(makeList(range(11, 20), meaning));
    const again = makeList(range(11, 20), meaning);
    await walkAll(again, end);
    expect(again.queries).toHaveLength(1);
    const { seen } = await walkAll(makeList(range(11, 25), meaning), end);
    expect(seen).toEqual(expect.arrayContaining(range(21, 25)));
  });

  test('yields every new row even if old rows have left the list', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(40), fc.nat(40), fc.nat(10), async (before, after, gone) => {
        const { end } = await walkAll(makeList(range(1_001, 1_001 + before), meaning));
        const remaining = range(1_001 + Math.min(gone, before), 1_001 + before + after);
        const { seen } = await walkAll(makeList(remaining, meaning), end);
        expect(seen).toEqual(
          expect.arrayContaining(range(1_001 + before + 1, 1_001 + before + after)),
        );
      }),
    );
  });

  test('may end with an empty page', async () => {
    const { seen, end } = await walkAll(makeList(range(11, 16), meaning, { emptyLastPage: true }));
    expect([...new Set(seen)]).toEqual(range(11, 16));
    expect(end.lastId).toBe(16);
  });
});

test('empty pages between others are read', async () => {
  const pages = [[11, 12], [], [], [], [], [13]];
  const queries: string[] = [];
  const fetch = async (query: string) => {
    queries.push(query);
    const place = readPageCursor(query) ?? 0;
    return makePage(
      pages[place] ?? [],
      place + 1 < pages.length ? `page[cursor]=${place + 1}` : null,
    );
  };
  expect((await walkAll({ queries, fetch })).seen).toEqual([11, 12, 13]);
  expect(queries).toHaveLength(6);
});

test('a list that only has empty pages from somewhere on is not taken for a whole one', async () => {
  const queries: string[] = [];
  const fetch = async (query: string) => {
    queries.push(query);
    const place = readPageCursor(query) ?? 0;
    return makePage(place === 0 ? [11] : [], `page[cursor]=${place + 1}`);
  };
  await expect(walkAll({ queries, fetch })).rejects.toMatchObject({ code: 'too_many_pages' });
  expect(queries).toHaveLength(101);
});

test('an empty page that links to itself, or to an earlier page, is the end', async () => {
  for (const next of ['page[cursor]=1', 'page[cursor]=0', 'first=1'])
    expect((await walkAll({ queries: [], fetch: fetchWith(next) })).seen).toEqual([11, 12]);

  function fetchWith(next: string) {
    return async (query: string) =>
      readPageCursor(query) === 0 ? makePage([11, 12], 'page[cursor]=1') : makePage([], next);
  }
});

describe.each(['id', 'offset'] as const)(
  'while rows leave a list whose cursor is %s',
  (meaning) => {
    test('a walk reads every row that stays', async () => {
      await fc.assert(
        fc.asyncProperty(fc.nat(60), fc.array(fc.nat(3)), async (length, departures) => {
          let remaining = range(1_001, 1_000 + length);
          const leaving = [...departures];
          const fetch = (query: string) => {
            const answer = makeList(remaining, meaning).fetch(query);
            remaining = remaining.slice(leaving.shift() ?? 0);
            return answer;
          };
          const { seen } = await walkAll({ queries: [], fetch });
          expect(seen).toEqual(expect.arrayContaining(remaining));
        }),
      );
    });
  },
);

test('a walk begins anew, and says so, if the service no longer accepts its cursor', async () => {
  const refused = new WarehouseError('http_status', 'refused', { outcome: 'refused', status: 400 });
  const list = makeList(range(11, 20), 'opaque');
  const fetch = async (query: string) => {
    if (query === 'page[cursor]=5') throw refused;
    return list.fetch(query);
  };
  const { seen, steppedBack } = await walkAll(
    { queries: [], fetch },
    { query: 'page[cursor]=5', meaning: 'opaque', lastId: 13 },
  );
  expect([seen, steppedBack]).toEqual([range(11, 20), true]);
  await expect(walkAll({ queries: [], fetch: () => Promise.reject(refused) })).rejects.toBe(
    refused,
  );
});

test('a walk of an unsorted list begins anew if its page lacks the last row seen', async () => {
  const ids = [15, 11, 19, 13, 17, 12];
  const start = { query: 'page[cursor]=3', meaning: 'offset' as const, lastId: 19 };
  const seen: number[] = [];
  const { fetch } = makeList(ids, 'offset');
  for await (const { page } of walk(makeOptions(fetch, { start, sorted: false })))
    seen.push(...page.data.map(({ id }) => id));
  expect(seen).toEqual(ids);
});

test.each([[[1]], [[]]])(
  'a link that cannot be followed is an error after its page %j',
  async (ids) => {
    const elsewhere = new WarehouseError('link_elsewhere', 'elsewhere', { outcome: 'refused' });
    const seen: number[] = [];
    const work = async () => {
      const fetch = async () => makePage(ids, elsewhere);
      for await (const { page } of walk(makeOptions(fetch)))
        seen.push(...page.data.map(({ id }) => id));
    };
    await expect(work()).rejects.toBe(elsewhere);
    expect(seen).toEqual(ids);
  },
);

test('a walk steps back from an offset beyond a shrunken list, 200 rows at first', async () => {
  const { end } = await walkAll(
    makeList(
      range(1, 1_000).map((id) => id * 2),
      'offset',
      { pageSize: 100 },
    ),
  );
  const shrunk = makeList(
    range(301, 1_010).map((id) => id * 2),
    'offset',
    { pageSize: 100 },
  );
  const { seen, steppedBack } = await walkAll(shrunk, end);
  expect(steppedBack).toBe(true);
  expect(seen).toEqual(expect.arrayContaining(range(1_001, 1_010).map((id) => id * 2)));
  expect(shrunk.queries[1]).toBe('page[cursor]=790');
});

const neverEnding = (next: string) => async () => makePage([1], next);
const run = async (fetch: WalkOptions<WalkablePage>['fetch']) => {
  for await (const { page } of walk(makeOptions(fetch, { maxPages: 5 })))
    expect(page.data).toHaveLength(1);
};

test('a link that leads back is an error, not a loop', async () => {
  await expect(run(neverEnding('first=1'))).rejects.toMatchObject({ code: 'link_repeats' });
});

test('a list without an end is an error', async () => {
  let page = 0;
  await expect(run(async () => makePage([++page], `page[cursor]=${page}`))).rejects.toMatchObject({
    code: 'too_many_pages',
  });
});
