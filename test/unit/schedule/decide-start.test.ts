import { expect, test } from 'vitest';
import {
  decideStart,
  type StartFacts,
  type StartRequest,
} from '../../../src/schedule/decide-start.ts';

const now = new Date('2026-03-29T12:00:00Z');
const later = (ms: number) => new Date(now.getTime() + ms);
const scheduled: StartRequest = {
  ...{ client: 'default', job: 'pull-orders', identity: 'a', trigger: 'schedule' },
  schedule: { kind: 'every', everyMs: 60_000 },
};
const manual: StartRequest = { ...scheduled, trigger: 'manual' };
const due: StartFacts = {
  ...{ nextAt: now, isLeased: false, holdReason: null, heldUntil: null },
  ...{ identity: 'a', baseUrl: 'http://a.test/', pausedSince: null, isPausedForAll: null },
};
const decide = (request: StartRequest, facts: Partial<StartFacts>) =>
  decideStart(request, { ...due, ...facts }, now);
const paused = { pausedSince: now, isPausedForAll: false };
const held = { holdReason: 'no answer', heldUntil: later(30_000) };

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
  ['of a paused job', scheduled, paused, 'paused'],
  ['by hand of a paused job', manual, { ...paused, isPausedForAll: true }, 'paused'],
  ['of a held client', scheduled, held, 'held'],
  ['with another account', manual, { ...paused, identity: 'b', isLeased: true }, 'identity'],
] as [string, StartRequest, Partial<StartFacts>, string][])(
  'a run %s does not begin',
  (_name, request, facts, reason) => {
    expect(decide(request, facts)).toMatchObject({ kind: 'skipped', reason });
  },
);

test('a hold says when it ends instead of when the job is due', () => {
  expect(decide(scheduled, held)).toMatchObject({ nextAt: held.heldUntil, because: 'no answer' });
});

test('a hold keeps no run from beginning that somebody asked for, or that asks nothing', () => {
  expect(decide(manual, held)).toMatchObject({ kind: 'start', wasHeld: true });
  expect(decide({ ...scheduled, isLocal: true }, held)).toMatchObject({ kind: 'start' });
});

test.each([later(60_000), null])(
  'a run that somebody asked for begins at any time, and never moves the due time %s',
  (nextAt) => {
    const begun = { kind: 'start', nextAt: undefined, missed: 0 };
    expect(decide(manual, { nextAt })).toMatchObject(begun);
  },
);

test('a late run replaces the turns that were missed, and counts them', () => {
  expect(decide(scheduled, { nextAt: later(-305_000) })).toMatchObject({ missed: 5 });
});
