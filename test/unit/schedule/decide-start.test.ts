import { describe, expect, test } from 'vitest';
import {
  decideStart,
  type StartFacts,
  type StartRequest,
} from '../../../src/schedule/decide-start.ts';

const now = new Date('2026-03-29T12:00:00Z');
const later = (ms: number) => new Date(now.getTime() + ms);
const scheduled: StartRequest = {
  ...{ client: 'default', job: 'pull-orders', trigger: 'schedule' },
  schedule: { kind: 'every', everyMs: 60_000 },
};
const manual: StartRequest = { ...scheduled, trigger: 'manual' };
const due: StartFacts = {
  ...{ nextAt: now, isLeased: false, pause: null, hold: null },
  account: { baseUrl: 'http://a.test/', isAccepted: true },
};
const decide = (request: StartRequest, facts: Partial<StartFacts>) =>
  decideStart(request, { ...due, ...facts }, now);
const hold = { reason: 'no answer', until: later(30_000) };

test('a scheduled run that is due begins, and moves the due time to the next turn', () => {
  const decision = decide(scheduled, {});
  expect(decision).toMatchObject({ kind: 'start', missed: 0, soonAt: null });
  const waitMs = decision.kind === 'start' ? Number(decision.nextAt) - now.getTime() : 0;
  expect(waitMs).toBeGreaterThanOrEqual(6_000);
  expect(waitMs).toBeLessThanOrEqual(66_000);
});

test.each([
  ['before it is due', scheduled, { nextAt: later(1) }, 'not_due'],
  ['that is never due', scheduled, { nextAt: null }, 'not_due'],
  ['of a job that is under way', scheduled, { isLeased: true }, 'overlap'],
  ['by hand of a job that is under way', manual, { isLeased: true }, 'overlap'],
  ['of a paused job', scheduled, { pause: { since: now, isForAll: false } }, 'paused'],
  ['by hand of a paused job', manual, { pause: { since: now, isForAll: true } }, 'paused'],
  ['of a held client', scheduled, { hold }, 'held'],
  ['with another account', scheduled, { account: { baseUrl: 'x', isAccepted: false } }, 'identity'],
] as [string, StartRequest, Partial<StartFacts>, string][])(
  'a run %s does not begin',
  (_name, request, facts, reason) => {
    expect(decide(request, facts)).toMatchObject({ kind: 'skipped', reason });
  },
);

test('a parked client says so, also if its job is paused and a run is under way', () => {
  const account = { baseUrl: 'x', isAccepted: false };
  const pause = { since: now, isForAll: false };
  expect(decide(manual, { account, pause, isLeased: true })).toMatchObject({ reason: 'identity' });
});

describe('a hold', () => {
  test('says when it ends instead of when the job is due', () => {
    expect(decide(scheduled, { hold })).toMatchObject({ nextAt: hold.until, because: 'no answer' });
  });

  test('keeps no run from beginning that somebody asked for, or that asks nothing', () => {
    expect(decide(manual, { hold })).toMatchObject({ kind: 'start', wasHeld: true });
    expect(decide({ ...scheduled, isLocal: true }, { hold })).toMatchObject({ kind: 'start' });
  });
});

test('a run that somebody asked for begins at any time, and never moves the due time', () => {
  expect(decide(manual, { nextAt: later(60_000) })).toMatchObject({ nextAt: undefined, missed: 0 });
  expect(decide(manual, { nextAt: null })).toMatchObject({ kind: 'start', nextAt: undefined });
});

test('a late run replaces the turns that were missed, and counts them', () => {
  expect(decide(scheduled, { nextAt: later(-305_000) })).toMatchObject({ missed: 5 });
});
