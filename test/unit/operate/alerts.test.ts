import { describe, expect, test } from 'vitest';
import {
  type AlertChanges,
  decideAlerts,
  type StoredAlert,
  toFoundAlerts,
} from '../../../src/operate/alerts/decide-alerts.ts';
import { createProblem } from '../../../src/operate/health/problem.ts';

const start = Date.parse('2026-05-04T12:00:00Z');
const plenty = { alerts: 10, perClient: 5 };
const dead = (text: string) =>
  toFoundAlerts(
    [createProblem('outbox_dead', { client: 'shop' }, text, { remedy: 'retry' })],
    ['', 'shop'],
  );

/** Makes a check, `seconds` after the start. */
const check = (
  found: ReturnType<typeof dead>,
  open: readonly StoredAlert[],
  seconds: number,
  room = plenty,
) =>
  decideAlerts(found, open, {
    now: new Date(start + seconds * 1_000),
    holdMs: 30_000,
    capacity: room,
    link: 'https://erp.example/sync',
  });
const listTypes = ({ posts }: AlertChanges) => posts.map(({ body }) => body.type);

describe('a problem', () => {
  test('is posted when it has lasted 30 seconds, and keeps its identity while its text changes', () => {
    const first = check(dead('1 row is dead'), [], 0);
    expect(listTypes(first)).toEqual([]);
    const early = check(dead('2 rows are dead'), first.kept, 29);
    expect(listTypes(early)).toEqual([]);
    const second = check(dead('3 rows are dead'), early.kept, 30);
    expect(second.posts).toMatchObject([
      {
        alertId: first.kept[0]?.id,
        body: {
          data: { text: '3 rows are dead', link: 'https://erp.example/sync' },
          text: expect.stringMatching(/ https:\/\/erp\.example\/sync\/$/) as string,
        },
      },
    ]);
    const later = check(dead('400 rows are dead'), second.kept, 60);
    expect(later.posts).toEqual([]);
    expect(later.kept).toMatchObject([{ id: first.kept[0]?.id }]);
  });

  test('ends with the words that were posted last, also if its text has changed since', () => {
    const began = check(dead('3 rows are dead'), check(dead('1 row is dead'), [], 0).kept, 30);
    const later = check(dead('400 rows are dead'), began.kept, 60);
    const gone = check([], check([], later.kept, 70).kept, 100);
    expect(gone.posts).toMatchObject([
      { body: { type: 'problem.ended', data: { text: '3 rows are dead', remedy: 'retry' } } },
    ]);
  });

  test('is posted again when a warning becomes one that needs a person', () => {
    const away = (severity: 'bad' | 'warn') =>
      toFoundAlerts(
        [createProblem('service_away', { client: 'shop' }, 'away', { severity })],
        ['shop'],
      );
    const began = check(away('warn'), check(away('warn'), [], 0).kept, 30);
    const worse = check(away('bad'), began.kept, 90);
    const later = check(away('bad'), worse.kept, 120);
    expect([began, worse, later].map(listTypes)).toEqual([
      ['problem.began'],
      ['problem.worsened'],
      [],
    ]);
    expect(worse.posts).toMatchObject([
      { alertId: began.kept[0]?.id, body: { data: { severity: 'bad' } } },
    ]);
  });

  test('that goes away before is forgotten without a post', () => {
    const first = check(dead('1 row is dead'), [], 0);
    const second = check([], first.kept, 30);
    expect(second).toEqual({ kept: [], removed: [first.kept[0]?.id], posts: [] });
  });

  test('ends when it was missing for 30 seconds, and not if it comes back meanwhile', () => {
    const first = check(dead('1 row is dead'), [], 0);
    const began = check(dead('1 row is dead'), first.kept, 30);
    const missing = check([], began.kept, 60);
    const back = check(dead('1 row is dead'), missing.kept, 89);
    const missingAgain = check([], back.kept, 120);
    const ended = check([], missingAgain.kept, 150);
    expect([missing, back, missingAgain, ended].map(listTypes)).toEqual([
      [],
      [],
      [],
      ['problem.ended'],
    ]);
    expect(ended.removed).toEqual([first.kept[0]?.id]);
  });

  test('waits while there is no room for it; one alert counts those that wait', () => {
    const none = check(dead('1 row is dead'), [], 0, { ...plenty, alerts: 0 });
    expect(none.kept).toMatchObject([
      { code: 'alerts_full', text: '1 more problem has no alert: too many are open' },
    ]);
    expect(
      listTypes(check(dead('1 row is dead'), none.kept, 30, { ...plenty, alerts: 0 })),
    ).toEqual(['problem.began']);
  });

  test('of one client has room however many problems another client has', () => {
    const gaps = Array.from({ length: 30 }, (_, index) => ({
      ...createProblem('outbox_undecided', { client: 'loud' }, 'stuck'),
      detail: String(index),
    }));
    const found = [...toFoundAlerts(gaps, ['']), ...dead('1 row is dead')];
    const first = check(found, [], 0);
    const codes = (changes: AlertChanges) =>
      changes.kept.map(({ code, client }) => `${code} ${client}`);
    const loud = Array.from({ length: 5 }, () => 'outbox_undecided loud');
    expect(codes(first)).toEqual([...loud, 'outbox_dead shop', 'alerts_full null']);
    expect(codes(check(found, first.kept, 30, { ...plenty, alerts: 3 }))).toEqual(codes(first));
  });
});

test('notes and problems of other clients are not posted; quoted words are left out', () => {
  const found = toFoundAlerts(
    [
      createProblem('rate_limited', { client: 'shop' }, 'the service limits the rate'),
      createProblem('alerts_undelivered', { client: null, part: 'alerts' }, '1 alert waits'),
      createProblem('job_failing', { client: 'other', part: 'reconcile' }, 'failed once'),
      createProblem(
        'job_failing',
        { client: 'shop', part: 'reconcile' },
        'failed once: «Jane Doe»',
      ),
      createProblem('job_warning', { client: 'shop', part: 'pull-stock' }, 'one'),
      createProblem('job_warning', { client: 'shop', part: 'pull-stock' }, 'two'),
    ],
    ['', 'shop'],
  );
  expect(found.map(({ subject, text }) => `${subject}: ${text}`)).toEqual([
    'shop reconcile: failed once: «…»',
    'shop pull-stock: one; two',
  ]);
});
