import { expect, test } from 'vitest';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import {
  readAdminPort,
  schedulesOff,
  useProcesses,
  workerEnv,
} from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();

async function startPushing(env: Record<string, string> = {}) {
  const sandbox = await processes.sandbox();
  const worker = processes.cli(
    ['worker'],
    workerEnv(database.url, sandbox, { ...schedulesOff, ...env }),
  );
  await worker.line('worker_started');
  return { sandbox, worker };
}

const insert = (kind: string, reference: string, payload: unknown, client = 'default') =>
  database.query(
    'insert into fulfilment.outbox (client, kind, reference, payload) values ($1, $2, $3, $4)',
    [client, kind, reference, JSON.stringify(payload)],
  );
const rows = () =>
  database.query<{ reference: string; status: string; error: string | null }>(
    `select reference, status, last_error as error from fulfilment.outbox order by id`,
  );
/**
 * Waits until all rows are settled, one more within each deadline. On a slow machine a claim may
 * expire while its row is sent. That row is proven to be absent before it is sent again, which
 * takes twice HTTP_TIMEOUT_MS and two look-ups.
 */
const waitForSettled = async (count: number) => {
  const isSettled = ({ status }: { status: string }) => status === 'done' || status === 'dead';
  for (let settled = 1; settled <= count; settled++)
    await waitFor(
      `row ${settled} to be settled`,
      async () => (await rows()).filter(isSettled).length >= settled,
      480_000,
    );
  return (await rows()).filter(isSettled);
};

/** Returns arrays that are nested this deep. Postgres accepts a few thousand levels. */
const nestArrays = (levels: number) =>
  JSON.parse('['.repeat(levels) + ']'.repeat(levels)) as unknown;

/** Rows that cannot be sent, each with its error. */
const unsendable: readonly [kind: string, payload: unknown, error: RegExp][] = [
  ['order.create', 17, /^the payload cannot be sent: payload: must be an object$/],
  ['order.create', { items: nestArrays(2_500) }, /payload: nests too deep/],
  ['order.create', { padding: 'x'.repeat(10 * 1024 * 1024) }, /«padding»: is not a known member/],
  [
    'order.create',
    { ['__proto__' as string]: 1, constructor: 2 },
    /«__proto__»: is not a known member|«constructor»: is not a known/,
  ],
  ["order.create'; drop table fulfilment.outbox; --", {}, /there is no kind/],
  ['__proto__', {}, /there is no kind/],
];

test('rows that cannot be sent are dead with their reasons, and the other rows are sent', async () => {
  const { worker } = await startPushing();
  for (const [index, [kind, payload]] of unsendable.entries())
    await insert(kind, `BAD-${index}`, payload);
  const evil = [
    "'; delete from fulfilment.outbox; --",
    'line\n{"level":"fatal","event":"forged"}\r\n',
    '\u001b[2J\u001b[31m',
    '../../../etc/passwd',
    '%s%n%x',
  ];
  for (const reference of evil) await insert('order.create', reference, orderPayload(reference));
  await insert('order.create', 'STRANGER', orderPayload('STRANGER'), "nobody'; --");
  // A row waits ten minutes for a worker that knows its client. These ten minutes are over.
  await database.query(
    `update fulfilment.outbox set created_at = now() - interval '1 hour' where reference = 'STRANGER'`,
  );
  await insert('order.create', 'GOOD-1', orderPayload('GOOD-1'));
  const found = await waitForSettled(unsendable.length + evil.length + 2);
  for (const [index, [, , error]] of unsendable.entries()) {
    const row = found.find(({ reference }) => reference === `BAD-${index}`);
    expect([index, row]).toEqual([
      index,
      expect.objectContaining({ status: 'dead', error: expect.stringMatching(error) }),
    ]);
  }
  expect(found.find(({ reference }) => reference === 'GOOD-1')?.status).toBe('done');
  expect(found.find(({ reference }) => reference === 'STRANGER')).toMatchObject({
    status: 'dead',
    error: expect.stringContaining('no worker was ever set up with client'),
  });
  // The row can still be opened, with its page and with the command.
  const [deep] = await database.query<{ id: number }>(
    `select id::int from fulfilment.outbox where last_error like '%nests too deep%'`,
  );
  const port = await readAdminPort(worker);
  const page = await fetch(`http://127.0.0.1:${port}/outbox/${deep?.id}`);
  expect([page.status, await page.text()]).toEqual([
    200,
    expect.stringContaining('cannot be shown: it nests too deep'),
  ]);
  const shown = await runCommand(['outbox', 'show', String(deep?.id)], {
    DATABASE_URL: database.url,
  });
  expect(shown).toEqual({ code: 0, output: expect.stringContaining('it nests too deep') });
  for (const line of worker.lines) expect(JSON.parse(line)).not.toMatchObject({ event: 'forged' });
});

test('payloads of 10 MB are sent one after the other, within a limit of memory', async () => {
  // A worker that needs a larger heap dies. No request may end because the machine is slow.
  const limits = { NODE_OPTIONS: '--max-old-space-size=512', HTTP_TIMEOUT_MS: '120000' };
  const { worker } = await startPushing(limits);
  const page = await writePage(['A page']);
  // A valid document whose comment makes it large.
  const content = Buffer.concat([
    page,
    Buffer.from(`\n%${'x'.repeat(7 * 1024 * 1024)}\n`),
  ]).toString('base64');
  const large = Array.from({ length: 6 }, (_, index) => `LARGE-${index}`);
  for (const reference of large)
    await insert(
      'order.create',
      reference,
      orderPayload(reference, { attachments: [{ filename: 'a.pdf', content }] }),
    );
  await insert('order.create', 'SMALL', orderPayload('SMALL'));
  const found = await waitForSettled(large.length + 1);
  expect(found.filter(({ status }) => status !== 'done').map(({ error }) => error)).toEqual([]);
  expect(worker.child.exitCode).toBeNull();
});

test('changing or deleting a row while it is sent stops no worker and sends nothing twice', async () => {
  const { sandbox, worker } = await startPushing();
  await sandbox.switches({ repeatedNumbers: true });
  await sandbox.faults({ operation: 'v3.orders.create', count: 2, effect: { delayMs: 2_000 } });
  for (const reference of ['CHANGED', 'DELETED'])
    await insert('order.create', reference, orderPayload(reference));
  const countPosts = () => sandbox.count('v3.orders.create');
  await waitFor('both to be sent', async () => (await countPosts()) === 2);
  await database.query(`
    update fulfilment.outbox set payload = '{}' where reference = 'CHANGED';
    delete from fulfilment.outbox where reference = 'DELETED'`);
  await insert('order.create', 'NEXT', orderPayload('NEXT'));
  await waitFor('the other rows', async () =>
    (await rows()).every(({ status }) => status === 'done'),
  );
  expect((await rows()).map(({ reference }) => reference)).toEqual(['CHANGED', 'NEXT']);
  expect(await countPosts()).toBe(3);
  expect(worker.child.exitCode).toBeNull();
});

test('200,000 notifications of a role that may only connect stop neither pushes nor /livez', async () => {
  const { worker } = await startPushing();
  const port = await readAdminPort(worker);
  await database.query('create role visitor');
  await database.query(`
    set role visitor;
    select pg_notify('fulfilment_outbox', json_build_object('woken', json_build_object('client', 'default',
      'family', 'order', 'reference', 'X-' || n))::text) from generate_series(1, 200000) n;
    reset role;
    drop role visitor`);
  for (const reference of ['FIRST', 'SECOND']) {
    await insert('order.create', reference, orderPayload(reference));
    const isDone = async () => {
      expect((await fetch(`http://127.0.0.1:${port}/livez`)).status).toBe(200);
      return (await rows()).some((row) => row.reference === reference && row.status === 'done');
    };
    await waitFor(`the order ${reference} to be done`, isDone, 60_000);
  }
  expect(worker.child.exitCode).toBeNull();
});
