import { expect, test } from 'vitest';
import { judgeLost, type LostClaim, type UnknownRule } from '../../../src/push/judge-outcome.ts';

/** Judges a row whose worker was lost after the request may have been written, by default. */
const judge = (lost: Partial<LostClaim>, rule: UnknownRule = 'resend', random = 0.5) =>
  judgeLost({ isSent: true, losses: 0, lastError: 'before', ...lost }, rule, random);

const fiveTimes = expect.stringMatching(/^its worker was lost 5 times in a row/);

test.each<UnknownRule>(['resend', 'look up', 'ask operator'])(
  'a row that was not sent is sent again at once, and keeps its error (%s)',
  (rule) => {
    expect(judge({ isSent: false }, rule)).toEqual({
      became: 'pending',
      delayMs: 0,
      error: 'before',
      refusal: null,
    });
  },
);

test('a row that was not sent waits longer after each lost worker', () => {
  const delays = [0, 1, 2, 3].map(
    (losses) => judge({ isSent: false, losses }, 'resend', 1).delayMs,
  );
  expect(delays).toEqual([0, 10_000, 20_000, 30_000]);
  expect(judge({ isSent: false, losses: 2 }, 'resend', 0.25).delayMs).toBe(5_000);
});

test('a row that may have been sent is sent again if its kind allows that', () => {
  expect(judge({})).toEqual({
    became: 'pending',
    delayMs: 0,
    error: 'its worker was lost while sending; sent again',
    refusal: null,
  });
});

test('a row that may have been sent is looked up if its kind can be', () => {
  expect(judge({}, 'look up')).toEqual({
    became: 'unknown',
    delayMs: 0,
    error: 'its worker was lost while sending; being looked up',
    refusal: null,
  });
});

test('a row that may have been sent waits for a person if nothing else can decide', () => {
  const verdict = {
    became: 'unknown',
    delayMs: null,
    error: expect.stringMatching(
      /^its worker was lost while sending\. It may have been carried out/,
    ),
    refusal: null,
  };
  expect(judge({}, 'ask operator')).toEqual(verdict);
  expect(judge({ losses: 4 }, 'ask operator')).toEqual(verdict);
});

test.each([
  ['was not sent', false],
  ['is sent again', true],
])('a row that %s is dead after five lost workers, not before', (_which, isSent) => {
  expect(judge({ isSent, losses: 3 }).became).toBe('pending');
  expect(judge({ isSent, losses: 4 })).toEqual({
    became: 'dead',
    delayMs: null,
    error: fiveTimes,
    refusal: null,
  });
});

test('a row that is looked up is dead after five lost workers unless it was carried out', () => {
  expect(judge({ losses: 3 }, 'look up').refusal).toBeNull();
  expect(judge({ losses: 4 }, 'look up')).toEqual({
    became: 'unknown',
    delayMs: 0,
    error: 'its worker was lost while sending; being looked up',
    refusal: fiveTimes,
  });
});

test('a row that was not sent is dead after five lost workers, whatever its kind', () => {
  expect(judge({ isSent: false, losses: 4 }, 'look up').became).toBe('dead');
  expect(judge({ isSent: false, losses: 4 }, 'ask operator').became).toBe('dead');
});
