import { describe, expect, test } from 'vitest';
import { readNextQuery } from '../../../src/service/transport/query.ts';

const requested = new URL('https://service.example/base/v3/shipments?page[size]=100');
const readErrorCode = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    return (error as { code?: string }).code;
  }
  return 'no error';
};

describe('readNextQuery', () => {
  test.each([
    [{ next: 'https://service.example/base/v3/shipments?page[cursor]=5' }, 'page[cursor]=5'],
    [
      { next: { href: 'https://service.example/elsewhere?page%5Bcursor%5D=5&a=b' } },
      'page%5Bcursor%5D=5&a=b',
    ],
    [{ next: '/v3/shipments?page[cursor]=5' }, 'page[cursor]=5'],
    [{ next: null }, null],
    [{ next: 'http://service.example/v3/shipments?page[cursor]=5' }, 'page[cursor]=5'],
    // A proxy that ends TLS, or maps ports and paths, makes the service write them as it knows
    // them.
    [{ next: 'https://service.example:8443/v3/shipments?page[cursor]=5' }, 'page[cursor]=5'],
    [
      { next: 'http://SERVICE.example.:8080/base/base/v3/shipments?page[cursor]=5' },
      'page[cursor]=5',
    ],
    [{ next: '//service.example:80/?page[cursor]=5' }, 'page[cursor]=5'],
    [{ next: { href: null } }, null],
    [{}, null],
    [null, null],
  ])('for %j returns %j', (links, query) => expect(readNextQuery(links, requested)).toBe(query));

  test.each([
    'https://evil.example/v3/shipments?page[cursor]=5',
    'https://service.example.evil.example/v3/shipments?page[cursor]=5',
    'https://service.example@evil.example/v3/shipments?page[cursor]=5',
    'ftp://service.example/v3/shipments?page[cursor]=5',
    '//evil.example/?page[cursor]=5',
  ])('refuses %s', (next) =>
    expect(readErrorCode(() => readNextQuery({ next }, requested))).toBe('link_elsewhere'),
  );

  test.each(['a', 'é'])(
    'refuses a link that is too long when its characters are encoded: %s',
    (character) => {
      const read = (count: number) =>
        readNextQuery({ next: `?x=${character.repeat(count)}` }, requested);
      const longest = Math.floor((8_192 - 3) / encodeURIComponent(character).length);
      expect(read(longest)).toHaveLength(encodeURIComponent(character).length * longest + 2);
      expect(() => read(longest + 1)).toThrow(
        /links\.next has \d+ characters; the maximum is 8192/,
      );
    },
  );

  test.each([{ next: 5 }, { next: { href: {} } }, 'text', []])(
    'refuses %j as undecodable',
    (links) => expect(readErrorCode(() => readNextQuery(links, requested))).toBe('undecodable'),
  );
});
