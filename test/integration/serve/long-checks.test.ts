import { readdirSync, readFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { performCheck } from '../../../src/push/check-payload.ts';
import { type CheckTask, runInProcess } from '../../../src/push/check-process.ts';
import { useAdmin } from '../../helpers/admin.ts';
import { useApi } from '../../helpers/api.ts';
import { useDatabase } from '../../helpers/database.ts';
import { makeBomb } from '../../helpers/document-bomb.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { measureLongestTurn, postFromProcess } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const api = useApi(database);
const admin = useAdmin(database);
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

/** Makes a payload of 15 MB that takes long to check. */
const longPayload = `'{"filename":"a","content":"' + '\\\\"'.repeat(7_900_000) + '"}'`;
const longBody = `'{"kind":"order_attachment.create","reference":"A","payload":'
  + ${longPayload} + '}'`;
const evaluate = (expression: string): string => new Function(`return ${expression}`)();

/** Returns the milliseconds of CPU time that the check takes in this process. */
async function measureCheck(): Promise<number> {
  const body = Buffer.from(evaluate(longBody));
  const known = { lists: null, lacks: false };
  const before = process.threadCpuUsage();
  await performCheck({ do: 'check rows', body, operations, known }, async () => null);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** An order of 2,000 lines, with a price of many digits: some 150 KB. */
const longOrder = (reference: string) => {
  const items = Array.from({ length: 2_000 }, (_, n) => ({
    sku: 'MUG-BLUE',
    quantity: 1,
    name: `A long name of the product of line ${n}`,
    price: n === 0 ? 9.5 : 1.5,
  }));
  return JSON.stringify(orderPayload(reference, { items })).replace('9.5', '9.9500000000000000001');
};

/** Returns the ids of the processes that check payloads for this one. */
const listCheckers = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((id) => {
      try {
        const [, , , parent] = readFileSync(`/proc/${id}/stat`, 'utf8').split(' ');
        const command = readFileSync(`/proc/${id}/cmdline`, 'utf8');
        return Number(parent) === process.pid && command.includes('check-program');
      } catch {
        // The process has ended.
        return false;
      }
    })
    .map(Number);

test('a body of 15 MB takes no long turn of the event loop', async () => {
  const { server } = await api();
  const headers = { authorization: 'Bearer erp', 'content-type': 'application/json' };
  const url = `http://127.0.0.1:${server.port}/v1/outbox`;
  const { longestMs, result } = await measureLongestTurn(() =>
    postFromProcess(url, headers, longBody),
  );
  expect(result).toMatch(/^422 .*content: must be base64/);
  expect(longestMs).toBeLessThan((await measureCheck()) / 2);
});

test('a long order is compared with the lists, and stored with every digit', async () => {
  const { call } = await api();
  const body = `{"kind":"order.create","reference":"A","payload":${longOrder('A')}}`;
  await database.query(`
    insert into fulfilment.setting_options (client, list, id, code, name, raw)
    values ('default', 'orderTypes', 1, 'B2B', 'B2B', '{}')`);
  expect((await call('/v1/outbox', body)).json.problems).toEqual([
    expect.stringContaining('there is no code B2C'),
  ]);

  await database.query('delete from fulfilment.setting_options');
  expect((await call('/v1/outbox', body)).status).toBe(202);
  expect(
    await database.query(`
      select payload #>> '{items,0,price}' as price, payload #>> '{items,1999,name}' as name
      from fulfilment.outbox`),
  ).toEqual([{ price: '9.9500000000000000001', name: 'A long name of the product of line 1999' }]);
});

test('a payload that is too large for a form is neither shown nor taken by a page', async () => {
  const { visitor } = await admin();
  await outbox.insert('order_attachment.create', 'A', { content: 'A'.repeat(600_000) });
  const shown = await (await visitor.get('/outbox/1')).text();
  expect(shown).toContain('cannot be shown: it has 600');
  expect(shown.length).toBeLessThan(100_000);

  const payload = JSON.stringify({ content: 'A'.repeat(600_000) });
  const answer = await visitor.post('/outbox/1/replace', { payload }, '/outbox/1');
  expect([answer.status, await answer.text()]).toEqual([
    413,
    expect.stringContaining('fulfilment-sync outbox replace'),
  ]);
});

/** Ends the processes that check payloads, until the work is over that waits for them. */
async function endChecks(work: readonly Promise<unknown>[]) {
  let isOver = false;
  void Promise.allSettled(work).then(() => {
    isOver = true;
  });
  await waitFor('the checks to end', () => {
    for (const id of listCheckers()) process.kill(id, 'SIGKILL');
    return isOver;
  });
}

/** The task to check a payload with a document. */
const readDocument = (content: string): CheckTask => ({
  do: 'check payload',
  kind: 'order_attachment.create',
  payload: JSON.stringify({ filename: 'a', content }),
  reference: 'A',
  operations,
  known: { lists: null, lacks: false },
});

test('an owner with many tasks leaves turns to the others', async () => {
  const { signal } = new AbortController();
  const read = (owner: string, content: string) =>
    runInProcess(readDocument(content), { owner, signal });
  const hostile = ['a', 'b'].flatMap((owner) =>
    Array.from({ length: 3 }, () => read(owner, makeBomb()).catch(() => null)),
  );
  const other = read('c', 'AAAA');
  await waitFor('the checks to begin', () => listCheckers().length === 2);

  const [first] = listCheckers();
  process.kill(first ?? 0, 'SIGKILL');
  const others = Promise.all([hostile[1], hostile[4]].map((one) => one));
  expect(await Promise.race([other, others.then(() => null)])).toMatchObject({
    problems: [{ text: expect.stringContaining('pdf') }],
  });
  await endChecks(hostile);
});

test('a process that is used again is not ended by the time of its former use', async () => {
  await waitFor('no processes', () => {
    for (const id of listCheckers()) process.kill(id, 'SIGKILL');
    return listCheckers().length === 0;
  });
  const { signal } = new AbortController();
  const check = () => runInProcess(readDocument('AAAA'), { owner: 'a', signal });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    await check();
    const kept = listCheckers();
    expect(kept).toHaveLength(1);
    for (let use = 0; use < 3; use++) {
      vi.advanceTimersByTime(20_000);
      await check();
      expect(listCheckers()).toEqual(kept);
    }

    vi.advanceTimersByTime(30_000);
  } finally {
    vi.useRealTimers();
  }
  await waitFor('the idle process to end', () => listCheckers().length === 0);
});

test('a body that takes long holds up no other token, and a lost check loses nothing', async () => {
  const { as } = await api();
  const payload = orderPayload('A', { attachments: [{ filename: 'a.pdf', content: makeBomb() }] });
  const hostile = as('erp')('/v1/outbox', { kind: 'order.create', reference: 'A', payload });
  await waitFor('the check to begin', () => listCheckers().length > 0);

  const body = `{"kind":"order.create","reference":"B","payload":${longOrder('B')}}`;
  const other = as('other')('/v1/outbox', body);
  const first = await Promise.race([hostile.then(() => 'hostile'), other.then(() => 'other')]);
  expect(first).toBe('other');
  expect((await other).status).toBe(202);

  await endChecks([hostile]);
  const { status, headers, json } = await hostile;
  expect([status, headers.get('retry-after')]).toEqual([503, '2']);
  expect(json.detail).toContain('was interrupted; try again');

  expect(await outbox.rows()).toMatchObject([{ reference: 'B' }]);
  const again = { kind: 'order.create', reference: 'A', payload: orderPayload('A') };
  expect((await as('erp')('/v1/outbox', again)).status).toBe(202);
});
