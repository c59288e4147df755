import { expect, test } from 'vitest';
import { ensureJobs } from '../../../src/schedule/sql/due-jobs.ts';
import { pauseJob, readPauses, resumeJob } from '../../../src/schedule/sql/pauses.ts';
import { readDueRuns, startRun } from '../../../src/schedule/sql/start-runs.ts';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { usePushes } from '../../helpers/pusher.ts';
import { setScheduleClock } from '../../helpers/schedule-clock.ts';

const { database, sandbox, outbox } = usePushes();

const minute = 60_000;
const request = (client = 'a') => ({
  client,
  identity: client,
  baseUrl: 'http://a.test/',
  job: 'pull-shipments',
  stream: 'shipments',
  worker: 'w',
  schedule: { kind: 'every' as const, everyMs: 2 * minute },
});
const findDueClients = async () =>
  (
    await readDueRuns(database.db, {
      ...{ jobs: ['pull-shipments'], local: [], aheadMs: 0 },
      clients: ['a', 'b'].map((client) => ({ client, identity: client })),
      worker: 'w',
    })
  ).map(({ client }) => client);

test('a paused job does not start; after resume one run makes up for the missed runs', async () => {
  await registerClients(database.db, [request('a'), request('b')]);
  await ensureJobs(
    database.db,
    ['a', 'b'].map((client) => ({ client, job: 'pull-shipments', stream: 'shipments', due: null })),
  );
  expect(await pauseJob(database.db, 'pull-shipments', 'a', 'anna')).toBe(true);
  expect(await pauseJob(database.db, 'pull-shipments', 'a', 'anna')).toBe(false);
  expect(await findDueClients()).toEqual(['b']);
  expect(await startRun(database.db, { ...request(), trigger: 'schedule' })).toMatchObject({
    reason: 'paused',
  });
  await setScheduleClock(database, 11 * 60);
  expect(await resumeJob(database.db, 'pull-shipments', 'a', 'anna')).toBe(1);
  expect(await findDueClients()).toEqual(['a', 'b']);
  expect(await startRun(database.db, { ...request(), trigger: 'schedule' })).toMatchObject({
    run: { missed: 5 },
  });
  expect(await database.query(`select skips from sync.jobs where client = 'a'`)).toEqual([
    { skips: 5 },
  ]);
  const audit = { by: 'anna', client: 'a', detail: 'pull-shipments' };
  expect(await database.query('select * from sync.audit order by id')).toMatchObject([
    { ...audit, action: 'paused' },
    { ...audit, action: 'resumed' },
  ]);
});

test('a pause of every client also pauses new clients, until all are resumed', async () => {
  await registerClients(database.db, [request('b')]);
  await pauseJob(database.db, 'pull-shipments', null, 'anna');
  await ensureJobs(database.db, [
    { client: 'b', job: 'pull-shipments', stream: 'shipments', due: null },
  ]);
  expect(await findDueClients()).toEqual([]);
  expect(await resumeJob(database.db, 'pull-shipments', 'b', 'anna')).toBe(0);
  expect(await findDueClients()).toEqual([]);
  await pauseJob(database.db, 'pull-shipments', 'b', 'anna');
  expect(await readPauses(database.db)).toHaveLength(2);
  expect(await resumeJob(database.db, 'pull-shipments', null, 'anna')).toBe(2);
  expect(await findDueClients()).toEqual(['b']);
});

test('paused pushes send nothing, say so to the ERP, and continue after resume', async () => {
  await pauseJob(database.db, 'push-outbox', 'default', 'anna');
  const id = await outbox.insertOrder('SO-1');
  await outbox.push();
  expect(await sandbox.requests()).toEqual([]);
  expect(await database.query('select because from fulfilment.outbox_open')).toEqual([
    { because: expect.stringContaining('pushes are paused since') },
  ]);
  await resumeJob(database.db, 'push-outbox', 'default', 'anna');
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'done' });
});
