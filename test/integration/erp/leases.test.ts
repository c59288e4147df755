import { sql } from 'kysely';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { LeaseLostError } from '../../../src/core/errors.ts';
import { inTransaction } from '../../../src/erp/connection/transaction.ts';
import { findDueJobs, reviveAbandoned } from '../../../src/erp/runs/due-jobs.ts';
import { acquireLease, type Lease, LeaseKeeper, releaseLease, underLease } from '../../../src/erp/runs/leases.ts';
import { finishRun, recordProgress } from '../../../src/erp/runs/ledger.ts';
import { startRun } from '../../../src/erp/runs/start-run.ts';
import { newTotals } from '../../../src/sync/run/pull-context.ts';
import { useDatabase } from '../../helpers/database.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const expireLeases = () => database.query(`update sync.leases set expires_at = now() - interval '1 second'`);
const revive = () => inTransaction(database.db, (trx) => reviveAbandoned(trx));
const acquire = async (holder: string) => acquireLease(database.db, 'default', 'job', holder);
const acquireOrFail = async (holder: string): Promise<Lease> => {
  const lease = await acquire(holder);
  if (lease === null) throw new Error(`${holder} did not get the lease`);
  return lease;
};

describe('a lease', () => {
  test('is held by one of many that ask at once', async () => {
    const leases = await Promise.all(Array.from({ length: 8 }, (_, index) => acquire(`worker ${index}`)));
    expect(leases.filter((lease) => lease !== null)).toHaveLength(1);
  });

  test('can be acquired under a larger token after it was released, or expired and was revived', async () => {
    const first = await acquireOrFail('a');
    expect(await acquire('b')).toBeNull();
    await expireLeases();
    // If it could be acquired now, the abandoned run would not be recorded.
    expect(await acquire('b')).toBeNull();
    await revive();
    const second = await acquireOrFail('b');
    expect(second.token).toBeGreaterThan(first.token);
    await releaseLease(database.db, second);
    expect((await acquireOrFail('c')).token).toBeGreaterThan(second.token);
  });

  test('that was taken over lets its old holder write nothing', async () => {
    const old = await acquireOrFail('a');
    await expireLeases();
    await revive();
    await acquireOrFail('b');
    const write = underLease(database.db, old, async (trx) => {
      await sql`insert into sync.rereads (client, stream, id, next_try_at) values ('default', 'x', 1, now())`.execute(
        trx,
      );
    });
    await expect(write).rejects.toBeInstanceOf(LeaseLostError);
    expect(await database.query('select * from sync.rereads')).toEqual([]);
    await releaseLease(database.db, old);
    expect(await acquire('c')).toBeNull();
  });

  test('that a lost worker held is fenced when it is revived, before another worker has it', async () => {
    const lost = await acquireOrFail('a');
    await expireLeases();
    await revive();
    await expect(underLease(database.db, lost, async () => undefined)).rejects.toBeInstanceOf(LeaseLostError);
  });
});

describe('a transaction under a lease', () => {
  test('that loses a deadlock is repeated', async () => {
    await database.query(
      'create table public.pair (id int primary key, n int); insert into public.pair values (1, 0), (2, 0)',
    );
    const [left, right] = [
      await acquireOrFail('a'),
      (await acquireLease(database.db, 'default', 'other', 'b')) as Lease,
    ];
    const touch = (lease: Lease, ids: readonly number[], locked: { count: number }) => {
      let attempt = 0;
      return underLease(database.db, lease, async (trx) => {
        attempt++;
        for (const id of ids) {
          await sql`update public.pair set n = n + 1 where id = ${id}`.execute(trx);
          locked.count++;
          // In the first attempt both hold one row before either asks for the other: a certain deadlock.
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

describe('LeaseKeeper', () => {
  let keeper: LeaseKeeper | undefined;
  let held: Lease | undefined;
  afterEach(() => {
    if (held) keeper?.drop(held);
  });

  test('renews a lease, and aborts its run when the lease is lost', async () => {
    keeper = new LeaseKeeper(database.open(1), () => undefined);
    held = await acquireOrFail('a');
    const signal = keeper.keep(held);
    const expiry = async () =>
      (await database.query<{ at: Date }>('select expires_at as at from sync.leases'))[0]?.at.getTime() ?? 0;
    const before = await expiry();
    await waitFor('a heartbeat', async () => (await expiry()) > before);
    expect(signal.aborted).toBe(false);
    await expireLeases();
    await revive();
    await acquireOrFail('b');
    await waitFor('the loss to be noticed', () => signal.aborted);
    expect(signal.reason).toBeInstanceOf(LeaseLostError);
  });
});

test('a page that is slow to commit does not delay the renewal of other leases', async () => {
  const keeper = new LeaseKeeper(database.open(1), () => undefined);
  const [slow, other] = [await acquireOrFail('a'), (await acquireLease(database.db, 'default', 'other', 'a')) as Lease];
  const signals = [slow, other].map((lease) => keeper.keep(lease));
  const expiry = async (name: string) =>
    (
      await database.query<{ at: Date }>('select expires_at as at from sync.leases where name = $1', [name])
    )[0]?.at.getTime() ?? 0;
  await underLease(database.db, slow, async (trx) => {
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx);
    const before = await expiry('other');
    await waitFor('the other lease to be renewed meanwhile', async () => (await expiry('other')) > before);
  });
  expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  for (const lease of [slow, other]) keeper.drop(lease);
});

describe('runs', () => {
  const request = {
    client: 'default',
    job: 'pull-shipments',
    stream: 'shipments',
    worker: 'a',
    identity: 'a',
    baseUrl: 'http://a.test/',
    trigger: 'schedule' as const,
    nextDue: (now: Date) => new Date(now.getTime() + 60_000),
  };
  const start = async (trigger: 'schedule' | 'manual' = 'schedule') => {
    const result = await startRun(database.db, { ...request, trigger });
    if (result.kind !== 'started') throw new Error(`skipped: ${result.reason}`);
    return result.run;
  };
  const readJob = async () => (await database.query('select * from sync.jobs'))[0];
  const findDue = () => findDueJobs(database.db, ['pull-shipments'], [{ client: 'default', identity: 'a' }]);

  test('a tick that comes twice runs once; a run that would overlap is counted with its reason', async () => {
    const run = await start();
    expect(await startRun(database.db, { ...request, trigger: 'manual' })).toMatchObject({
      kind: 'skipped',
      reason: 'overlap',
    });
    expect(await readJob()).toMatchObject({ skips: 1, last_skip_reason: 'a run is under way' });
    await finishRun(database.db, run, newTotals(), { status: 'done' });
    expect(await startRun(database.db, request)).toMatchObject({ kind: 'skipped', reason: 'not_due' });
    expect(await findDue()).toEqual([]);
    expect((await start('manual')).lease.token).toBeGreaterThan(run.lease.token);
  });

  test('an uneventful run leaves no row in the ledger; a run that wrote or failed does', async () => {
    await finishRun(database.db, await start(), newTotals(), { status: 'done' });
    expect(await readJob()).toMatchObject({ uneventful_runs: 1, last_outcome: 'done' });
    expect(await database.query('select * from sync.runs')).toEqual([]);
    const totals = { ...newTotals(), created: 3, pages: 1 };
    const run = await start('manual');
    await underLease(database.db, run.lease, (trx) => recordProgress(trx, run, totals));
    expect(await database.query('select status, created from sync.runs')).toEqual([{ status: 'running', created: 3 }]);
    await finishRun(database.db, run, totals, {
      status: 'failed',
      code: 'timeout',
      message: 'words',
      retryAfterMs: 90_000,
      hold: null,
    });
    expect(await database.query('select status, error_code from sync.runs')).toEqual([
      { status: 'failed', error_code: 'timeout' },
    ]);
    expect(await readJob()).toMatchObject({ consecutive_failures: 1, last_error: 'words' });
    expect(await database.query(`select due_at > now() + interval '80 seconds' as later from sync.jobs`)).toEqual([
      { later: true },
    ]);
  });

  test('a run whose worker was lost is recorded as abandoned and due again at once', async () => {
    const run = await start();
    await underLease(database.db, run.lease, (trx) => recordProgress(trx, run, { ...newTotals(), created: 1 }));
    await expireLeases();
    expect(await revive()).toEqual([{ client: 'default', job: 'pull-shipments' }]);
    expect(await database.query('select status from sync.runs')).toEqual([{ status: 'abandoned' }]);
    expect(await findDue()).toHaveLength(1);
    await expect(finishRun(database.db, run, newTotals(), { status: 'done' })).rejects.toBeInstanceOf(LeaseLostError);
  });

  test('a run that commits its last page while its lease is revived is recorded as abandoned', async () => {
    const run = await start();
    await expireLeases();
    const committed = Promise.withResolvers<void>();
    const page = database.db.transaction().execute(async (trx) => {
      await sql`update sync.leases set expires_at = clock_timestamp() + interval '50 ms'`.execute(trx);
      await recordProgress(trx, run, { ...newTotals(), created: 1 });
      await committed.promise;
    });
    await waitFor('the page to hold the lease', async () => {
      const held = `select from pg_locks where relation = 'sync.leases'::regclass and mode = 'RowExclusiveLock'`;
      return (await database.query(held)).length > 0;
    });
    const reviving = inTransaction(database.db, (trx) =>
      reviveAbandoned(trx, { client: 'default', job: 'pull-shipments' }),
    );
    const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await waitFor('the next run to wait for it', async () => (await database.query(waiting)).length > 0);
    const over = `select 1 where clock_timestamp() > (select xact_start + interval '200 ms' from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' limit 1)`;
    await waitFor('the lease to run out', async () => (await database.query(over)).length > 0);
    committed.resolve();
    await page;
    expect(await reviving).toEqual([{ client: 'default', job: 'pull-shipments' }]);
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

  test('a run whose worker was lost starts again when the queue delivers it, before any sweep', async () => {
    const run = await start();
    await underLease(database.db, run.lease, (trx) => recordProgress(trx, run, { ...newTotals(), created: 1 }));
    await expireLeases();
    expect(await startRun(database.db, request)).toMatchObject({ kind: 'started', afterAbandoned: true });
    expect(await database.query('select status from sync.runs')).toEqual([{ status: 'abandoned' }]);
  });

  test('a run that was stopped is due at once', async () => {
    await finishRun(database.db, await start(), newTotals(), { status: 'stopped' });
    expect(await findDue()).toHaveLength(1);
  });
});
