import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();

test('a reader meets each change once, while workers that number are stopped and killed', async () => {
  const sandbox = await processes.sandbox();
  const startWorker = async () => {
    const worker = processes.cli(['worker'], workerEnv(database.url, sandbox, schedules));
    await worker.line('worker_started', 600_000);
    return worker;
  };
  const writer = new pg.Client(database.url);
  await writer.connect();
  let written = 0;
  let isWriting = true;
  const write = async () => {
    while (isWriting) {
      await writer.query(
        `insert into sync.new_changes (client, entity, id, operation)
         values ('default', 'test', $1, 'created')`,
        [++written],
      );
      await wait(2);
    }
  };
  const read: number[] = [];
  const readAll = async () => {
    for (let seq = 0; isWriting || read.length < written; await wait(5)) {
      const rows = await database.query<{ seq: number; id: number; entity: string }>(
        'select seq::int, id::int, entity from fulfilment.changes_since($1)',
        [seq],
      );
      seq = rows.at(-1)?.seq ?? seq;
      read.push(...rows.filter(({ entity }) => entity === 'test').map(({ id }) => id));
    }
  };
  const growBy = async (count: number) => {
    const from = read.length;
    await waitFor('the reader to read more', () => read.length >= from + count);
  };

  const [first, second] = await Promise.all([startWorker(), startWorker()]);
  const work = Promise.all([write(), readAll()]);
  await growBy(100);
  first.kill('SIGSTOP');
  await growBy(100);
  first.kill('SIGCONT');
  second.kill('SIGKILL');
  await second.ended;
  await growBy(100);
  first.kill('SIGTERM');
  expect((await first.ended).code).toBe(0);
  await startWorker();
  await growBy(100);
  isWriting = false;
  await waitFor('everything to be read', () => read.length >= written);
  await work;
  await writer.end();

  expect(read).toEqual(Array.from({ length: written }, (_, index) => index + 1));
}, 1_800_000);

/** Nothing but numbering. */
const schedules = Object.fromEntries(
  ['SHIPMENTS', 'RETURN_ITEMS', 'INBOUNDS', 'INBOUND_PACKING_SLIPS', 'ORDERS', 'PARCELS'].map(
    (name) => [`SCHEDULE_PULL_${name}`, 'off'],
  ),
);
