import { describe, expect, test } from 'vitest';
import { cursorOf, encodeQuery, encodeValue, withCursor } from '../../../src/warehouse/transport/query.ts';

test('encodes every character that the interface lists', () => {
  for (const character of `!"#$%&'()*+,/:;=?@[] `) {
    expect(encodeValue(character)).toBe(`%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
  }
});

test('encodes the values of a list one by one, the commas between them bare', () => {
  expect(encodeQuery({ 'page[size]': 100, 'filter[externalOrderNumber][in]': ['A,1', 'B 2'] })).toBe(
    'page%5Bsize%5D=100&filter%5BexternalOrderNumber%5D%5Bin%5D=A%2C1,B%202',
  );
});

describe('the cursor of a query', () => {
  test.each([
    ['', 0],
    ['page[size]=100', 0],
    ['page[cursor]=7&page[size]=100', 7],
    ['include=x&page%5Bcursor%5D=42', 42],
    ['page%5bcursor%5d=3', 3],
    ['page[cursor]=abc', null],
    ['page[cursor]=', null],
  ])('%j has %j', (query, cursor) => expect(cursorOf(query)).toBe(cursor));

  test('is replaced, or added where there is none', () => {
    expect(withCursor('page%5Bcursor%5D=9&include=x', 4)).toBe('page%5Bcursor%5D=4&include=x');
    expect(withCursor('include=x', 4)).toBe('include=x&page%5Bcursor%5D=4');
    expect(withCursor('', 4)).toBe('page%5Bcursor%5D=4');
  });
});
