import { expect, test } from 'vitest';
import { joinPages, type StreamPage } from '../../src/sync/list-page.ts';

const family = (id: number, sku: string) => ({
  parent: { id, raw: { id, sku } },
  children: [],
});
const bad = (id: number) => ({ resourceId: id, memberPath: 'attributes.x', reason: 'bad', document: '{}' });

function page(readNo: number, decoded: Partial<StreamPage['decoded']>, next: string | null = 'next'): StreamPage {
  const whole = {
    families: [],
    quarantined: [],
    warnings: [],
    readById: new Map(),
    sources: new Map(),
    ...decoded,
  };
  const data = [
    ...whole.families.map(({ parent }) => parent.raw),
    ...whole.quarantined.map(({ resourceId }) => resourceId),
  ];
  return { data, included: [], links: {}, escaped: false, next, dateMs: readNo, readNo, pages: 1, decoded: whole };
}

test('of several pages each resource keeps the number of its own request', () => {
  const joined = joinPages([
    page(11, { families: [family(1, 'a'), family(2, 'a')], warnings: ['w'] }),
    page(13, { families: [family(2, 'b')], quarantined: [bad(3)], warnings: ['w'] }, null),
  ]);
  expect(joined.decoded.families.map(({ parent }) => [parent.id, parent.read_no])).toEqual([
    [1, 11],
    [2, 11],
    [2, 13],
  ]);
  expect(joined.decoded.quarantined).toEqual([{ ...bad(3), readNo: 13 }]);
  expect(joined).toMatchObject({ readNo: 11, pages: 2, next: null, dateMs: 13, decoded: { warnings: ['w'] } });
  expect(joined.data).toHaveLength(4);
});

test('what a later page shows well is not put aside for an earlier one; the reverse is', () => {
  const mended = joinPages([page(11, { quarantined: [bad(1)] }), page(13, { families: [family(1, 'a')] })]);
  expect(mended.decoded.quarantined).toEqual([]);
  const spoilt = joinPages([page(11, { families: [family(1, 'a')] }), page(13, { quarantined: [bad(1)] })]);
  expect(spoilt.decoded.quarantined).toEqual([{ ...bad(1), readNo: 13 }]);
  expect(spoilt.decoded.families).toHaveLength(1);
});
