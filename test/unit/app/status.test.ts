import { describe, expect, test } from 'vitest';
import { formatStatus } from '../../../src/app/commands/status.ts';
import { describeProgress, ProgressView } from '../../../src/app/terminal/progress-view.ts';
import type { JobStatus } from '../../../src/erp/reports/job-status.ts';
import type { StreamStatus } from '../../../src/erp/reports/stream-status.ts';
import type { Rescan } from '../../../src/erp/rescan/rescans.ts';

const now = new Date('2026-05-04T12:00:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1_000);

const job: JobStatus = {
  client: 'default',
  job: 'pull-orders',
  stream: 'orders',
  running: false,
  dueAt: now,
  lastStartedAt: ago(60),
  lastSuccessAt: ago(50),
  lagSeconds: 50,
  lastFetched: 10,
  lastChanged: 1,
  lastOutcome: 'done',
  lastError: null,
  consecutiveFailures: 0,
  quarantined: 0,
  warnings: [],
  pausedSince: null,
  skips: 0,
  lastSkipAt: null,
  lastSkipReason: null,
};
const stream: StreamStatus = {
  client: 'default',
  stream: 'orders',
  job: 'pull-orders',
  lastAttemptAt: ago(60),
  lastSuccessAt: ago(50),
  lastChangeAt: ago(3_000),
  newestSourceAt: ago(7_200),
  fetchedSoFar: null,
  firstLoad: false,
  changedLastDay: 40,
  usualPerDay: 42.4,
  lastFetched: 10,
  usualFetched: 11,
  reconciledAt: ago(36_000),
  missing: 1,
  stale: 2,
  extra: 0,
  lateSecondsP99: 2 * 86_400,
  readByDay: true,
  gaps: [],
  openRescans: [],
  quarantined: 0,
};
const rescan = { id: 7, kind: 'backfill', background: false, fetched: 300, expected: 1_000, from: null, to: null };
const format = (more: Partial<StreamStatus>) => formatStatus([job], [{ ...stream, ...more }], 7, now);

describe('status', () => {
  test('shows each stream next to its usual numbers, and late changes next to the lookback', () => {
    const [, heading = '', row = ''] = /(client +stream.*)\n(.*)/.exec(format({})) ?? [];
    expect(heading).toContain('late p99 (lookback 7d)');
    expect(row.split(/ {2,}/)).toEqual([
      'default',
      'orders',
      '60s',
      '50s',
      '50m',
      '2026-05-04T10:00',
      '40',
      '42',
      '10h',
      '1/2/0',
      '2d',
    ]);
    expect(format({}).split('\n')).toHaveLength(5);
  });

  test.each<[string, Partial<StreamStatus>, string]>([
    [
      'a first load with its progress',
      { firstLoad: true, fetchedSoFar: 4_200 },
      'the first load is not done; the current run has read 4200',
    ],
    ['a day with fewer changes than usual', { changedLastDay: 0 }, 'polls changed no row in 24 hours; usual: 42 a day'],
    [
      'a stream that no worker reads',
      { lastSuccessAt: ago(3 * 86_400), changedLastDay: 0 },
      'no poll completed for 3d; check that a worker is running',
    ],
    ['a gap', { gaps: [{ from: '2026-01-01', to: '2026-01-05' }] }, 'nothing was read from 2026-01-01 to 2026-01-05'],
    ['lateness beyond the lookback', { lateSecondsP99: 9 * 86_400 }, 'changes up to 9d late, beyond LOOKBACK_DAYS (7)'],
    [
      'a backfill that was interrupted',
      { openRescans: [{ ...rescan, from: '2026-01-01' }] },
      'backfill 7 is not done: 300 of about 1000 read; continue with: backfill orders --from 2026-01-01',
    ],
    ['a rescan of the workers', { openRescans: [{ ...rescan, background: true }] }, 'workers continue it'],
  ])('names %s', (_what, more, words) => expect(format(more)).toContain(words));

  test('does not mention the lookback if a stream is not read by day', () =>
    expect(format({ readByDay: false, lateSecondsP99: 9 * 86_400 })).not.toContain('LOOKBACK'));
});

describe('progress', () => {
  const makeRescan = (fetched: number, expected: number | null) =>
    ({ fetched, expected, pages: fetched / 100, missing: 2, stale: 1 }) as Rescan;

  test('is a share of the expected number, and never more than 100 %', () => {
    expect(describeProgress('x', makeRescan(500, 1_000), true)).toBe(
      `x  [${'#'.repeat(15)}${'.'.repeat(15)}] 50 %  500 read in 5 pages, 3 healed`,
    );
    expect(describeProgress('x', makeRescan(1_500, 1_000), false)).toBe('x  100 %  1,500 read in 15 pages, 3 healed');
    expect(describeProgress('x', makeRescan(100, 0), true)).toBe('x  100 read in 1 pages, 3 healed');
  });

  test('draws and removes a bar on a terminal; elsewhere quick work writes nothing', async () => {
    const written: string[] = [];
    const write = (text: string) => written.push(text);
    const quick = new ProgressView('x', { write });
    quick.update(makeRescan(100, 1_000));
    quick.end();
    expect(written).toEqual([]);
    const bar = new ProgressView('x', { isTTY: true, write });
    const deadlineMs = performance.now() + 120_000;
    while (written.length === 0 && performance.now() < deadlineMs) {
      bar.update(makeRescan(100, 1_000));
      await new Promise(setImmediate);
    }
    bar.end();
    expect(written).toEqual([expect.stringMatching(/^\r.*\[###/s), '\r\u001b[K']);
  });
});
