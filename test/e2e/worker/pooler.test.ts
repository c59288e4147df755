import { afterEach, expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/app/demo/oracle.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { hasPgbouncer, type Pgbouncer, startPgbouncer } from '../../helpers/processes/pgbouncer.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const opened: Pgbouncer[] = [];
afterEach(async () => {
  for (const pooler of opened.splice(0)) await pooler.stop();
});

async function openPooler(mode: 'session' | 'transaction'): Promise<Pgbouncer> {
  const pooler = await startPgbouncer(database.url, mode);
  opened.push(pooler);
  return pooler;
}

const insertOrder = (number: string) =>
  database.query(`insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)`, [
    number,
    orderPayload(number),
  ]);
const readStatus = async (number: string) =>
  (await database.query<{ status: string }>('select status from fulfilment.outbox where reference = $1', [number]))[0]
    ?.status;

test.skipIf(!hasPgbouncer)(
  'a worker works through pgbouncer in session mode, also after pgbouncer was killed',
  async () => {
    const pooler = await openPooler('session');
    const sandbox = await processes.sandbox();
    await sandbox.advance(3 * 86_400);
    const env = { ...workerEnv(pooler.url, sandbox), SCHEDULE_PULL_SHIPMENTS: '1s', SCHEDULE_PULL_ORDERS: '1s' };
    expect((await runCommand(['migrate'], env)).code).toBe(0);
    const worker = processes.cli(['worker'], env);
    await worker.line('worker_started');
    await insertOrder('SO-1');
    await waitFor('the first order', async () => (await readStatus('SO-1')) === 'done');
    await pooler.restart();
    await insertOrder('SO-2');
    await waitFor('the second order', async () => (await readStatus('SO-2')) === 'done', 120_000);
    await waitFor(
      'the tables',
      async () => (await compareWithSandbox(database.db, sandbox.url, ['shipments', 'orders'])).length === 0,
      120_000,
    );
    const { output } = await runCommand(['doctor'], env);
    expect(output).toMatch(/each connection has a session of its own/);
  },
  300_000,
);

test.skipIf(!hasPgbouncer)(
  'a worker refuses a pooler that shares sessions, with what to do',
  async () => {
    const pooler = await openPooler('transaction');
    const env = workerEnv(pooler.url, await processes.sandbox());
    const worker = processes.cli(['worker'], env);
    expect((await worker.ended).code).toBe(1);
    expect(worker.output).toMatch(
      /shares sessions.*DATABASE_URL lead to Postgres itself, or to a pool in session mode/,
    );
  },
  120_000,
);
