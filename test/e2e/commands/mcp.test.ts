import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterEach, expect, test } from 'vitest';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();
const clients: Client[] = [];
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

/** Starts the command, and connects the SDK's own client with it. */
async function connect(...options: string[]) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [process.env.TEST_PROGRAM ?? 'src/cli/main.ts', 'mcp', ...options],
    env: {
      PATH: process.env.PATH ?? '',
      DATABASE_URL: database.url,
      WAREHOUSE_BASE_URL: 'http://127.0.0.1:9',
      WAREHOUSE_USERNAME: 'default',
      WAREHOUSE_PASSWORD: 'default',
    },
    stderr: 'inherit',
  });
  const client = new Client({ name: 'test', version: '1' });
  clients.push(client);
  await client.connect(transport);
  const call = async (name: string, given: Record<string, unknown> = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: given });
    const [first] = content as { type: string; text: string }[];
    return { text: first?.text ?? '', isError: isError === true };
  };
  return {
    client,
    call,
    list: async () => (await client.listTools()).tools.map(({ name }) => name),
  };
}

const reads = ['problems', 'freshness', 'search', 'order_timeline', 'outbox_rows', 'outbox_row'];

async function fill(): Promise<void> {
  await registerClients(database.db, [
    { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
  ]);
  await database.query(`
    insert into fulfilment.outbox (kind, reference, payload, status, next_attempt_at, finished_at, last_error)
      values ('order.create', 'SO-1', '{"email": "jan@example.com"}', 'dead', null, now(), 'answered 422: «say "Jan"»')`);
}

test('an assistant reads what a viewer sees, and can change nothing', async () => {
  await fill();
  const { call, list } = await connect();
  expect(await list()).toEqual(reads);
  const problems = await call('problems');
  expect(JSON.parse(problems.text)).toMatchObject({
    problems: expect.arrayContaining([expect.objectContaining({ code: 'outbox_dead' })]),
  });
  expect(JSON.parse((await call('freshness')).text)).toMatchObject({
    streams: expect.any(Array),
    lateJobs: expect.any(Array),
  });
  expect(JSON.parse((await call('search', { q: 'SO-1' })).text)).toMatchObject({
    orders: [{ number: 'SO-1' }],
  });
  const timeline = await call('order_timeline', { client: 'default', number: 'SO-1' });
  expect(JSON.parse(timeline.text)).toMatchObject({
    number: 'SO-1',
    events: [{ source: 'outbox' }],
  });
  expect(JSON.parse((await call('outbox_rows', { status: 'dead' })).text)).toMatchObject({
    rows: [{ id: 1 }],
  });
  const row = await call('outbox_row', { id: 1 });
  expect(JSON.parse(row.text)).toMatchObject({
    payload: { email: '•••' },
    lastError: 'answered 422: «…»',
  });
  expect([problems.text, timeline.text, row.text].join()).not.toMatch(/[Jj]an/);
  expect(await call('outbox_row', { id: 7 })).toEqual({
    isError: true,
    text: 'There is no row 7 in the outbox',
  });
  expect(await call('outbox_rows', { status: 'lost' })).toEqual({
    isError: true,
    text: expect.stringContaining('status'),
  });
});

test('with --allow-actions rows and jobs are changed, each with an entry of the audit', async () => {
  await fill();
  const { call, list } = await connect('--allow-actions');
  expect(await list()).toEqual([...reads, 'retry', 'cancel', 'pause', 'resume']);
  expect(await call('cancel', { id: 1 })).toEqual({
    isError: true,
    text: expect.stringContaining('sure is not true'),
  });
  expect(await call('retry', { id: 1 })).toEqual({ isError: false, text: 'Row 1: retry is done' });
  expect(await call('cancel', { id: 1, sure: true })).toEqual({
    isError: false,
    text: 'Row 1: cancel is done',
  });
  expect(await call('cancel', { id: 1, sure: true })).toEqual({
    isError: true,
    text: expect.stringContaining('is cancelled'),
  });
  expect(await call('pause', { job: 'pull-orders', client: 'default' })).toMatchObject({
    text: 'pull-orders is paused',
  });
  expect((await call('pause', { job: 'nothing' })).isError).toBe(true);
  expect(await call('resume', { job: 'pull-orders' })).toMatchObject({ text: '1 pauses ended' });
  const audit = await database.query<{ action: string; by: string }>(
    'select action, by from sync.audit order by id',
  );
  expect(audit.map(({ action }) => action)).toEqual([
    'outbox_retry',
    'outbox_cancel',
    'paused',
    'resumed',
  ]);
  expect(audit.every(({ by }) => by.startsWith('mcp '))).toBe(true);
});
