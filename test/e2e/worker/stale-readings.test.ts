import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/cli/demo/oracle.ts';
import { useDatabase } from '../../helpers/database.ts';
import type { CliProcess } from '../../helpers/processes/cli-process.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const control = new SandboxControl();
const pull = usePuller(database, control);

const count = 40;
const statuses = () =>
  database.query('select status, count(*)::int as n from fulfilment.shipments group by 1');
const feed = async () => (await database.query('select 1 from fulfilment.changes')).length;
const ids = async () =>
  (await database.query<{ id: number }>('select id from fulfilment.shipments order by id')).map(
    ({ id }) => id,
  );

async function seedAndPull(): Promise<void> {
  control.url = (await processes.sandbox()).url;
  await control.seed(count, { statuses: ['READY_TO_PICK'] });
  done(await pull('pull-shipments'));
  done(await pull('pull-orders'));
}

/**
 * Starts a reconciliation, and stops its process before the whole answer of the service has
 * arrived.
 */
async function startStoppedReconcile(): Promise<CliProcess> {
  const place = await control.lastPlace();
  const drip = { bytes: 2_000, everyMs: 100 };
  await control.faults({ operation: 'v3.shipments.list', count: 1, effect: { drip } });
  const reconcile = processes.cli(
    ['reconcile', 'shipments', '--json'],
    workerEnv(database.url, control),
  );
  await waitFor(
    'the list to be asked',
    async () => (await control.requestsTo('/v3/shipments', place)).length === 1,
  );
  reconcile.kill('SIGSTOP');
  return reconcile;
}

test('a stopped reconciliation overwrites no row that a newer pull found unchanged', async () => {
  await seedAndPull();
  await control.setStatus(await ids(), 'ERROR');
  const reconcile = await startStoppedReconcile();
  await control.setStatus(await ids(), 'READY_TO_PICK');
  const entries = await feed();
  expect(done(await pull('pull-shipments'))).toMatchObject({ updated: 0, unchanged: 2 * count });
  reconcile.kill('SIGCONT');
  expect((await reconcile.ended).code).toBe(0);
  expect(await statuses()).toEqual([{ status: 'READY_TO_PICK', n: count }]);
  expect(await feed()).toBe(entries);
  expect(await compareWithSandbox(database.db, control.url, ['shipments'])).toEqual([]);
  // The notes are deleted when the last reader that needs them has ended.
  expect(await database.query('select * from sync.confirmations')).toEqual([]);
});
