import { expect, test } from 'vitest';
import { readConfig } from '../../../config/env.ts';
import type { ErrorCode } from '../../../src/core/error-codes.ts';
import type { Failure } from '../../../src/core/errors.ts';
import { findProblems } from '../../../src/operate/health/problems.ts';
import type { CurrentState, LateJob } from '../../../src/operate/health/state.ts';
import type { JobStatus } from '../../../src/operate/sql/job-status.ts';
import type { OutboxStatus } from '../../../src/operate/sql/outbox-status.ts';
import type { StreamStatus } from '../../../src/operate/sql/stream-status.ts';
import type { KnownClient } from '../../../src/service/sql/clients.ts';
import type { StoredHealth } from '../../../src/service/sql/service-health.ts';
import { makeJobStatus } from '../../helpers/job-status.ts';

const now = new Date('2026-05-04T12:00:00Z');
const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000);
const config = readConfig({ database: false, clients: false }, {});

/** A failure whose words say nothing of its codes, unless a test shows them. */
const makeFailure = (
  code: ErrorCode,
  facts: Partial<Pick<Failure, 'httpStatus' | 'operation' | 'words'>> = {},
): Failure => ({ ...{ code, httpStatus: null, operation: null, words: 'words' }, ...facts });
/** The answer of an operation with an error status. */
const makeAnswer = (operation: string, httpStatus: number) =>
  makeFailure('http_status', {
    ...{ httpStatus, operation, words: `${operation}: the answer of the service` },
  });
const away = makeAnswer('v3.orders.list', 503);
const refused = makeFailure('credentials_refused');
/** A job whose last run was done two minutes ago. */
const makeJob = (job: string, changes: Partial<JobStatus> = {}): JobStatus =>
  makeJobStatus({
    ...{ client: 'shop', job, stream: job.replace('pull-', ''), dueAt: ago(-5) },
    ...{ lastStartedAt: ago(2), lastSuccessAt: ago(2), lagSeconds: 120, lastOutcome: 'done' },
    ...changes,
  });
/** A job that has failed since a time, and last a minute ago. */
const makeFailing = (
  job: string,
  { code, httpStatus, operation, words }: Failure,
  minutes = 10,
  changes: Partial<JobStatus> = {},
) =>
  makeJob(job, {
    ...{ lastStartedAt: ago(1), lastSuccessAt: ago(minutes + 5), warnings: [words] },
    ...{ lastError: words, lastCode: code, lastHttpStatus: httpStatus, lastOperation: operation },
    ...{ consecutiveFailures: 3, failingSince: ago(minutes) },
    ...changes,
  });
const makeHold = (changes: Partial<StoredHealth> = {}): StoredHealth => ({
  ...{
    client: 'shop',
    scope: 'client',
    worker: '*',
    code: 'no_answer',
    cause: makeAnswer('common.status.get', 503),
    failures: 3,
  },
  ...{ sendWindow: 0, since: ago(42), untilInMs: 30_000, nextAt: ago(-0.5), voidAt: ago(-2) },
  ...changes,
});
const rows: OutboxStatus = {
  ...{
    client: 'shop',
    pending: 12,
    planned: 0,
    sending: 0,
    unknown: 0,
    toDecide: 0,
    settingsUnread: 0,
    dead: 0,
    stuckClients: 0,
    doneLastDay: 0,
  },
  ...{ oldestSeconds: 60, oldestMovingSeconds: 60 },
};
const makeClient = (changes: Partial<KnownClient> = {}) =>
  ({
    client: 'shop',
    acceptedAt: ago(600),
    servedAt: ago(0.2),
    offeredBaseUrl: null,
    queueAwaySince: null,
    ...changes,
  }) as KnownClient;
const makeLate = (job: string): LateJob => ({
  ...{ client: 'shop', job, lastSuccessAt: ago(60), since: ago(30), because: 'not run' as const },
});
function find(
  snapshot: Partial<CurrentState['snapshot']>,
  { stale = [], clockSkewMs = 0, diskFullSince = null }: Partial<CurrentState> = {},
) {
  const empty = { streams: [], outbox: [], holds: [], gates: [], pauses: [], database: null };
  const all = {
    ...{
      ...empty,
      jobs: [],
      clients: [makeClient()],
      watchedArticles: [],
      parcelBacklog: [],
      listLags: [],
      notifyQueue: 0,
      readOnly: false,
      feed: { waiting: 0, oldestAt: null },
      now,
    },
    ...{ deliveries: [], drift: [] },
    ...snapshot,
  };
  return findProblems(
    { snapshot: all, stale, clockSkewMs, diskFullSince, isScheduled: () => true },
    config,
  );
}

test('changes that nobody moves to the feed for a minute are a problem', () => {
  expect(find({ feed: { waiting: 7, oldestAt: ago(0.5) } })).toEqual([]);
  expect(find({ feed: { waiting: 7, oldestAt: ago(2) } })).toMatchObject([
    { code: 'feed_late', severity: 'bad', text: '7 changes not in the feed for 2m' },
  ]);
});

type Found = readonly [code: string, severity: string, follows: number, words?: RegExp];
type Case = readonly [what: string, given: Parameters<typeof find>, problems: readonly Found[]];

const jobs = ['pull-orders', 'pull-shipments', 'reconcile'];
const failing = jobs.map((job) => makeFailing(job, away));
const failAlone = (job: string) => makeFailing(job, away, 45, { failedAlone: true });
const full = makeFailure('disk_full');
const refusedHold = { code: 'credentials_refused', cause: refused, since: ago(5) } as const;
const tooFast = makeHold({
  ...{ code: 'too_fast', cause: makeAnswer('v3.orders.create', 429), sendWindow: 4 },
});
const limited = (minutes: number) => [
  makeFailing('pull-orders', makeAnswer('v3.orders.list', 429), minutes),
];
const holdUpdates = (changes: Partial<StoredHealth>) =>
  makeHold({
    ...{ scope: 'order.update', code: 'kind_failing', sendWindow: 1, since: ago(10) },
    cause: makeAnswer('v3.orders.update', 500),
    ...changes,
  });
const recovered = makeHold({ untilInMs: -1, sendWindow: 5 });
const late = [makeLate('pull-orders'), makeLate('pull-shipments')];
const makeStream = (changes: Partial<StreamStatus>) =>
  ({
    ...{ client: 'shop', stream: 'orders', job: 'pull-orders', quarantined: 0 },
    ...{ lastSuccessAt: now, gaps: [], openRescans: [] },
    ...changes,
  }) as unknown as StreamStatus;
const findAfterReconcile = (missing: number) =>
  makeStream({ missing, stale: 50, extra: 0, reconciledAt: ago(90) });
const slow = { ...rows, oldestMovingSeconds: 31 * 60 };
const pause = (job: string, hours: number, client: string | null = 'shop') => ({
  ...{ client, job, since: ago(hours * 60), by: 'me' },
});
const lag = { client: 'shop', longestMs: 312_000, longestAt: ago(60) };
const many = ['a', 'b', 'c', 'd', 'e'].map((client) => makeClient({ client, servedAt: ago(5) }));
const skippedJob = (lastSuccessAt: Date) =>
  makeJob('pull-orders', {
    ...{ lastSkipAt: ago(5), lastSkipReason: '1 missed', skips: 1, lastSuccessAt },
  });

/** What is stored, and the problems of it: code, severity, how many follow, and words. */
const cases: readonly Case[] = [
  [
    'a service that is away, and everything that waits for it',
    [
      {
        jobs: [
          ...failing,
          makeFailing('pull-inbounds', makeFailure('timeout', { operation: 'v3.inbounds.list' })),
        ],
        ...{ holds: [makeHold()], outbox: [rows] },
      },
      { stale: [makeLate('pull-returns')] },
    ],
    [['service_away', 'bad', 5, /answered 503 since 11:18 UTC; 5 jobs and 12 rows wait, nothing/]],
  ],
  [
    'one worker that alone does not reach the service, while polls succeed',
    [
      {
        jobs: [makeJob('pull-shipments', { lastSuccessAt: ago(1) })],
        holds: [makeHold({ worker: 'host:7:x' })],
      },
    ],
    [
      [
        'service_away',
        'warn',
        0,
        /^shop: worker host:7:x cannot reach .*, but others do.*its machine/,
      ],
    ],
  ],
  [
    'one worker that has ended without reaching the service',
    [
      {
        jobs: [makeJob('pull-shipments', { lastSuccessAt: ago(1) })],
        holds: [makeHold({ worker: 'host:7:x', untilInMs: -20_000 })],
      },
    ],
    [],
  ],
  [
    'one worker that does not reach the service, without any poll',
    [
      {
        jobs: [makeJob('pull-shipments', { lastSuccessAt: ago(60) })],
        holds: [makeHold({ worker: 'host:7:x' })],
      },
    ],
    [['service_away', 'bad', 0, /^shop: the service /]],
  ],
  [
    'one failed poll, before another request confirms that the service is away',
    [{ jobs: [makeFailing('pull-orders', away, 1), makeJob('pull-shipments')] }],
    [['service_away', 'note', 1]],
  ],
  [
    'a service that answers again',
    [
      {
        jobs: [...failing, makeJob('pull-inbounds', { lastSuccessAt: ago(0.5) })],
        ...{ holds: [recovered], outbox: [rows] },
      },
    ],
    [['service_away', 'note', 3, /3 jobs run again by themselves; 5 rows are sent at a time/]],
  ],
  ['a service that answers again while nothing waits', [{ holds: [recovered] }], []],
  [
    'refused credentials',
    [{ jobs: [makeFailing('pull-orders', refused)], holds: [makeHold(refusedHold)] }],
    [['credentials_refused', 'bad', 1, /refused the user .* since 11:55 UTC; .*\(SIGHUP\)/]],
  ],
  [
    'a base URL without /token',
    [{ holds: [makeHold({ ...refusedHold, cause: { ...refused, httpStatus: 405 } })] }],
    [['credentials_refused', 'bad', 0, /POST \/token with 405 since 11:55 UTC; .*the base URL/]],
  ],
  [
    'a rate limit with jobs that fail',
    [{ holds: [tooFast], jobs: limited(10) }],
    [['rate_limited', 'warn', 1, /\(429\) since 11:18 UTC; .*no attempt counts/]],
  ],
  [
    'a rate limit that lasts',
    [{ holds: [tooFast], jobs: limited(45) }],
    [['rate_limited', 'bad', 1, /set REQUESTS_PER_SECOND below the limit/]],
  ],
  [
    'a late job, which no note hides',
    [{ holds: [tooFast] }, { stale: [makeLate('pull-orders')] }],
    [
      ['job_late', 'bad', 0],
      ['rate_limited', 'note', 0],
    ],
  ],
  ...(
    [
      [
        'fails',
        {},
        'warn',
        /^shop v3\.orders\.update: fails since 11:50 UTC: .*all other requests continue/,
      ],
      ['is not there', { code: 'wrong_path' }, 'bad', /all other requests continue/],
      ['has failed for long', { since: ago(45), untilInMs: -1 }, 'bad', /fails since 11:15 UTC/],
      ['recovers', { since: ago(45), untilInMs: -1, sendWindow: 5 }, 'note', /all other requests/],
    ] as const
  ).map(
    ([what, changes, severity, words]): Case => [
      `an operation that ${what}`,
      [{ holds: [holdUpdates(changes)], jobs: [makeJob('pull-orders')], outbox: [rows] }],
      [['operation_failing', severity, 0, words]],
    ],
  ),
  [
    'the first load of a list that fails',
    [
      {
        jobs: [failAlone('pull-orders'), makeJob('pull-shipments')],
        streams: [makeStream({ firstLoad: true, fetchedSoFar: null, lastSuccessAt: null })],
      },
    ],
    [['operation_failing', 'bad', 2]],
  ],
  [
    'a list that fails while others are read',
    [{ jobs: [failAlone('pull-orders'), failAlone('reconcile'), makeJob('pull-shipments')] }],
    [
      [
        'operation_failing',
        'bad',
        2,
        /^shop v3\.orders\.list: fails since 11:15 UTC.*ask the operator/,
      ],
    ],
  ],
  [
    'a full database, of all clients',
    [
      {
        jobs: [
          makeFailing('pull-orders', full),
          { ...makeFailing('prune', full), client: 'other' },
        ],
      },
    ],
    [['database_full', 'bad', 2, /^every client: .* since 11:50 UTC; nothing is lost; free space/]],
  ],
  [
    'a full database that cannot record it',
    [{ clients: [makeClient({ queueAwaySince: ago(5) })] }, { diskFullSince: ago(2) }],
    [['database_full', 'bad', 0]],
  ],
  [
    'a database that takes no writes, in which no worker is seen',
    [
      {
        ...{ readOnly: true, feed: { waiting: 7, oldestAt: ago(2) }, outbox: [slow] },
        clients: [makeClient({ servedAt: ago(5) })],
      },
      { stale: late },
    ],
    [['database_read_only', 'bad', 4, /^every client: .* takes no writes .*; DATABASE_URL must/]],
  ],
  [
    'late jobs without a worker',
    [{ clients: [makeClient({ servedAt: ago(5) })], outbox: [rows] }, { stale: late }],
    [['worker_lost', 'bad', 2, /has served this client since 11:55 UTC; 2 jobs and 12 rows wait/]],
  ],
  [
    'jobs that failed before their worker was lost',
    [
      {
        clients: [makeClient({ servedAt: ago(5) })],
        jobs: failing.map((job) => ({ ...job, dueAt: ago(4) })),
      },
    ],
    [['worker_lost', 'bad', 3, /since 11:55 UTC; 3 jobs wait, and nothing is lost; start a/]],
  ],
  [
    'a job that failed before it was paused, with a worker that only pulls',
    [
      {
        clients: [makeClient({ servedAt: null })],
        jobs: [
          makeFailing('pull-orders', makeFailure('unexpected'), 10, {
            ...{ dueAt: ago(4), pausedSince: ago(5) },
          }),
        ],
      },
    ],
    [['job_failing', 'warn', 0]],
  ],
  [
    'late and failing jobs while a worker that only pulls has a long run',
    [
      {
        clients: [makeClient({ servedAt: null })],
        jobs: [
          makeFailing('pull-orders', makeFailure('unexpected'), 10, { dueAt: ago(4) }),
          makeJob('pull-shipments', { running: true, lastStartedAt: ago(9) }),
        ],
      },
      { stale: [makeLate('pull-inbounds')] },
    ],
    [
      ['job_late', 'bad', 0],
      ['job_failing', 'warn', 0],
    ],
  ],
  [
    'jobs that fail while rows wait for a worker that pushes',
    [{ clients: [makeClient({ servedAt: null })], jobs: failing, outbox: [rows] }],
    [
      ['worker_lost', 'bad', 0, /no worker has ever served this client; 12 rows wait/],
      ['service_away', 'warn', 3],
    ],
  ],
  [
    'late jobs of many clients without a worker',
    [
      { clients: many },
      { stale: many.map(({ client }) => ({ ...makeLate('pull-orders'), client })) },
    ],
    [
      [
        'worker_lost',
        'bad',
        5,
        /^several clients: no worker has served 5 clients \(a, b, c and 2 more\) since/,
      ],
    ],
  ],
  [
    'a client that no worker served, without work',
    [{ clients: [makeClient({ servedAt: null })] }],
    [],
  ],
  [
    'late jobs with a worker',
    [{}, { stale: late }],
    [['slots_taken', 'bad', 2, /long runs take every slot; start another worker/]],
  ],
  [
    'a wrong clock',
    [{}, { clockSkewMs: -90_000 }],
    [
      [
        'clock_wrong',
        'bad',
        0,
        /^every client: the clock of .* is 90s behind the database's; synchronise/,
      ],
    ],
  ],
  [
    'an account that is not accepted',
    [
      {
        clients: [makeClient({ offeredBaseUrl: 'https://new.example', servedAt: ago(60) })],
        outbox: [rows],
      },
      { stale: [makeLate('pull-orders')] },
    ],
    [['client_parked', 'bad', 1]],
  ],
  [
    'resources in quarantine',
    [{ streams: [makeStream({ quarantined: 2 })] }],
    [['quarantine', 'warn', 0, /2 resources are in quarantine.*leaves when the service lists/]],
  ],
  ['a run that was not made', [{ jobs: [skippedJob(ago(10))] }], [['job_skipped', 'note', 0]]],
  ['a run that was not made, before one that was', [{ jobs: [skippedJob(ago(1))] }], []],
  [
    'jobs that fail by themselves for less and more than half an hour',
    [
      {
        jobs: [
          makeFailing('prune', makeFailure('unexpected'), 29),
          makeFailing('reconcile', makeFailure('unexpected'), 31),
        ],
      },
    ],
    [
      ['job_failing', 'bad', 0],
      ['job_failing', 'warn', 0],
    ],
  ],
  [
    'stuck rows, and those of unknown clients together',
    [
      {
        outbox: [
          { ...rows, pending: 0, dead: 1, unknown: 2, toDecide: 1 },
          { ...rows, client: null, pending: 0, dead: 600, stuckClients: 600 },
        ],
      },
    ],
    [
      ['outbox_dead', 'bad', 0, /^shop: 1 row is dead and blocks its lane/],
      ['outbox_undecided', 'bad', 0, /^shop: 1 row is stuck/],
      [
        'outbox_unknown_clients',
        'bad',
        0,
        /^every client: 600 rows are dead or stuck and name 600 clients/,
      ],
    ],
  ],
  [
    'lists that lagged longer than pushes allow',
    [{ listLags: [{ ...lag, exceededAt: ago(60) }] }],
    [['lists_lag', 'warn', 0, /showed an order only 312 s after it was sent/]],
  ],
  [
    'lists that lagged so a week ago',
    [{ listLags: [{ ...lag, exceededAt: ago(7 * 24 * 60 + 1) }] }],
    [],
  ],
  ['a row that takes half an hour', [{ outbox: [slow] }], [['outbox_slow', 'warn', 0]]],
  [
    'a slow row behind a dead one',
    [{ outbox: [{ ...slow, dead: 1 }] }],
    [['outbox_dead', 'bad', 0]],
  ],
  [
    'rows whose codes cannot be checked, beside a dead one',
    [{ outbox: [{ ...slow, dead: 1, settingsUnread: 2 }] }],
    [
      ['outbox_dead', 'bad', 0],
      ['settings_unread', 'warn', 0, /^shop outbox: 2 rows wait because .* could not be read/],
    ],
  ],
  [
    'a slow row while the service is away',
    [{ outbox: [slow], holds: [makeHold()] }],
    [['service_away', 'bad', 1]],
  ],
  [
    'a slow row while pushes are paused',
    [{ outbox: [slow], pauses: [pause('push-outbox', 1, null)] }],
    [['job_paused', 'note', 0]],
  ],
  ['a pause of less than a day', [{ pauses: [pause('prune', 23)] }], [['job_paused', 'note', 0]]],
  ['a pause of more', [{ pauses: [pause('prune', 25)] }], [['job_paused', 'warn', 0]]],
  [
    'a stream whose polls have been paused for more than a day',
    [
      {
        streams: [makeStream({ lastSuccessAt: ago(25 * 60), changedLastDay: 0, usualPerDay: 9 })],
        pauses: [pause('pull-orders', 25)],
      },
    ],
    [['job_paused', 'warn', 0]],
  ],
  [
    'a stream whose polls have found nothing for a day',
    [{ streams: [makeStream({ changedLastDay: 0, usualPerDay: 9 })] }],
    [['stream_silent', 'warn', 0, /changed no row in 24 hours; usual: 9 a day/]],
  ],
  [
    'a stream that is polled once a day, while a poll is under way',
    [{ streams: [makeStream({ lastSuccessAt: ago(24 * 60 + 2) })] }],
    [],
  ],
  ['a reconciliation that found 50 rows', [{ streams: [findAfterReconcile(50)] }], []],
  [
    'a reconciliation that found more',
    [{ streams: [findAfterReconcile(51)] }],
    [['reconcile_found', 'warn', 0, /polls had missed: 51 missing/]],
  ],
];

test.each(cases)('the problems of %s', (_what, given, problems) => {
  const found = find(...given);
  expect(found.map(({ code, severity, follows }) => [code, severity, follows.length])).toEqual(
    problems.map(([code, severity, follows]) => [code, severity, follows]),
  );
  for (const [index, [, , , words]] of problems.entries())
    if (words)
      expect(`${found[index]?.subject}: ${found[index]?.text}; ${found[index]?.remedy}`).toMatch(
        words,
      );
});
