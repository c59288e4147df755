import { expect, test } from 'vitest';
import { decideEnd, type EndFacts, type RunEnd } from '../../../src/schedule/decide-end.ts';
import { newTotals } from '../../../src/schedule/run.ts';

const now = new Date('2026-03-29T12:00:00Z');
const later = (ms: number) => new Date(now.getTime() + ms);
const run = {
  client: 'default',
  job: 'pull-orders',
  trigger: 'schedule',
  schedule: { kind: 'every', everyMs: 60_000 },
} as const;
const stored: EndFacts = {
  ...{ nextAt: later(40_000), failures: 0, lastChangeAt: null, lastPushAt: null },
};
const end = (how: RunEnd, facts: Partial<EndFacts> = {}, changes = {}) =>
  decideEnd(
    { ...run, ...changes },
    { totals: newTotals(), end: how },
    { ...stored, ...facts },
    now,
  );
const failed = {
  status: 'failed',
  failure: { code: 'timeout', httpStatus: null, operation: null, words: 'x' },
  retryAfterMs: 0,
} as const;

test.each([
  ['that is done is due at its turn', { status: 'done' }, later(40_000)],
  ['that is stopped is due at once', { status: 'stopped' }, now],
  ['may say when it is due', { status: 'done', nextAt: later(3_600_000) }, later(3_600_000)],
  ['cannot be due before its end', { status: 'done', nextAt: later(-1) }, now],
  ['that failed is due at its turn', failed, later(40_000)],
  ['that failed may say when it is due', { ...failed, nextAt: later(90_000) }, later(90_000)],
  ['that was too early keeps its turn', { status: 'skipped', reason: '', opensAt: now }, undefined],
] as [string, RunEnd, Date | undefined][])('a run %s', (_name, how, nextAt) => {
  expect(end(how).nextAt).toEqual(nextAt);
});

test('a run that lasts beyond its turn has missed none', () => {
  expect(end({ status: 'done' }, { nextAt: later(-300_000) }).nextAt).toEqual(now);
});

test.each([{ status: 'done' }, { status: 'stopped' }, failed] as RunEnd[])(
  'a run that somebody asked for never changes the schedule: %j',
  (how) => {
    const trigger = 'manual' as const;
    expect(end({ ...how, nextAt: later(5) }, {}, { trigger }).nextAt).toBeUndefined();
  },
);

test('a job without a schedule is due only on request', () => {
  const changes = { schedule: undefined };
  expect(end({ status: 'done' }, { nextAt: null }, changes).nextAt).toBeNull();
});

test.each([
  [{ created: 1, removed: 2 }, 3, true],
  [{ stale: 1 }, 0, true],
  [{ quarantined: 1 }, 0, true],
  [{ fetched: 9, unchanged: 9 }, 0, false],
])('a run with the counts %j changed %i rows; entered in the ledger: %s', (counts, changed, is) => {
  const totals = { ...newTotals(), ...counts };
  expect(decideEnd(run, { totals, end: { status: 'done' } }, stored, now)).toMatchObject({
    ...{ changed, isEventful: is },
  });
});

test.each([
  [{ lastPushAt: now }, later(40_000)],
  [{ lastChangeAt: now, lastPushAt: later(-86_400_000) }, later(40_000)],
  [{}, later(250_000)],
])('a schedule that adapts follows rows and pushes alike: %j', (facts, nextAt) => {
  const schedule = { kind: 'every', everyMs: 30_000, slowMs: 240_000 } as const;
  expect(end({ status: 'done' }, facts, { schedule }).nextAt).toEqual(nextAt);
});
