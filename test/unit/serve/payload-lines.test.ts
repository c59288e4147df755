import { expect, test } from 'vitest';
import type { PayloadProblem } from '../../../src/push/kind.ts';
import { placeProblems } from '../../../src/serve/pages/payload-lines.ts';

const text = `{
  "items": [{ "sku": "A, [B]: {" },
    {
      "sku": "B",
      "quantity": 0, "colour": "red"
    }],
  "deliveryAddress": {
    "city": "x"
  }
}`;

test.each<[PayloadProblem['path'], number | null]>([
  [['items'], 2],
  [['items', 0, 'sku'], 2],
  [['items', 1, 'quantity'], 5],
  [['items', 1, 'colour'], 5],
  [['deliveryAddress', 'city'], 8],
  [['deliveryAddress', 'lastName'], 7],
  [['items', 0, 'quantity'], 2],
  [['locale'], null],
  [[], null],
])('a problem of %j is at line %s', (path, line) =>
  expect(placeProblems(text, [{ path, text: 'is wrong' }])).toEqual([{ text: 'is wrong', line }]),
);

test('a name is found whatever it holds, and the words do not matter', () => {
  const named = '{\n"a.b": 1,\n"a": {\n"b": 2, "«c»: \\"d": 3}}';
  const find = (...path: string[]) =>
    placeProblems(named, [{ path, text: 'items[0]: is wrong' }])[0]?.line;
  expect([find('a.b'), find('a', 'b'), find('a', '«c»: "d')]).toEqual([2, 4, 4]);
});

test('a text that is no JSON has no lines that could be wrong', () => {
  const problem = { path: [], text: 'payload: is not JSON' };
  expect(placeProblems('{"a": [}, "b" "c"', [problem])).toEqual([
    { text: problem.text, line: null },
  ]);
});

test('a text, or paths in it, that are too long to search have no lines', () => {
  const problem = { path: ['last'], text: 'last: is not known' };
  const last = '\n"last": 1}';
  expect(placeProblems(`{${last}`, [problem])[0]?.line).toBe(2);
  expect(placeProblems(`{"first": "${'a'.repeat(200_000)}",${last}`, [problem])[0]?.line).toBe(
    null,
  );

  const nested = `${`{"${'a'.repeat(2_000)}": `.repeat(50)}1${'}'.repeat(50)}`;
  expect(placeProblems(`{"first": ${nested},${last}`, [problem])[0]?.line).toBe(null);
});
