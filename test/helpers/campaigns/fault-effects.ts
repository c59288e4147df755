import type { Random } from '../../../src/sandbox/random.ts';
import type { FaultRule } from '../sandbox-control.ts';

type Effect = FaultRule['effect'];

/**
 * Returns rules that give each effect the same share of all requests. The first rule that strikes
 * decides, so later rules have a larger probability.
 */
export function makeFaultRules(
  operation: string,
  { share, effects }: { share: number; effects: readonly Effect[] },
): FaultRule[] {
  return effects.map((effect, index) => ({
    operation,
    probability: share / (1 - share * index),
    effect,
  }));
}

/**
 * Effects of every fault that a request for a change can meet.
 * @param lateMs time after a cut until the service carries the request out, in milliseconds
 */
export const pushFaults = (lateMs: number): Effect[] => [
  { reset: true, afterEffect: true },
  { noAnswer: true },
  { reset: true, effectAfterMs: lateMs },
  { status: 500, afterEffect: true },
  { status: 500 },
  { status: 503, afterEffect: true },
  { status: 429, retryAfter: '1' },
  { expireTokens: true },
];

/** Effects of every fault that a read can meet. */
export const readFaults = (random: Random): Effect[] => [
  { status: random.pick([400, 404, 408, 429, 500, 502, 503]) },
  { status: 503, retryAfter: '1' },
  { status: 502, html: true },
  { status: 302, location: '/v3/elsewhere' },
  { reset: true },
  { noAnswer: true },
  { delayMs: random.between(20, 1_500) },
  { truncate: true },
  { invalidJson: true },
  { contentType: 'text/html' },
  { drip: { bytes: 4_000, everyMs: 20 } },
  { lagMs: 2_000 },
  { duplicateRow: true },
  { reverseRows: true },
  { expireTokens: true },
  { nextOrigin: 'http://elsewhere.invalid:9' },
  { repeatNext: true },
];
