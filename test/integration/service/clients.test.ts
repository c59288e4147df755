import { describe, expect, test } from 'vitest';
import { toIdentity } from '../../../config/files.ts';
import { acceptIdentity } from '../../../src/operate/sql/accept-identity.ts';
import { runJob } from '../../../src/schedule/runs.ts';
import { done, makeConfig, runInProcess, usePuller, withDueRuns } from '../../helpers/puller.ts';
import { usePusher, usePushes } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { expireHolds, insertHealth } from '../../helpers/service-health.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox, pull } = usePushes();
const other = useSandbox(['default'], quiet);
const pullOther = usePuller(database, other);
const outboxOther = usePusher(database, other);

const accept = ({ keepCursors = false } = {}) =>
  acceptIdentity(
    database.db,
    {
      client: 'default',
      identity: toIdentity({ baseUrl: other.url, username: 'default' }),
      baseUrl: other.url.href,
    },
    keepCursors,
    'test',
  );

/** Makes the last sign of a worker for each client older than a minute. */
const ageClient = () =>
  database.query("update sync.clients set served_at = now() - interval '2 minutes'");

describe('another base URL for a client', () => {
  test('parks the client: nothing is read from there or pushed there until it is accepted', async () => {
    await sandbox.seed(30);
    await other.seed(70);
    done(await pull('pull-shipments'));
    const id = await outbox.insertOrder('SO-1');
    await ageClient();
    expect(await outbox.readBecause(id)).toMatch(
      /^no worker has served client default since \d{4}-/,
    );
    expect(await pullOther('pull-shipments')).toMatchObject({
      ...{ status: 'skipped', reason: 'identity' },
      because: expect.stringContaining(sandbox.url.href),
    });
    await outboxOther.push();
    expect(await other.requests()).toEqual([]);
    expect(await database.count('fulfilment.shipments')).toBe(30);
    expect(await outbox.row(id)).toMatchObject({ status: 'pending', attempts: 0 });
    expect(await outbox.readBecause(id)).toContain('fulfilment-sync client list');
    // The accepted account is still read meanwhile.
    done(await pull('pull-shipments'));

    expect(await accept()).toMatchObject({ accepted: true, waitingRows: 1, deadRows: 0 });
    done(await pullOther('pull-shipments'));
    expect(await database.count('fulfilment.shipments')).toBe(70);
    await outboxOther.push();
    expect((await outbox.rows())[0]).toMatchObject({ status: 'done' });
    expect(await pull('pull-shipments')).toMatchObject({ status: 'skipped', reason: 'identity' });
    expect(await database.count(`sync.audit where action = 'identity_accepted'`)).toBe(1);
  });

  test('is read from the beginning when it is accepted, unless cursors and erasures are kept', async () => {
    await sandbox.seed(150);
    await other.seed(150);
    done(await pull('pull-shipments'));
    await database.query(`
      insert into sync.turns (name, scope, client, next_at, taken_at)
      select 'track-trace', identity, client, now() + interval '50 minutes', now() from sync.clients;
      insert into sync.erasures (client, entity, id, erased_by) values ('default', 'orders', 1, 'test')`);
    await accept({ keepCursors: true });
    expect(await database.count('sync.erasures')).toBe(1);
    // The gate holds for the same account at its new address.
    expect(await pullOther('track-trace')).toMatchObject({ status: 'skipped', reason: 'not_yet' });
    const place = await other.lastPlace();
    done(await pullOther('pull-shipments'));
    const first = (await other.requestsTo('/v3/shipments', place))[0];
    expect(first?.query).toContain('cursor');
    await database.query(`update sync.clients set identity = 'x', base_url = 'http://x.test/'`);
    expect(await accept()).toMatchObject({ erasures: 1 });
    // Ids mean other orders now: none is masked.
    expect(await database.count('sync.erasures')).toBe(0);
    const later = await other.lastPlace();
    done(await pullOther('pull-shipments'));
    expect((await other.requestsTo('/v3/shipments', later))[0]?.query).not.toContain('cursor');
  });

  test('that is accepted ends a run of the former one: it writes nothing more', async () => {
    await sandbox.seed(500);
    await sandbox.faults({ operation: 'v3.shipments.list', effect: { delayMs: 300 } });
    const running = pull('pull-shipments');
    await waitFor('a page', async () => (await database.count('fulfilment.shipments')) >= 100);
    await accept();
    const written = await database.count('fulfilment.changes');
    expect(await running).toMatchObject({ status: 'abandoned' });
    expect(await database.count('fulfilment.changes')).toBe(written);
  });

  test('that is accepted gets no order whose outcome at the former one is unknown', async () => {
    done(await pull('pull-orders'));
    await sandbox.faults({
      operation: 'v3.orders.create',
      effect: { reset: true, afterEffect: true },
    });
    const id = await outbox.insertOrder('SO-1');
    await outbox.push();
    expect((await outbox.row(id)).status).toBe('unknown');
    expect(await accept()).toMatchObject({ waitingRows: 0, deadRows: 1 });
    await outbox.hurry();
    await outboxOther.push();
    expect(await outbox.row(id)).toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining(`the outcome at ${sandbox.url.href} is not known`),
    });
    expect(
      (await other.requests()).filter(({ method, path }) => method === 'POST' && path !== '/token'),
    ).toEqual([]);
  });

  test('that is accepted while an order is sent to the former one ignores the answer', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 1_500 } });
    const id = await outbox.insertOrder('SO-1');
    const pushing = outbox.push();
    await waitFor('the order under way', async () => (await sandbox.count('v3.orders.create')) > 0);
    expect(await accept()).toMatchObject({ deadRows: 1 });
    await pushing;
    expect(await database.count('fulfilment.orders')).toBe(0);
    expect((await outbox.row(id)).status).toBe('dead');
  });
});

describe('a hold of a client', () => {
  const runScheduled = (
    job: 'pull-shipments' | 'pull-inbounds' | 'prune',
    env: Record<string, string> = {},
  ) =>
    runInProcess(makeConfig(database, sandbox, env), database, async (deps, client) => {
      await database.query('update sync.jobs set next_at = now()');
      return runJob(deps, job, { client, trigger: 'schedule' }, new AbortController().signal);
    });
  const readHold = async () =>
    (
      await database.query<{ code: string; seconds: number }>(`
        select code, extract(epoch from next_at - now())::float8 as seconds
        from sync.service_health`)
    )[0];
  const readDone = () =>
    database.query<{ job: string }>(`select job from sync.jobs where last_outcome = 'done'`);
  /** Makes everything due, and starts it as a worker does, until a condition is met. */
  const startDueUntil = async (
    env: Record<string, string>,
    isMet: () => Promise<boolean>,
  ): Promise<void> => {
    await database.query('update sync.jobs set next_at = now()');
    await withDueRuns(makeConfig(database, sandbox, env), database, async (runs) => {
      await runs.sweep();
      await waitFor('what a sweep begins', isMet);
    });
  };

  test('begins with refused credentials, skips other jobs for 15 minutes, and ends with a success', async () => {
    const wrong = { WAREHOUSE_PASSWORD: 'wrong' };
    expect(await runScheduled('pull-shipments', wrong)).toMatchObject({ status: 'failed' });
    expect(await readHold()).toMatchObject({ code: 'credentials_refused' });
    expect((await readHold())?.seconds).toBeGreaterThan(800);
    expect((await readHold())?.seconds).toBeLessThanOrEqual(900);
    const place = await sandbox.lastPlace();
    expect(await runScheduled('pull-inbounds')).toMatchObject({
      status: 'skipped',
      reason: 'held',
    });
    expect(await sandbox.requests(place)).toEqual([]);
    // A job that sends no requests to the service is not held, and does not end the hold.
    done(await runScheduled('prune', wrong));
    expect((await readHold())?.seconds).toBeGreaterThan(800);

    await expireHolds(database);
    await startDueUntil(wrong, async () => ((await readHold())?.seconds ?? 0) > 800);
    await expireHolds(database);
    await startDueUntil({}, async () => (await readDone()).length >= 2);
    // Rows of the outbox are sent one at a time at first.
    expect(await database.count('sync.service_health where send_window = 1')).toBe(1);
  });

  test('begins if status/get fails, too, and lasts 5 s; a manual run may try at any time', async () => {
    const away = { HTTP_TIMEOUT_MS: '200' };
    await sandbox.faults({ operation: 'v3.shipments.list', effect: { noAnswer: true } });
    expect(await runScheduled('pull-shipments', away)).toMatchObject({ status: 'failed' });
    expect(await readHold()).toBeUndefined();
    await sandbox.faults({ operation: '*', effect: { noAnswer: true } });
    expect(await runScheduled('pull-shipments', away)).toMatchObject({ status: 'failed' });
    expect(await readHold()).toMatchObject({ code: 'no_answer' });
    expect((await readHold())?.seconds).toBeLessThan(5);
    const readEnd = () => database.query('select next_at from sync.service_health');
    const end = await readEnd();
    // A run that was under way already, or was started by hand, does not lengthen the hold.
    expect(await pull('pull-shipments', { env: away })).toMatchObject({ status: 'failed' });
    expect(await readEnd()).toEqual(end);
    await sandbox.clearFaults();
    done(await pull('pull-shipments'));
    expect((await readHold())?.seconds ?? 0).toBeLessThanOrEqual(0);
  });

  test('is not ended by a run that asks nothing', async () => {
    const hold = { code: 'credentials_refused', sendWindow: 0, untilInMs: 900_000 } as const;
    await insertHealth(database, hold);
    done(await pull('pull-parcels'));
    expect((await readHold())?.seconds).toBeGreaterThan(800);
  });

  test('for refused credentials stays due for other workers while this one gets no answer', async () => {
    done(await pull('pull-inbounds'));
    await insertHealth(database, {
      code: 'no_answer',
      worker: 'test',
      sendWindow: 0,
      untilInMs: -9,
    });
    await insertHealth(database, { code: 'credentials_refused', sendWindow: 0 });
    await sandbox.faults({ operation: 'common.status.get', effect: { status: 503 } });
    const findWaiting = async () =>
      (await database.query('select code from sync.service_health where next_at > now()')).map(
        ({ code }) => code,
      );
    const isAsked = async () => (await findWaiting()).length > 0;

    await startDueUntil({}, isAsked);
    expect(await findWaiting()).toEqual(['no_answer']);
    await expireHolds(database);
    const id = await outbox.insertOrder('SO-1');
    await outbox.push();
    expect(await findWaiting()).toEqual(['no_answer']);
    await outbox.expectRow(id, { status: 'pending', attempts: 0 });
  });

  test('that is over is ended by one question, whatever is due and however many ask', async () => {
    done(await pull('pull-inbounds'));
    await insertHealth(database, { code: 'no_answer', worker: 'test', sendWindow: 0 });
    await sandbox.faults({ operation: 'common.status.get', effect: { status: 503 } });
    const place = await sandbox.lastPlace();
    await startDueUntil({}, async () => ((await readHold())?.seconds ?? 0) > 3);
    expect((await sandbox.requests(place)).map(({ path }) => path)).toEqual(['/status/get']);
    expect(await readDone()).toEqual([{ job: 'pull-inbounds' }]);

    await sandbox.clearFaults();
    await database.query('update sync.jobs set last_outcome = null');
    await expireHolds(database);
    await startDueUntil({}, async () => (await readDone()).length > 0);
  });

  test('of a worker that is cut from the service keeps no run of another worker', async () => {
    // Nothing listens at the proxy of one worker.
    const cut = makeConfig(database, sandbox, { HTTP_PROXY: 'http://127.0.0.1:9' });
    const runAs = (worker: string, config = makeConfig(database, sandbox)) =>
      runInProcess(config, database, async (deps, client) => {
        await database.query('update sync.jobs set next_at = now()');
        const request = { client, trigger: 'schedule' } as const;
        return runJob({ ...deps, worker }, 'pull-inbounds', request, new AbortController().signal);
      });

    expect(await runAs('cut', cut)).toMatchObject({ status: 'failed' });
    expect(await database.query('select code, worker from sync.service_health')).toEqual([
      { code: 'no_answer', worker: 'cut' },
    ]);
    expect(await runAs('cut', cut)).toMatchObject({ status: 'skipped', reason: 'held' });
    done(await runAs('whole'));
    expect(await runAs('cut', cut)).toMatchObject({ status: 'skipped', reason: 'held' });
  });

  test('that a push began holds runs, except if rows were only sent too fast', async () => {
    await insertHealth(database, { code: 'too_fast', sendWindow: 4, untilInMs: 600_000 });
    done(await runScheduled('pull-inbounds'));
    await database.query("update sync.service_health set code = 'asked_to_wait'");
    expect(await runScheduled('pull-inbounds')).toMatchObject({ reason: 'held' });
  });

  test('of an old backup, older than its longest pause, holds nobody', async () => {
    await insertHealth(database, { code: 'no_answer', sendWindow: 0, untilInMs: 600_000 });
    await database.query('update sync.service_health set void_at = now()');
    done(await runScheduled('pull-inbounds'));
    expect(await outbox.sendOrder('SO-1')).toMatchObject({ status: 'done' });
  });
});
