import { sql } from 'kysely';
import { describe, expect, test, vi } from 'vitest';
import { LeaseLostError } from '../../../src/core/errors.ts';
import { bringPollsForward } from '../../../src/push/sql/settle-rows.ts';
import { decideStart } from '../../../src/schedule/decide-start.ts';
import { newTotals } from '../../../src/schedule/run.ts';
import { requestRun, reviveAbandoned } from '../../../src/schedule/sql/due-jobs.ts';
import { endRun } from '../../../src/schedule/sql/end-run.ts';
import { type Lease, LeaseKeeper, underLease } from '../../../src/schedule/sql/leases.ts';
import { type Run, recordProgress } from '../../../src/schedule/sql/ledger.ts';
import {
  beginRuns,
  type RunRequest,
  readDueRuns,
  startRun,
} from '../../../src/schedule/sql/start-runs.ts';
import { useDatabase } from '../../helpers/database.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const expireLeases = () =>
  database.query(`update sync.leases set expires_at = now() - interval '1 second'`);
const revive = () => reviveAbandoned(database.db);
const account = { client: 'default', identity: 'a', baseUrl: 'http://a.test/' };
const manual: RunRequest = {
  ...account,
  job: 'job',
  stream: null,
  worker: 'a',
  trigger: 'manual',
};
/** Begins a run by hand. Returns null if another run of the job is under way. */
const begin = async (worker: string, job = 'job'): Promise<Run | null> => {
  const result = await startRun(database.db, { ...manual, worker, job });
  return result.kind === 'started' ? result.run : null;
};
const beginOrFail = async (worker: string, job = 'job'): Promise<Run> => {
  const run = await begin(worker, job);
  if (run === null) throw new Error(`${worker} did not get the lease`);
  return run;
};
const acquire = async (worker: string, job = 'job'): Promise<Lease> =>
  (await beginOrFail(worker, job)).lease;
/** Reads when a lease expires, in milliseconds. */
const readExpiry = async (name: string) =>
  (
    await database.query<{ at: Date }>('select expires_at as at from sync.leases where name = $1', [
      name,
    ])
  )[0]?.at.getTime() ?? 0;
const endDone = (run: Run) => endRun(database.db, run, newTotals(), { status: 'done' });

describe('a lease', () => {
  test('is held by one of many that ask at once', async () => {
    await endDone(await beginOrFail('first'));
    const runs = await Promise.all(
      Array.from({ length: 8 }, (_, index) => begin(`worker ${index}`)),
    );
    expect(runs.filter((run) => run !== null)).toHaveLength(1);
  });

  test('that was taken over lets its old holder write nothing', async () => {
    const old = await beginOrFail('a');
    await expireLeases();
    await acquire('b');
    const write = underLease(database.db, old.lease, async (trx) => {
      await sql`insert into sync.waiting_reads (client, resource, id, reason, next_at) values ('default', 'x', 1, 'pushed', now())`.execute(
        trx,
      );
    });
    await expect(write).rejects.toBeInstanceOf(LeaseLostError);
    expect(await database.query('select * from sync.waiting_reads')).toEqual([]);
    await expect(endDone(old)).rejects.toBeInstanceOf(LeaseLostError);
    expect(await begin('c')).toBeNull();
  });
});

describe('a transaction under a lease', () => {
  test('that loses a deadlock is repeated', async () => {
    await database.query(
      'create table public.pair (id int primary key, n int); insert into public.pair values (1, 0), (2, 0)',
    );
    const [left, right] = [await acquire('a'), await acquire('b', 'other')];
    const touch = (lease: Lease, ids: readonly number[], locked: { count: number }) => {
      let attempt = 0;
      return underLease(database.db, lease, async (trx) => {
        attempt++;
        for (const id of ids) {
          await sql`update public.pair set n = n + 1 where id = ${id}`.execute(trx);
          locked.count++;
          // In the first attempt both hold one row before either asks for the other: a certain
          // deadlock.
          if (attempt === 1) await waitFor('the other to hold its row', () => locked.count >= 2);
        }
        return attempt;
      });
    };
    const locked = { count: 0 };
    const attempts = await Promise.all([touch(left, [1, 2], locked), touch(right, [2, 1], locked)]);
    // The second attempt may lose a deadlock as well.
    expect(Math.max(...attempts)).toBeGreaterThan(1);
    expect(await database.query('select sum(n)::int as n from public.pair')).toEqual([{ n: 4 }]);
  });
});

test('a lease is renewed, and its run is aborted when the lease is lost', async () => {
  const keeper = new LeaseKeeper(database.open(1), () => undefined);
  const held = await acquire('a');
  const signal = keeper.keep(held);
  const before = await readExpiry('job');
  await waitFor('a heartbeat', async () => (await readExpiry('job')) > before);
  expect(signal.aborted).toBe(false);
  await expireLeases();
  await revive();
  await acquire('b');
  await waitFor('the loss to be noticed', () => signal.aborted);
  expect(signal.reason).toBeInstanceOf(LeaseLostError);
  keeper.drop(held);
});

test('a page that is slow to commit does not delay the renewal of other leases', async () => {
  const keeper = new LeaseKeeper(database.open(1), () => undefined);
  const [slow, other] = [await acquire('a'), await acquire('a', 'other')];
  const signals = [slow, other].map((lease) => keeper.keep(lease));
  await underLease(database.db, slow, async (trx) => {
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx);
    const before = await readExpiry('other');
    await waitFor('the other lease', async () => (await readExpiry('other')) > before);
  });
  expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  for (const lease of [slow, other]) keeper.drop(lease);
});

describe('runs', () => {
  const everyMs = 60_000;
  const request: RunRequest = {
    ...account,
    job: 'pull-shipments',
    stream: 'shipments',
    worker: 'a',
    trigger: 'schedule',
    schedule: { kind: 'every', everyMs },
  };
  const start = async (trigger: 'schedule' | 'manual' = 'schedule') => {
    const result = await startRun(database.db, { ...request, trigger });
    if (result.kind !== 'started') throw new Error(`skipped: ${result.reason}`);
    return result.run;
  };
  const startDue = async () => {
    await database.query('update sync.jobs set next_at = now()');
    return start();
  };
  const readJob = async () => (await database.query('select * from sync.jobs'))[0];
  const readDueSeconds = async () =>
    Number(
      (await database.query('select extract(epoch from next_at - now()) as s from sync.jobs'))[0]
        ?.s,
    );
  const findDue = () =>
    readDueRuns(database.db, {
      ...{ jobs: ['pull-shipments'], clients: [account], worker: 'w', local: [], aheadMs: 0 },
    });

  test('the numbers that are drawn with a start serve the readings of its first second', async () => {
    const run = await start();
    const [first, second, third] = [run.takeReadNo(), run.takeReadNo(), run.takeReadNo()];
    expect(Number(second)).toBeGreaterThan(Number(first));
    expect(third).toBeNull();

    await endDone(run);
    const slow = await startDue();
    vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 1_000);
    expect(slow.takeReadNo()).toBeNull();
    vi.restoreAllMocks();
  });

  test('a start that was decided before another run began and ended does not begin', async () => {
    await endDone(await start());
    await database.query('update sync.jobs set next_at = now()');
    const [row] = await findDue();
    if (row === undefined) throw new Error('nothing is due');
    const decision = decideStart(request, row, row.now);
    if (decision.kind !== 'start') throw new Error(decision.because);
    const late = { ...row, request, decision };
    await endDone(await start());
    expect(await beginRuns(database.db, [late])).toEqual([]);
    expect(await database.query('select 1 from sync.leases where holder is not null')).toEqual([]);
  });

  test('an uneventful run leaves no row in the ledger; a run that wrote or failed does', async () => {
    await endDone(await start());
    expect(await readJob()).toMatchObject({ uneventful_runs: 1, last_outcome: 'done' });
    expect(await database.count('sync.runs')).toBe(0);
    const totals = { ...newTotals(), created: 3, pages: 1 };
    const run = await startDue();
    await underLease(database.db, run.lease, (trx) => recordProgress({ trx, run }, totals));
    expect(await database.query('select * from sync.runs')).toMatchObject([
      { status: 'running', created: 3 },
    ]);
    const operation = 'v3.orders.list';
    await endRun(database.db, run, totals, {
      status: 'failed',
      failure: { code: 'timeout', httpStatus: 504, operation, words: 'words' },
      retryAfterMs: 90_000,
    });
    expect(await database.query('select * from sync.runs')).toMatchObject([
      { status: 'failed', error_code: 'timeout', http_status: 504, operation },
    ]);
    expect(await readJob()).toMatchObject({
      ...{ consecutive_failures: 1, last_error: 'words', last_code: 'timeout' },
      ...{ last_http_status: 504, last_operation: operation },
    });
    expect(await readDueSeconds()).toBeGreaterThan(80);
  });

  describe('with two intervals', () => {
    const adaptive: RunRequest = {
      ...request,
      schedule: { kind: 'every', everyMs: 30_000, slowMs: 240_000 },
    };
    /** Makes a run, and returns the seconds until the next one is due. */
    const run = async (created = 0, schedule = adaptive.schedule) => {
      const started = await startDue(schedule);
      await endRun(database.db, started, { ...newTotals(), created }, { status: 'done' });
      return readDueSeconds();
    };
    const startDue = async (schedule = adaptive.schedule) => {
      await database.query('update sync.jobs set next_at = now()');
      const started = await startRun(database.db, { ...adaptive, schedule });
      if (started.kind !== 'started') throw new Error(started.reason);
      return started.run;
    };
    const notePush = () =>
      database.db.transaction().execute((trx) => bringPollsForward(trx, 'default'));
    test('a job is fast after a run that wrote rows, and after a settled push', async () => {
      expect(await run()).toBeGreaterThan(210);
      await run(1);
      expect(await run()).toBeLessThanOrEqual(33);

      await database.query('update sync.jobs set last_change_at = null');
      expect(await run()).toBeGreaterThan(210);
      await notePush();
      expect(await readDueSeconds()).toBeLessThanOrEqual(30);
      expect(await run()).toBeLessThanOrEqual(33);
    });

    test('a settled push leaves a job alone that is off, or has one interval', async () => {
      await run(0, { kind: 'every', everyMs: 240_000 });
      const before = await readJob();
      await notePush();
      expect(await readJob()).toEqual(before);
      await run(0, { kind: 'on-request' });
      await notePush();
      expect(await readDueSeconds()).toBe(Number.POSITIVE_INFINITY);
    });

    test('a settlement does not wait for a job that is locked', async () => {
      await run();
      await database.db.transaction().execute(async (trx) => {
        await sql`select from sync.jobs for update`.execute(trx);
        await notePush();
      });
      expect(await readDueSeconds()).toBeGreaterThan(200);
    });

    test('a run that somebody asked for meanwhile is not put off', async () => {
      const started = await startDue();
      await requestRun(database.db, { client: 'default', job: 'pull-shipments' }, 'me');
      // The run's count of the time lags behind the database's clock by what its start took.
      const laggingMs = started.now().getTime() - 5_000;
      await endDone({ ...started, now: () => new Date(laggingMs) });
      expect(await readDueSeconds()).toBeLessThanOrEqual(0);
    });
  });

  test('a run that commits its last page while its lease is revived is recorded as abandoned', async () => {
    const run = await start();
    await expireLeases();
    const committed = Promise.withResolvers<void>();
    const page = database.db.transaction().execute(async (trx) => {
      await sql`update sync.leases set expires_at = clock_timestamp() + interval '50 ms'`.execute(
        trx,
      );
      await recordProgress({ trx, run }, { ...newTotals(), created: 1 });
      await committed.promise;
    });
    await waitFor('the page to hold the lease', async () => {
      const held = `select from pg_locks where relation = 'sync.leases'::regclass and mode = 'RowExclusiveLock'
        and database = (select oid from pg_database where datname = current_database())`;
      return (await database.query(held)).length > 0;
    });
    const over = `select 1 where clock_timestamp() > (select xact_start + interval '400 ms' from pg_stat_activity
      where datname = current_database() and state = 'idle in transaction' limit 1)`;
    await waitFor('the lease to run out', async () => (await database.query(over)).length > 0);
    const revived = revive();
    committed.resolve();
    await page;
    await revived;
    await waitFor('the end of the lost run', async () => {
      await revive();
      return (await readJob())?.last_outcome === 'abandoned';
    });
    expect(await database.query('select status from sync.runs')).toEqual([{ status: 'abandoned' }]);
  });

  test('a run has its whole lease left when a slow page is committed', async () => {
    const run = await start();
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now');
    const written = await underLease(database.db, run.lease, async (trx) => {
      // The page takes three seconds by the clock of the worker.
      clock.mockImplementation(() => now() + 3_000);
      await sql`select pg_sleep(0.1)`.execute(trx);
      const { rows } = await sql<{ at: string }>`select clock_timestamp()::text as at`.execute(trx);
      return rows[0]?.at;
    }).finally(() => clock.mockRestore());
    const [lease] = await database.query(
      "select expires_at >= $1::timestamptz + interval '10 seconds' as whole from sync.leases where name = 'pull-shipments'",
      [written],
    );
    expect(lease).toEqual({ whole: true });
  });

  test('a run whose lease is locked does not hide other abandoned runs', async () => {
    await start();
    await database.query(
      "insert into sync.leases (client, name, holder, expires_at) values ('default', 'stuck', 'x', now())",
    );
    await expireLeases();
    await database.db.transaction().execute(async (trx) => {
      await sql`select from sync.leases where name = 'stuck' for update`.execute(trx);
      expect(await revive()).toEqual([{ client: 'default', job: 'pull-shipments' }]);
    });
    expect(await revive()).toEqual([{ client: 'default', job: 'stuck' }]);
  });

  test('no run begins after the database was migrated beyond this code', async () => {
    await database.query(
      `insert into sync.migrations (name, applied_by) values ('9999_later', 'x')`,
    );
    await expect(start()).rejects.toMatchObject({ code: 'code_too_old' });
    expect(await database.query('select 1 from sync.leases where holder is not null')).toEqual([]);
  });

  test('a complete poll moves the freshness of its stream; an empty one does not count as usual', async () => {
    const poll = { stream: 'shipments', beganAt: new Date('2026-01-02'), newestSource: null };
    const gap = { from: new Date('2026-01-01'), to: poll.beganAt };
    for (const fetched of [7, 40, 50, 0])
      await endRun(
        database.db,
        await start('manual'),
        { ...newTotals(), fetched },
        { status: 'done', poll: { ...poll, gap: fetched === 7 ? gap : null } },
      );
    expect(await database.query('select complete_at, usual_fetched from sync.freshness')).toEqual([
      { complete_at: poll.beganAt, usual_fetched: 41 },
    ]);
    expect(await database.query('select from_at, to_at from sync.gaps')).toEqual([
      { from_at: gap.from, to_at: gap.to },
    ]);
  });

  test('a wrong time of the service does not stay as the freshness of a stream', async () => {
    const [right, ahead, behind] = [new Date(), new Date('2200-01-01'), new Date(0)];
    for (const beganAt of [ahead, right, behind]) {
      const poll = { stream: 'shipments', beganAt, newestSource: null, gap: null };
      await endRun(database.db, await start('manual'), newTotals(), { status: 'done', poll });
    }
    const [stored] = await database.query<{ complete_at: Date }>(
      'select complete_at from sync.freshness',
    );
    expect(stored?.complete_at.getTime()).toBeGreaterThanOrEqual(right.getTime());
    expect(stored?.complete_at.getTime()).toBeLessThanOrEqual(Date.now());
  });
});
