import { expect, test } from 'vitest';
import { type Figure, formatFigures, isWorse } from '../../../bench/stand/accepted.ts';

const ratio = (value: number | null): Figure => ({ name: 'push : bare', value, better: 'more' });
const time = (value: number): Figure => ({ name: 'status, ms', value, better: 'less' });

test('a figure is worse below 0.8 of its accepted value, or above 1.25 times if less is better', () => {
  expect([0.79, 0.81, 2].map((value) => isWorse(ratio(value), 1))).toEqual([true, false, false]);
  expect([126, 124, 10].map((value) => isWorse(time(value), 100))).toEqual([true, false, false]);
});

test('a figure that was not measured, or never accepted, is not worse', () => {
  expect(isWorse(ratio(null), 1)).toBe(false);
  expect(isWorse(ratio(0.1), undefined)).toBe(false);
});

test('each figure is shown beside its accepted value', () => {
  const accepted = { at: '', machine: '', values: { 'push : bare': 1 } };
  expect(formatFigures([ratio(0.5), time(12)], accepted)).toEqual([
    'push : bare           0.5  accepted        1  WORSE',
    'status, ms             12  accepted     none',
  ]);
});
