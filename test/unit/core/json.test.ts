import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  findUnstorable,
  findUnstorableReason,
  mayBeUnstorable,
  parseExact,
  ShapeError,
  toStorableJson,
} from '../../../src/core/json.ts';

describe('parseExact', () => {
  test.each([
    '12345678901234567890',
    '0.10',
    '1e400',
    '-0',
    '3.14159265358979323846',
    '9007199254740993',
  ])('keeps %s letter for letter', (number) => {
    expect(JSON.stringify(parseExact(`{"price":${number}}`))).toBe(`{"price":${number}}`);
  });

  test('does not change the meaning of any JSON', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(JSON.parse(JSON.stringify(parseExact(text)))).toEqual(JSON.parse(text));
      }),
    );
  });

  test('every decimal survives with all its digits', () => {
    const decimal = fc
      .tuple(fc.bigInt(-(10n ** 25n), 10n ** 25n), fc.stringMatching(/^\d{1,25}$/))
      .map(([whole, part]) => `${whole}.${part}`);
    fc.assert(
      fc.property(decimal, (text) => {
        expect(JSON.stringify(parseExact(`[${text}]`))).toBe(`[${text}]`);
      }),
    );
  });

  test.each([
    ['arrays', (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`],
    ['objects', (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`],
    [
      'arrays with a kept number',
      (levels: number) => `${'[1.10,'.repeat(levels)}1${']'.repeat(levels)}`,
    ],
  ])('refuses %s that nest too deep', (_what, nested) => {
    expect(() => parseExact(nested(2_001))).toThrow(new ShapeError('nests too deep'));
    expect(() => parseExact(nested(2_000))).not.toThrow();
  });

  test('refuses more than 1,500,000 values', () => {
    const many = (values: number) => `[${'1,'.repeat(values - 1)}1]`;
    expect(() => parseExact(many(1_500_001))).toThrow(
      new ShapeError('holds more than 1500000 values'),
    );
    expect(parseExact(many(1_500_000))).toHaveLength(1_500_000);
  });

  test('does not count brackets in texts', () => {
    const text = JSON.stringify({
      a: '['.repeat(2_500),
      [`{"\\${'['.repeat(2_500)}`]: ['"[', '\\', '[['],
    });
    expect(parseExact(text)).toEqual(JSON.parse(text));
    expect(() => parseExact(`"${'['.repeat(2_500)}`)).toThrow(SyntaxError);
  });
});

describe('findUnstorable', () => {
  const raw = (number: string) => ({ a: '"\\', b: [JSON.rawJSON(number)] });

  test.each(['1e999999', '-1e131071', '1E+400', '0.1e-400', '1e00400'])('refuses %s', (number) => {
    expect(findUnstorable(raw(number))).toContain('exponent');
    expect(mayBeUnstorable(JSON.stringify(raw(number)))).toBe(true);
  });

  test.each(['1.7976931348623157e+308', '4.9e-324', '1e0', '1e00005', '12'])(
    'accepts %s',
    (number) => {
      expect(findUnstorable(raw(number))).toBeNull();
    },
  );

  test('accepts texts that look like such a number, and refuses NUL', () => {
    expect(findUnstorable({ '1e999999': '"1e999999', code: '3e99999\\' })).toBeNull();
    expect(findUnstorable(['\0'])).toContain('NUL');
  });
});

describe('findUnstorableReason', () => {
  const findReason = (value: unknown) => findUnstorableReason(JSON.stringify(value));
  test('names NUL and half surrogates, in values and in member names', () => {
    expect(findReason({ a: 'x\0' })).toContain('NUL');
    expect(findReason({ 'a\0': 1 })).toContain('NUL');
    expect(findReason(['\ud83d'])).toContain('surrogate');
    expect(findReason(['\\\0'])).toContain('NUL');
  });
  test('accepts everything else, also a backslash before u0000', () => {
    expect(findReason(['\\u0000', '\\ud800', 'é', '😀', '\u0001'])).toBeNull();
  });
  test('takes linear time, also for a million backslashes', () => {
    const backslashes = '\\'.repeat(1_000_000);
    // The space matters: backslashes right before an escape are the easy case.
    expect(findReason([`${backslashes} \u0001`])).toBeNull();
    expect(findReason([`${backslashes} \0`])).toContain('NUL');
  });
});

test('text for Postgres has no NUL and no half of a surrogate pair, not even in names', () => {
  const value = parseExact('{"a\\u0000": {"\\ud800": "\\u0000"}, "digits": 1.10}');

  expect(toStorableJson(value)).toBe('{"a\u2400":{"\ufffd":"\u2400"},"digits":1.10}');
});
