import { expect, test } from 'vitest';
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

test.each([
  ['items: needs another entry', 2],
  ['items[0].sku: is not known', 2],
  ['items[1].quantity: must be at least 1', 5],
  ['items[1].«colour»: is not a known member', 5],
  ['deliveryAddress.city: is too short', 8],
  ['deliveryAddress.lastName: is missing', 7],
  ['items[0].quantity: is missing', 2],
  ['locale: is missing', null],
  ['payload: has too many entries', null],
])('the problem %j is at line %s', (problem, line) =>
  expect(placeProblems(text, [problem])).toEqual([{ problem, line }]),
);

test('a text that is no JSON has no lines that could be wrong', () =>
  expect(placeProblems('{"a": [}, "b" "c"', ['payload: is not JSON'])).toEqual([
    { problem: 'payload: is not JSON', line: null },
  ]));

test('a text, or paths in it, that are too long to search have no lines', () => {
  const problem = 'last: is not known';
  const last = '\n"last": 1}';
  expect(placeProblems(`{${last}`, [problem])[0]?.line).toBe(2);
  expect(placeProblems(`{"first": "${'a'.repeat(200_000)}",${last}`, [problem])[0]?.line).toBe(
    null,
  );

  const nested = `${`{"${'a'.repeat(2_000)}": `.repeat(50)}1${'}'.repeat(50)}`;
  expect(placeProblems(`{"first": ${nested},${last}`, [problem])[0]?.line).toBe(null);
});
