import { expect, test } from 'vitest';
import { inTransaction } from '../../../src/erp/connection/transaction.ts';
import { readCursor } from '../../../src/erp/pull/cursors.ts';
import { readFreshness, recordPoll } from '../../../src/erp/pull/freshness.ts';
import { endQuietPoll } from '../../../src/erp/pull/quiet-poll.ts';
import { reviveAbandoned } from '../../../src/erp/runs/due-jobs.ts';
import { finishRun, type Run } from '../../../src/erp/runs/ledger.ts';
import { pauseJob } from '../../../src/erp/runs/pauses.ts';
import { startDueRun } from '../../../src/erp/runs/start-due-run.ts';
import { startRun } from '../../../src/erp/runs/start-run.ts';
import { readKnownMigrations } from '../../../src/erp/schema/migration-files.ts';
import { findNextDue, toInterval } from '../../../src/queue/next-due.ts';
import { newTotals } from '../../../src/sync/run/pull-context.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();
const schedule = { kind: 'every', everyMs: 86_400_000 } as const;
const key = { client: 'default', job: 'pull-shipments' };
const request = {
  ...key,
  stream: 'shipments',
  worker: 'a',
  identity: 'a',
  baseUrl: 'http://a.test/',
  trigger: 'schedule' as const,
  retries: false,
  isLocal: false,
  nextDue: (now: Date) => findNextDue(schedule, now, key),
  interval: toInterval(schedule, key),
};
const poll = { stream: 'shipments', beganAt: new Date(), newestSource: null, fetched: 40 };
const totals = { ...newTotals(), pages: 2, fetched: 40, unchanged: 40, warnings: ['a warning'] };

const newestMigration = (await readKnownMigrations()).at(-1)?.name ?? '';

/** Makes the job due, as it is after a planned wait. */
const makeDue = () => database.query(`update sync.jobs set due_at = now() - interval '1 second'`);
/** Starts and ends a first run, so that every row exists. */
async function prepare(): Promise<void> {
  const started = await startRun(database.db, request);
  if (started.kind !== 'started') throw new Error(started.because);
  await finishRun(database.db, started.run, newTotals(), { status: 'done' });
  await makeDue();
}
async function startShort(): Promise<Run | null> {
  return startDueRun(database.db, { ...request, newestMigration });
}
/** Reads everything that a run changes. Times are read as whether they are there, except for the due time. */
const readState = async () => ({
  jobs: await database.query(`
    select due_at, last_outcome, last_error, consecutive_failures, last_pages, last_fetched, last_changed,
      uneventful_runs, warnings, skips, last_started_at is null as never_started, last_finished_at is null as never_finished,
      last_success_at is null as never_done from sync.jobs`),
  leases: await database.query('select holder, expires_at is null as free from sync.leases'),
  freshness: await database.query(
    'select client, stream, complete_at, newest_source_at, usual_fetched from sync.freshness',
  ),
  confirmations: await database.query('select * from sync.confirmations'),
});
const confirm = () =>
  database.query(
    `insert into sync.confirmations (client, stream, read_no, ids) values ('default', 'shipments', 1, '{1}')`,
  );

test('a short run leaves the same state behind as a run that is started and ended step by step', async () => {
  await prepare();
  await confirm();
  const state: object[] = [];
  for (const isShort of [false, true]) {
    await database.query('update sync.jobs set uneventful_runs = 0, consecutive_failures = 3');
    await database.query('delete from sync.freshness');
    await makeDue();
    const slow = isShort ? null : await startRun(database.open(1), request);
    const run = isShort ? await startShort() : slow?.kind === 'started' ? slow.run : null;
    if (run === null) throw new Error('the run did not start');
    expect(await database.query('select holder from sync.leases where expires_at > now()')).toEqual([{ holder: 'a' }]);
    if (isShort) expect(await endQuietPoll(database.db, run, totals, null, poll)).toBe(true);
    else
      await finishRun(database.db, run, totals, { status: 'done' }, (trx) =>
        recordPoll({ trx, client: 'default', stream: 'shipments' }, poll),
      );
    state.push(await readState());
    await confirm();
  }
  expect(state[1]).toEqual({ ...state[0] });
});

const reasons: [string, () => Promise<unknown>][] = [
  ['it is not due', () => database.query(`update sync.jobs set due_at = now() + interval '1 minute'`)],
  ['it missed a due time', () => database.query(`update sync.jobs set due_at = now() - interval '25 hours'`)],
  ['it is paused', () => pauseJob(database.db, key.job, null, 'me')],
  ['the client is parked', () => database.query(`update sync.clients set identity = 'b'`)],
  [
    'the client is held',
    () =>
      database.query(`update sync.clients set hold_code = 'no_answer', hold_reason = 'x', hold_since = now(),
        hold_until = now()`),
  ],
  [
    'a run is under way',
    () =>
      database.query(
        `update sync.leases set holder = 'b', acquired_at = now(), expires_at = now() + interval '1 minute'`,
      ),
  ],
  [
    'its worker was lost',
    () =>
      database.query(
        `update sync.leases set holder = 'b', acquired_at = now(), expires_at = now() - interval '1 minute'`,
      ),
  ],
  [
    'the database was migrated',
    () => database.query(`insert into sync.migrations (name, applied_by) values ('9999_later', 'x')`),
  ],
];
test.each(reasons)('a short run does not start, and changes nothing, if %s', async (reason, change) => {
  await prepare();
  await change();
  const before = await readState();
  expect(await startDueRun(database.db, { ...request, newestMigration })).toBeNull();
  expect(await readState()).toEqual(before);
  // The ordinary start then finds the reason, or starts the run.
  if (reason === 'the database was migrated') {
    await expect(startRun(database.db, request)).rejects.toThrow('9999_later, which this program does not know');
    return;
  }
  const started = await startRun(database.db, request);
  const starts = ['it missed a due time', 'the client is held', 'its worker was lost'];
  expect(started.kind).toBe(starts.includes(reason) ? 'started' : 'skipped');
});

test('a short run of a poll knows what is stored of its stream', async () => {
  await prepare();
  await database.query(`
    insert into sync.freshness (client, stream, complete_at, usual_fetched)
    values ('default', 'shipments', '2026-01-02T03:04:05.678Z', 12.5), ('default', 'orders', now(), 1);
    insert into sync.cursors (client, stream, pass, query, meaning, last_id, largest_seen, watermark, completed_at, updated_at)
    values ('default', 'shipments', 'new', 'page[cursor]=9', 'id', 9007199254740991, '2026-01-01', null, now(), now()),
      ('default', 'shipments', 'placed', null, 'offset', null, null, '2026-02-03', null, now() - interval '25 hours'),
      ('default', 'orders', 'new', 'x', 'id', 1, null, null, null, now())`);
  const run = await startShort();
  const { db } = database;
  expect(run?.stored?.freshness).toEqual(await readFreshness(db, 'default', 'shipments'));
  expect(run?.stored?.cursors).toEqual(
    new Map([
      ['new', await readCursor(db, 'default', 'shipments', 'new')],
      ['placed', await readCursor(db, 'default', 'shipments', 'placed')],
    ]),
  );
  expect(run?.stored?.isWaiting).toBe(false);
});

test.each([
  [
    `insert into sync.rereads (client, stream, id, tries, next_try_at, last_reason)
    values ('default', 'shipments', 1, 1, now() + interval '1 hour', 'x')`,
  ],
  [
    `insert into sync.quarantine (client, stream, resource_key, resource_id, member_path, reason, document, run_worker)
    values ('default', 'shipments', '1', 1, 'x', 'x', '{}', 'x')`,
  ],
])('a short run of a poll knows that a resource waits: %.30s', async (insert) => {
  await prepare();
  await database.query(insert);
  expect((await startShort())?.stored?.isWaiting).toBe(true);
});

test('a short run of a job without a stream has nothing stored', async () => {
  await prepare();
  const run = await startDueRun(database.db, { ...request, stream: null, newestMigration });
  expect(run?.stored).toBeNull();
});

test('a short run starts once, however many workers start it', async () => {
  await prepare();
  const runs = await Promise.all(Array.from({ length: 6 }, startShort));
  expect(runs.filter((run) => run !== null)).toHaveLength(1);
});

test('a short run whose lease was lost does not end, and changes nothing', async () => {
  await prepare();
  const run = await startShort();
  if (run === null) throw new Error('the run did not start');
  await database.query(`update sync.leases set expires_at = now() - interval '1 second'`);
  await inTransaction(database.db, (trx) => reviveAbandoned(trx));
  const before = await readState();
  expect(await endQuietPoll(database.db, run, totals, null, poll)).toBe(false);
  expect(await readState()).toEqual(before);
});
