import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { readConfig } from '../../../config/env.ts';
import type { ErrorCode } from '../../../src/core/error-codes.ts';
import type { Failure } from '../../../src/core/errors.ts';
import type { Problem } from '../../../src/operate/health/problem.ts';
import { findProblems } from '../../../src/operate/health/problems.ts';
import type { CurrentState, LateJob } from '../../../src/operate/health/state.ts';
import type { JobStatus } from '../../../src/operate/sql/job-status.ts';
import type { OutboxStatus } from '../../../src/operate/sql/outbox-status.ts';
import type { StreamStatus } from '../../../src/operate/sql/stream-status.ts';
import type { KnownClient } from '../../../src/service/sql/clients.ts';
import type { StoredHealth } from '../../../src/service/sql/service-health.ts';

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
const makeJob = (job: string, changes: Partial<JobStatus> = {}): JobStatus => ({
  ...{
    client: 'shop',
    job,
    stream: job.replace('pull-', ''),
    running: false,
    dueAt: ago(-5),
    lastStartedAt: ago(2),
  },
  ...{
    lastSuccessAt: ago(2),
    lagSeconds: 120,
    lastFetched: 0,
    lastChanged: 0,
    lastOutcome: 'done',
    lastError: null,
  },
  ...{ lastCode: null, lastHttpStatus: null, lastOperation: null },
  ...{
    consecutiveFailures: 0,
    failingSince: null,
    failedAlone: false,
    quarantined: 0,
    warnings: [],
  },
  ...{ pausedSince: null, skips: 0, lastSkipAt: null, lastSkipReason: null },
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
    holdCode: null,
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
/** The problems while one worker is cut from the service, after a poll of a number of minutes ago. */
const findCut = (minutes: number) =>
  find({
    jobs: [makeJob('pull-shipments', { lastSuccessAt: ago(minutes) })],
    holds: [makeHold({ worker: 'host:7:x' })],
  });
test('changes that nobody moves to the feed for a minute are a problem', () => {
  expect(find({ feed: { waiting: 7, oldestAt: ago(0.5) } })).toEqual([]);
  expect(find({ feed: { waiting: 7, oldestAt: ago(2) } })).toMatchObject([
    { code: 'feed_late', severity: 'bad', text: '7 changes not in the feed for 2m' },
  ]);
});

test('a worker that alone does not reach the service is named; the service is not away', () => {
  expect(findCut(1)).toMatchObject([
    {
      ...{ code: 'service_away', severity: 'warn' },
      text: expect.stringMatching(
        /^worker host:7:x cannot reach the service since .*, but others do/,
      ),
      remedy: expect.stringContaining('network of its machine'),
    },
  ]);
  expect(findCut(60)[0]?.text).toMatch(/^the service /);
});

const describe = (problems: readonly Problem[]) =>
  problems.map(
    ({ severity, subject, text, remedy, follows }) =>
      `${severity} ${subject}: ${text}; ${remedy} (${[...new Set(follows.map(({ subject: of }) => of))].join(', ')})`,
  );

const jobs = ['pull-orders', 'pull-shipments', 'reconcile'];
const failing = jobs.map((job) => makeFailing(job, away));

test('a service that is away is one problem, and everything that waits for it follows', () => {
  const reread = {
    ...makeFailing('pull-inbounds', makeFailure('timeout', { operation: 'v3.inbounds.list' })),
  };
  const found = find(
    { jobs: [...failing, reread], holds: [makeHold()], outbox: [rows] },
    { stale: [makeLate('pull-returns')] },
  );
  expect(describe(found)).toEqual([
    'bad shop: the service has answered 503 since 11:18 UTC; 5 jobs and 12 rows wait, nothing is lost, and it is tried again every 5 seconds; ' +
      'ask the operator of the service when it will be back; nothing needs to be done here (shop pull-returns, shop pull-orders, shop pull-shipments, shop reconcile, shop pull-inbounds)',
  ]);
  expect(find({ jobs: failing })[0]).toMatchObject({
    code: 'service_away',
    severity: 'warn',
    remedy: 'nothing to do unless it lasts',
  });
  const unreached = makeHold({
    cause: makeFailure('connect_failed', { operation: 'v3.orders.list' }),
    since: ago(3),
  });
  expect(find({ holds: [unreached] })[0]?.text).toContain(
    'the service cannot be reached since 11:57 UTC; nothing is lost',
  );
});

test('one failed poll is a note until another request confirms that the service is away', () => {
  const lone = makeFailing('pull-orders', away, 1);
  expect(find({ jobs: [lone, makeJob('pull-shipments')] })).toMatchObject([
    { code: 'service_away', severity: 'note' },
  ]);
});

test('when the service answers again, what failed is a note: it runs again by itself', () => {
  const recovered = [...failing, makeJob('pull-inbounds', { lastSuccessAt: ago(0.5) })];
  const hold = makeHold({ untilInMs: -1, sendWindow: 5 });
  expect(describe(find({ jobs: recovered, holds: [hold], outbox: [rows] }))).toEqual([
    'note shop: the service answers again; 3 jobs run again by themselves; 5 rows are sent at a time, and more with each that is done; null (shop pull-orders, shop pull-shipments, shop reconcile)',
  ]);
  expect(find({ holds: [{ ...hold, sendWindow: 1 }], outbox: [rows] })[0]?.text).toContain(
    '; 1 row is sent at a time',
  );
  expect(find({ holds: [hold] })).toEqual([]);
});

test('refused credentials are one problem that needs a person', () => {
  const found = find({
    jobs: [makeFailing('pull-orders', refused)],
    holds: [makeHold({ code: 'credentials_refused', cause: refused, since: ago(5) })],
  });
  expect(describe(found)).toEqual([
    'bad shop: the service has refused the user name and password since 11:55 UTC; 1 job waits, nothing is lost, and it is tried again every 15 minutes; ' +
      'correct them in the configuration, and restart the workers (SIGHUP) (shop pull-orders)',
  ]);
});

test('a rate limit is a note while only rows wait, a warning if jobs fail, and needs a person if that lasts', () => {
  const holds = [
    makeHold({ code: 'too_fast', cause: makeAnswer('v3.orders.create', 429), sendWindow: 4 }),
  ];
  const failFor = (minutes: number) => [
    makeFailing('pull-orders', makeAnswer('v3.orders.list', 429), minutes),
  ];
  expect(find({ holds })).toMatchObject([{ code: 'rate_limited', severity: 'note' }]);
  expect(describe(find({ holds, jobs: failFor(10) }))).toEqual([
    'warn shop: the service limits the rate (429) since 11:18 UTC; 1 job waits, nothing is lost, and no attempt counts; nothing to do unless it lasts; REQUESTS_PER_SECOND avoids the refusals (shop pull-orders)',
  ]);
  // A late job is not hidden under a note.
  expect(find({ holds }, { stale: [makeLate('pull-orders')] }).map(({ code }) => code)).toEqual([
    'job_late',
    'rate_limited',
  ]);
  expect(describe(find({ holds, jobs: failFor(45) }))[0]).toContain(
    'set REQUESTS_PER_SECOND below the limit, or ask the operator of the service to raise it',
  );
});

test.each<[string, Partial<StoredHealth>, string]>([
  [
    'fails',
    {},
    'warn shop v3.orders.update: fails since 11:50 UTC: the answer of the service; 12 rows wait behind order.update or other causes',
  ],
  [
    'is not there',
    { code: 'wrong_path', cause: makeAnswer('v3.orders.update', 404) },
    'bad shop v3.orders.update: ',
  ],
  [
    'has failed for long',
    { since: ago(45), untilInMs: -1 },
    'bad shop v3.orders.update: fails since 11:15 UTC: the answer of the service',
  ],
  ['recovers', { since: ago(45), untilInMs: -1, sendWindow: 5 }, 'note shop v3.orders.update: '],
])('an operation that %s is one problem, and says what continues', (_what, changes, expected) => {
  const hold = makeHold({
    scope: 'order.update',
    code: 'kind_failing',
    cause: makeAnswer('v3.orders.update', 500),
    sendWindow: 1,
    since: ago(10),
    ...changes,
  });
  const found = describe(find({ holds: [hold], jobs: [makeJob('pull-orders')], outbox: [rows] }));
  expect(found).toHaveLength(1);
  expect(found[0]).toContain(expected.split('; 12 rows')[0]);
  expect(found[0]).toContain('all other requests continue');
});

test('the first load of a list that fails follows from it', () => {
  const stream = {
    client: 'shop',
    stream: 'orders',
    job: 'pull-orders',
    firstLoad: true,
    fetchedSoFar: null,
  };
  const found = find({
    jobs: [makeFailing('pull-orders', away, 45, { failedAlone: true }), makeJob('pull-shipments')],
    streams: [
      {
        ...stream,
        lastSuccessAt: null,
        quarantined: 0,
        gaps: [],
        openRescans: [],
      } as unknown as StreamStatus,
    ],
  });
  expect(
    found.map(({ code, follows }) => [code, follows.map(({ code: of }) => of).sort()]),
  ).toEqual([['operation_failing', ['job_failing', 'stream_first_load']]]);
});

test('a list that fails while others are read is an operation, not the service', () => {
  const lists = ['pull-orders', 'reconcile'].map((job) =>
    makeFailing(job, away, 45, { failedAlone: true }),
  );
  expect(describe(find({ jobs: [...lists, makeJob('pull-shipments')] }))).toEqual([
    'bad shop v3.orders.list: fails since 11:15 UTC: the answer of the service; all other requests continue; ' +
      'ask the operator of the service about v3.orders.list, or see: fulfilment-sync doctor (shop pull-orders, shop reconcile)',
  ]);
});

test('a full database is one problem of all clients', () => {
  const full = makeFailure('disk_full');
  expect(
    describe(
      find({
        jobs: [
          makeFailing('pull-orders', full),
          { ...makeFailing('prune', full), client: 'other' },
        ],
      }),
    ),
  ).toEqual([
    'bad every client: the disk of Postgres is full since 11:50 UTC; nothing is lost; free space, or enlarge the disk; the workers then continue by themselves (shop pull-orders, other prune)',
  ]);
  const unrecorded = find(
    { clients: [makeClient({ queueAwaySince: ago(5) })] },
    { diskFullSince: ago(2) },
  );
  expect(unrecorded.map(({ code }) => code)).toEqual(['database_full']);
});

test('late jobs without a worker are a lost worker; with one, its slots are taken', () => {
  const stale = [makeLate('pull-orders'), makeLate('pull-shipments')];
  const lost = (servedAt: Date | null) =>
    find({ clients: [makeClient({ servedAt })], outbox: [rows] }, { stale });
  expect(describe(lost(ago(5)))).toEqual([
    'bad shop: no worker has served this client since 11:55 UTC; 2 jobs and 12 rows wait, and nothing is lost; ' +
      'start a worker that has this client in its configuration (shop pull-orders, shop pull-shipments)',
  ]);
  expect(describe(lost(null))[0]).toContain(
    'no worker has ever served this client; 2 jobs and 12 rows wait',
  );
  const many = ['a', 'b', 'c', 'd', 'e'].map((client) => makeClient({ client, servedAt: ago(5) }));
  const late = many.map(({ client }) => ({ ...makeLate('pull-orders'), client }));
  expect(describe(find({ clients: many }, { stale: late }))).toEqual([
    'bad several clients: no worker has served 5 clients (a, b, c and 2 more) since 11:55 UTC; 5 jobs wait, and nothing is lost; ' +
      'start a worker that has these clients in its configuration (a pull-orders, b pull-orders, c pull-orders, d pull-orders, e pull-orders)',
  ]);
  expect(find({ clients: [makeClient({ servedAt: null })] })).toEqual([]);
  expect(describe(find({}, { stale }))).toEqual([
    'bad shop: a worker serves this client, but 2 jobs have not begun since 11:30 UTC: long runs take every slot; start another worker (shop pull-orders, shop pull-shipments)',
  ]);
});

test('a wrong clock and an account that is not accepted need a person', () => {
  expect(describe(find({}, { clockSkewMs: -90_000 }))).toEqual([
    `bad every client: the clock of ${hostname()} is 90s behind the database's; synchronise both with NTP ()`,
  ]);
  const parked = makeClient({
    offeredBaseUrl: 'https://new.example',
    baseUrl: 'https://old.example',
    servedAt: ago(60),
  });
  const found = find({ clients: [parked], outbox: [rows] }, { stale: [makeLate('pull-orders')] });
  expect(found.map(({ code, follows }) => [code, follows.length])).toEqual([['client_parked', 1]]);
});

test('a quarantine is a warning, and a run that was not made is told until one is done', () => {
  const stream = {
    client: 'shop',
    stream: 'orders',
    job: 'pull-orders',
    quarantined: 2,
    lastSuccessAt: now,
  };
  expect(
    describe(
      find({ streams: [{ ...stream, gaps: [], openRescans: [] } as unknown as StreamStatus] }),
    ),
  ).toEqual([
    'warn shop orders: 2 resources are in quarantine: they could not be decoded or stored; read the reasons, and tell the operator of the service; a resource leaves when the service lists a correct version ()',
  ]);
  const skipped = (lastSuccessAt: Date) =>
    find({
      jobs: [
        makeJob('pull-orders', {
          lastSkipAt: ago(5),
          lastSkipReason: '1 missed',
          skips: 1,
          lastSuccessAt,
        }),
      ],
    });
  expect(skipped(ago(10)).map(({ code }) => code)).toEqual(['job_skipped']);
  expect(skipped(ago(1))).toEqual([]);
});

test('a job that fails by itself needs a person when it has failed for half an hour', () => {
  const failures = [
    makeFailing('prune', makeFailure('unexpected'), 29),
    makeFailing('reconcile', makeFailure('unexpected'), 31),
  ];
  expect(
    find({ jobs: failures }).map(({ severity, subject, follows }) => [
      severity,
      subject,
      follows.length,
    ]),
  ).toEqual([
    ['bad', 'shop reconcile', 0],
    ['warn', 'shop prune', 0],
  ]);
});

test('stuck rows need a person; those of clients that are not known are one problem', () => {
  const outbox = [
    { ...rows, pending: 0, dead: 1, unknown: 2, toDecide: 1 },
    { ...rows, client: null, pending: 0, dead: 600, stuckClients: 600 },
  ];
  expect(
    find({ outbox }).map(({ severity, subject, text }) => `${severity} ${subject}: ${text}`),
  ).toEqual([
    'bad shop: 1 row is dead and blocks its lane',
    'bad shop: 1 row is stuck: it is unknown whether the service carried it out',
    'bad every client: 600 rows are dead or stuck and name 600 clients that are not known here',
  ]);
});

test('lists that lagged longer than pushes take them to lag are a problem for a week', () => {
  const lag = { client: 'shop', longestMs: 312_000, longestAt: ago(60) };
  const found = find({ listLags: [{ ...lag, exceededAt: ago(60) }] });
  expect(found.map(({ code, severity, text }) => [code, severity, text])).toEqual([
    [
      'lists_lag',
      'warn',
      expect.stringMatching(/showed an order only 312 s after it was sent .* may be sent again$/),
    ],
  ]);
  expect(find({ listLags: [{ ...lag, exceededAt: ago(7 * 24 * 60 + 1) }] })).toEqual([]);
  expect(find({ listLags: [{ ...lag, longestMs: 299_000, exceededAt: null }] })).toEqual([]);
});

test('a row that takes half an hour is a warning, unless another problem says why', () => {
  const slow = { ...rows, oldestMovingSeconds: 31 * 60 };
  const list = (...found: Parameters<typeof find>) =>
    find(...found).map(({ code, severity, since }) => [code, severity, since]);
  expect(list({ outbox: [slow] })).toEqual([['outbox_slow', 'warn', ago(31)]]);
  expect(list({ outbox: [{ ...slow, oldestMovingSeconds: 29 * 60 }] })).toEqual([]);
  expect(list({ outbox: [{ ...slow, dead: 1 }] })).toEqual([['outbox_dead', 'bad', null]]);
  expect(list({ outbox: [slow], holds: [makeHold()] })).toEqual([['service_away', 'bad', ago(42)]]);
  const pause = { client: null, job: 'push-outbox', since: ago(60), by: 'me' };
  expect(list({ outbox: [slow], pauses: [pause] })).toEqual([['job_paused', 'note', ago(60)]]);
});

test('a pause is a warning after a day', () => {
  const find24 = (hours: number) =>
    find({ pauses: [{ client: 'shop', job: 'prune', since: ago(hours * 60), by: 'me' }] });
  expect(find24(23).map(({ severity }) => severity)).toEqual(['note']);
  expect(find24(25).map(({ severity }) => severity)).toEqual(['warn']);
});

test('a reconciliation that finds more than 50 rows is a warning', () => {
  const findAfter = (missing: number) => {
    const stream = { client: 'shop', stream: 'orders', job: 'pull-orders', lastSuccessAt: now };
    const counts = { quarantined: 0, missing, stale: 50, extra: 0, reconciledAt: ago(90) };
    const row = { ...stream, ...counts, gaps: [], openRescans: [] } as unknown as StreamStatus;
    return find({ streams: [row] }).map(({ code, text, since }) => [code, text, since]);
  };
  expect(findAfter(50)).toEqual([]);
  expect(findAfter(51)).toEqual([
    [
      'reconcile_found',
      'the last reconciliation found rows that polls had missed: 51 missing',
      ago(90),
    ],
  ]);
});
