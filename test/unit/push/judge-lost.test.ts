import { expect, test } from 'vitest';
import { judgeLost, type LostClaim, type UnknownRule } from '../../../src/push/judge-outcome.ts';

/** Judges a row whose worker was lost after the request may have been written, by default. */
const judge = (lost: Partial<LostClaim>, rule: UnknownRule = 'resend', random = 0.5) =>
  judgeLost(
    { isSent: true, losses: 0, lastError: 'before', cancelProblem: null, ...lost },
    rule,
    random,
  );

const fiveTimes = expect.stringMatching(/^its worker was lost 5 times in a row/);

const sentAgain = { status: 'pending', delayMs: 0 };
const lookedUp = {
  ...{ status: 'unknown', delayMs: 0 },
  error: 'its worker was lost while sending; being looked up',
};
const leftToPerson = {
  ...{ status: 'unknown', delayMs: null },
  error: expect.stringMatching(/^its worker was lost while sending\. It may have been carried out/),
};
const dead = { status: 'dead', delayMs: null, error: fiveTimes };

test.each<[string, UnknownRule, Partial<LostClaim>, object]>([
  ['unsent', 'resend', { isSent: false }, { ...sentAgain, error: 'before' }],
  ['unsent', 'look up', { isSent: false }, { ...sentAgain, error: 'before' }],
  ['unsent', 'ask operator', { isSent: false }, { ...sentAgain, error: 'before' }],
  [
    'unsent, lost often',
    'resend',
    { isSent: false, losses: 3 },
    { ...sentAgain, delayMs: 15_000, error: 'before' },
  ],
  ['unsent, lost too often', 'resend', { isSent: false, losses: 4 }, dead],
  ['unsent, lost too often', 'look up', { isSent: false, losses: 4 }, dead],
  ['unsent, lost too often', 'ask operator', { isSent: false, losses: 4 }, dead],
  [
    'perhaps sent',
    'resend',
    {},
    { ...sentAgain, error: 'its worker was lost while sending; sent again' },
  ],
  [
    'perhaps sent, lost often',
    'resend',
    { losses: 3 },
    { ...sentAgain, error: 'its worker was lost while sending; sent again' },
  ],
  ['perhaps sent, lost too often', 'resend', { losses: 4 }, dead],
  ['perhaps sent', 'look up', {}, lookedUp],
  ['perhaps sent, lost often', 'look up', { losses: 3 }, lookedUp],
  // It is dead unless the look-up finds that it was carried out.
  ['perhaps sent, lost too often', 'look up', { losses: 4 }, { ...lookedUp, refusal: fiveTimes }],
  ['perhaps sent', 'ask operator', {}, leftToPerson],
  ['perhaps sent, lost too often', 'ask operator', { losses: 4 }, leftToPerson],
])('a row that was %s, of a kind with the rule "%s"', (_state, rule, lost, expected) => {
  expect(judge(lost, rule)).toEqual(expected);
});

test('a row that must not be cancelled is given up with the reason', () => {
  const { refusal } = judge({ losses: 4, cancelProblem: 'order 7 may be renamed' }, 'look up');
  expect(refusal).toMatch(/^its worker was lost 5 times .* cannot be cancelled: order 7 may be/);
});

test('a row that was not sent waits longer after each lost worker', () => {
  const delays = [0, 1, 2, 3].map(
    (losses) => judge({ isSent: false, losses }, 'resend', 1).delayMs,
  );
  expect(delays).toEqual([0, 10_000, 20_000, 30_000]);
  expect(judge({ isSent: false, losses: 2 }, 'resend', 0.25).delayMs).toBe(5_000);
});
