import type { Random } from '../../../src/sandbox/random.ts';
import type { FaultRule } from '../sandbox-control.ts';

type Effect = FaultRule['effect'];

/** `share` of all requests for each of these effects: the first rule that strikes decides, so later ones get a larger part. */
export function faultsOf(operation: string, share: number, effects: readonly Effect[]): FaultRule[] {
  return effects.map((effect, index) => ({ operation, probability: share / (1 - share * index), effect }));
}

/** Everything that can become of a request that makes a change; `lateMs` after the cut some are carried out. */
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

/** Everything that can become of a read on its way, whatever it is about. */
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
  { nextOrigin: 'http://127.0.0.1:9' },
  { repeatNext: true },
];
