import { describe, expect, test } from 'vitest';
import {
  type Answer,
  chooseDue,
  type DueDelivery,
  judgeDelivery,
  judgeReceiver,
  judgeStatus,
  type ReceiverState,
} from '../../../src/core/delivery.ts';

const hourMs = 3_600_000;
const giveUp = { maxAgeMs: 72 * hourMs, minTries: 10 };
const taken: Answer = { kind: 'taken' };
const refused = judgeStatus(400);
const away = judgeStatus(503);

test.each([
  [200, 'taken'],
  [299, 'taken'],
  [400, 'refused'],
  [404, 'refused'],
  [410, 'refused'],
  [422, 'refused'],
  [301, 'away'],
  [408, 'away'],
  [425, 'away'],
  [429, 'away'],
  [500, 'away'],
  [503, 'away'],
])('status %i means %s', (status, kind) => {
  expect(judgeStatus(status).kind).toBe(kind);
});

test('only an answer about the receiver keeps its Retry-After', () => {
  expect(judgeStatus(503, 7_000)).toMatchObject({ retryAfterMs: 7_000 });
  expect(judgeStatus(400, 7_000)).not.toHaveProperty('retryAfterMs');
});

describe('a delivery', () => {
  const judge = (answer: Answer, tries: number, ageMs = 0) =>
    judgeDelivery({ answer, tries, ageMs, random: 1 }, giveUp);

  test('waits longer after each failure, up to a quarter of an hour', () => {
    expect([1, 2, 3, 11, 30].map((tries) => judge(refused, tries))).toEqual(
      [1_000, 2_000, 4_000, 900_000, 900_000].map((delayMs) => ({ status: 'waiting', delayMs })),
    );
  });

  test('is given up after days and ten tries, not earlier', () => {
    expect(judge(refused, 9, 100 * hourMs).status).toBe('waiting');
    expect(judge(refused, 10, 71 * hourMs).status).toBe('waiting');
    expect(judge(refused, 10, 73 * hourMs)).toEqual({ status: 'dead' });
    expect(judge(taken, 10, 73 * hourMs)).toEqual({ status: 'delivered' });
  });
});

describe('a receiver', () => {
  const here: ReceiverState = { isAway: false, failures: 0, places: 8 };
  const judge = (state: ReceiverState, answer: Answer, tries = 1) =>
    judgeReceiver(state, { answer, tries, ageMs: 0, random: 1 });

  test('is there when it refuses a delivery', () => {
    expect(judge(here, refused)).toMatchObject({ isAway: false, places: 8 });
  });

  test('is away after a failure of a delivery that never failed before', () => {
    expect(judge(here, away)).toEqual({ isAway: true, failures: 1, places: 1, delayMs: 1_000 });
    expect(judge(here, away, 2)).toMatchObject({ isAway: false, places: 8 });
  });

  test('is tried after growing pauses, and then gets 1, 2, 4 and 8 at a time', () => {
    const first = judge(here, away);
    const second = judge(first, away, 5);
    expect([second, judge(second, away)].map(({ delayMs }) => delayMs)).toEqual([2_000, 4_000]);
    const back: ReceiverState[] = [];
    for (let n = 0; n < 5; n++) back.push(judge(back.at(-1) ?? second, taken));
    expect(back.map(({ places }) => places)).toEqual([1, 2, 4, 8, 8]);
    expect(back.every(({ isAway, failures }) => !isAway && failures === 0)).toBe(true);
  });

  test('that asks to wait is left alone for that time, at most a quarter of an hour', () => {
    expect(judge(here, judgeStatus(429, 30_000), 9)).toMatchObject({
      isAway: true,
      delayMs: 31_000,
    });
    expect(judge(here, judgeStatus(503, 9_999_000), 9).delayMs).toBe(901_000);
    expect(judge(here, judgeStatus(429), 9).isAway).toBe(true);
  });
});

describe('what is posted next', () => {
  const due = (turn: string, count: number, isNew: boolean): DueDelivery[] =>
    Array.from({ length: count }, (_, n) => ({
      id: `${turn}${isNew ? 'n' : 'r'}${n + 1}`,
      turn,
      isNew,
      place: n + 1,
    }));
  const choose = (all: DueDelivery[], places = 8, lastTurn = '') =>
    chooseDue(all, places, lastTurn).map(({ id }) => id);

  test('is of each client by turns, beginning after the last one', () => {
    const all = [...due('a', 8, true), ...due('b', 1, true), ...due('c', 8, true)];
    expect(choose(all, 4)).toEqual(['an1', 'bn1', 'cn1', 'an2']);
    expect(choose(all, 2, 'a')).toEqual(['bn1', 'cn1']);
    expect(choose(all, 1, 'c')).toEqual(['an1']);
  });

  test('leaves a quarter to those that failed before, and all places that are free', () => {
    expect(choose([...due('a', 8, true), ...due('a', 8, false)])).toEqual([
      'an1',
      'an2',
      'an3',
      'an4',
      'an5',
      'an6',
      'ar1',
      'ar2',
    ]);
    expect(choose([...due('a', 1, true), ...due('a', 8, false)], 4)).toEqual([
      'an1',
      'ar1',
      'ar2',
      'ar3',
    ]);
    expect(choose([...due('a', 1, true), ...due('a', 8, false)], 1)).toEqual(['an1']);
    expect(choose(due('a', 2, false), 1)).toEqual(['ar1']);
  });
});
