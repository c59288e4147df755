import { describe, expect, test } from 'vitest';
import {
  encodeQuery,
  encodeValue,
  readPageCursor,
  setPageCursor,
} from '../../../src/service/transport/query.ts';

test('encodes every character that the interface lists', () => {
  for (const character of `!"#$%&'()*+,/:;=?@[] `) {
    expect(encodeValue(character)).toBe(
      `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
    );
  }
});

test('encodes the values of a list one by one, but not the commas between them', () => {
  expect(
    encodeQuery({ 'page[size]': 100, 'filter[externalOrderNumber][in]': ['A,1', 'B 2'] }),
  ).toBe('page%5Bsize%5D=100&filter%5BexternalOrderNumber%5D%5Bin%5D=A%2C1,B%202');
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
  ])('%j has %j', (query, cursor) => expect(readPageCursor(query)).toBe(cursor));

  test('is replaced, or added if there is none', () => {
    expect(setPageCursor('page%5Bcursor%5D=9&include=x', 4)).toBe('page%5Bcursor%5D=4&include=x');
    expect(setPageCursor('include=x', 4)).toBe('include=x&page%5Bcursor%5D=4');
    expect(setPageCursor('', 4)).toBe('page%5Bcursor%5D=4');
  });
});
