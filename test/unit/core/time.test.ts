import { Temporal } from 'temporal-polyfill';
import { describe, expect, test } from 'vitest';
import { readDate, readDateTime } from '../../../src/core/time.ts';

const zone = 'Europe/Amsterdam';
const toInstant = (text: string) =>
  Temporal.Instant.from(text).toString({ fractionalSecondDigits: 6 });

describe('readDateTime', () => {
  test.each([
    ['2026-01-05T10:11:12.1234567', '2026-01-05T09:11:12.123456Z', 'winter, seventh digit cut'],
    ['2026-07-05T10:11:12.5', '2026-07-05T08:11:12.500000Z', 'summer'],
    ['2026-07-05T10:11:12.5Z', '2026-07-05T10:11:12.500000Z', 'its own zone'],
    ['2026-07-05T10:11:12+05:30', '2026-07-05T04:41:12.000000Z', 'its own offset'],
    ['2026-01-05T10:11', '2026-01-05T09:11:00.000000Z', 'no seconds'],
    ['2026-01-05T10:11+0100', '2026-01-05T09:11:00.000000Z', 'an offset without a colon'],
    [
      '2026-01-05T10:11:12\u221205:00',
      '2026-01-05T15:11:12.000000Z',
      'an offset with the sign minus',
    ],
    ['2026-01-05t10:11:12,25z', '2026-01-05T10:11:12.250000Z', 'lower case, and a comma'],
    ['2026-01-05T10', '2026-01-05T09:00:00.000000Z', 'an hour'],
    ['20260105T101112.5Z', '2026-01-05T10:11:12.500000Z', 'the basic form'],
    ['2026-12-31T24:00:00Z', '2027-01-01T00:00:00.000000Z', 'the end of a year'],
    ['2016-12-31T23:59:60Z', '2016-12-31T23:59:59.000000Z', 'a leap second'],
    ['2026-10-25T02:30:00', '2026-10-25T00:30:00.000000Z', 'the doubled hour: the earlier instant'],
    ['2026-03-29T02:30:00', '2026-03-29T01:30:00.000000Z', 'the skipped hour: shifted forward'],
  ])('%s is %s (%s)', (text, instant) => expect(toInstant(readDateTime(text, zone))).toBe(instant));

  test.each([
    'soon',
    '2026-02-30T00:00:00',
    '2026-01-01',
    '2026-01-01T10:11.5',
    '2026-01-01T24:01',
    '2026-01-01T1011',
    '20260101T10:11',
    '2026-01-01T10:11+24:00',
    '2026-01-01T10:11 Z',
    '9999-12-31T24:00',
    '0000-01-01T00:00:00',
    '+275760-09-13T00:00:00Z',
  ])('refuses %j', (text) => expect(() => readDateTime(text, zone)).toThrow(RangeError));

  test('takes a time without a zone as one of the given zone', () => {
    const instant = toInstant(readDateTime('2026-01-05T10:11:12', 'Asia/Kolkata'));
    expect(instant).toBe('2026-01-05T04:41:12.000000Z');
  });
});

describe('readDate', () => {
  test('accepts a date', () => expect(readDate('2028-02-29')).toBe('2028-02-29'));
  test.each(['2026-02-29', '2026-1-1', '2026-01-01T00:00:00', '0000-01-01'])('refuses %j', (text) =>
    expect(() => readDate(text)).toThrow(RangeError),
  );
});
