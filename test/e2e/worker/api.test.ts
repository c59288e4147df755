import getPort from 'get-port';
import { expect, test } from 'vitest';
import { postOrders, writeTokens } from '../../helpers/campaigns/api-load.ts';
import { ageAbsencesSql } from '../../helpers/campaigns/belief.ts';
import { useConfigFolders } from '../../helpers/config/config-folder.ts';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const makeFolder = useConfigFolders();
const orderCount = 1_000;

const readStatus = async (base: string, token: string) =>
  (await fetch(`${base}/v1/changes`, { headers: { authorization: `Bearer ${token}` } })).status;

test('of 1,000 orders by HTTP, 64 at a time, with two kills of the worker, the service has each once', async () => {
  const [sandbox, folder, port] = [await processes.sandbox(), makeFolder(), await getPort()];
  writeTokens(folder.file('tokens.json'), ['erp']);
  const env = { API_TOKENS_FILE: folder.file('tokens.json'), API_PORT: String(port) };
  const start = () => processes.cli(['worker'], workerEnv(database.url, sandbox, env));
  let worker = start();
  await worker.line('api_listening');
  const { ids, repeats } = await postOrders({
    base: `http://127.0.0.1:${port}`,
    token: 'erp',
    count: orderCount,
    slots: 64,
    onAccepted: (accepted) => {
      if (accepted !== 300 && accepted !== 600) return;
      worker.kill('SIGKILL');
      worker = start();
    },
  });
  expect(repeats).toBeGreaterThan(0);
  expect(new Set(ids).size).toBe(orderCount);
  expect(
    await database.query(
      'select count(*)::int as rows, count(distinct reference)::int as orders from fulfilment.outbox',
    ),
  ).toEqual([{ rows: orderCount, orders: orderCount }]);
  await waitFor(
    'all orders to be done',
    async () => {
      await database.query(ageAbsencesSql);
      const left = await database.query(`select id from fulfilment.outbox where status <> 'done'`);
      return left.length === 0;
    },
    300_000,
  );
  const numbers = (await sandbox.orderNumbers()).filter((number) => number.startsWith('API-'));
  expect([numbers.length, new Set(numbers).size]).toEqual([orderCount, orderCount]);
});

test('SIGHUP takes changed tokens; a wrong file changes nothing; a stop ends the API', async () => {
  const [sandbox, folder] = [await processes.sandbox(), makeFolder()];
  const file = folder.file('tokens.json');
  writeTokens(file, ['first', 'second']);
  const port = await getPort();
  const env = { API_TOKENS_FILE: file, API_PORT: String(port) };
  const worker = processes.cli(['worker'], workerEnv(database.url, sandbox, env));
  const base = `http://127.0.0.1:${port}`;
  const find = (event: string, count: number) =>
    waitFor(
      `${event} ${count}`,
      () => worker.lines.filter((line) => line.includes(`"${event}"`)).length >= count,
    );
  await find('worker_started', 1);
  expect([await readStatus(base, 'first'), await readStatus(base, 'second')]).toEqual([200, 200]);
  folder.replace('tokens.json', '[{"name": "first"}]');
  worker.kill('SIGHUP');
  await find('config_refused', 1);
  expect(await readStatus(base, 'first')).toBe(200);
  writeTokens(file, ['second']);
  worker.kill('SIGHUP');
  await find('worker_started', 2);
  expect([await readStatus(base, 'first'), await readStatus(base, 'second')]).toEqual([401, 200]);
  worker.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
  await expect(readStatus(base, 'second')).rejects.toThrow('fetch failed');
});
