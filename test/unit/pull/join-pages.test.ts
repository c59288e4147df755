import { expect, test } from 'vitest';
import { type StreamPage, streamPageJoiner } from '../../../src/pull/walk-list.ts';

const family = (id: number, sku: string) => ({
  parent: { id, raw: { id, sku } },
  children: [],
});

function page(
  readNo: number,
  decoded: Partial<StreamPage['decoded']>,
  next: string | null = 'next',
): StreamPage {
  const whole = {
    families: [],
    quarantined: [],
    warnings: [],
    mustReadById: new Map(),
    sources: new Map(),
    ...decoded,
  };
  const data = whole.families.map(({ parent }) => parent.raw);
  return {
    data,
    included: [],
    links: {},
    escaped: false,
    size: 0,
    next,
    dateMs: readNo,
    readNo,
    pages: 1,
    resources: data.length,
    release: () => undefined,
    decoded: whole,
  };
}

test('joined resources keep the read number of their request; the last mention wins', () => {
  const joined = streamPageJoiner.join([
    page(11, {
      families: [family(1, 'a'), family(2, 'a')],
      mustReadById: new Map([[2, 'always']]),
      warnings: ['w'],
    }),
    page(13, { families: [family(2, 'b')], sources: new Map([[2, 'b']]), warnings: ['w'] }, null),
  ]);
  expect(
    joined.decoded.families.map(({ parent }) => [parent.id, parent.read_no, parent.raw]),
  ).toEqual([
    [1, 11, { id: 1, sku: 'a' }],
    [2, 13, { id: 2, sku: 'b' }],
  ]);
  expect(joined.decoded.mustReadById.size).toBe(0);
  expect(joined.decoded.sources.get(2)).toBe('b');
  expect(joined).toMatchObject({
    readNo: 11,
    pages: 2,
    next: null,
    dateMs: 13,
    decoded: { warnings: ['w'] },
  });
  expect(joined.data).toHaveLength(3);
});
