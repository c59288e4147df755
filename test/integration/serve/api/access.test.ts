import { expect, test } from 'vitest';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';

const database = useDatabase();
const api = useApi(database);
const reads = [
  '/v1/outbox/1',
  '/v1/changes',
  '/v1/orders?number=1',
  '/v1/orders/1',
  '/v1/shipments/1',
];

test('every route needs a token of the file with the right', async () => {
  const { as } = await api();
  for (const path of [...reads, '/v1/return_items/1', '/v1/stock_levels/A']) {
    const statuses = [];
    for (const token of [null, 'wrong', 'writer']) statuses.push((await as(token)(path)).status);
    expect([path, ...statuses]).toEqual([path, 401, 401, 403]);
  }
  const answer = await as(null)('/v1/outbox/1');
  expect(answer.json).toEqual({
    type: 'about:blank',
    title: 'Unauthorized',
    status: 401,
    detail: expect.stringContaining('Bearer'),
  });
  expect([answer.headers.get('content-type'), answer.headers.get('www-authenticate')]).toEqual([
    'application/problem+json',
    'Bearer realm="fulfilment-sync"',
  ]);
  const row = { kind: 'order.create', reference: 'A', payload: orderPayload('A') };
  const posts = await Promise.all(
    [null, 'wrong', 'reader'].map(async (token) => (await as(token)('/v1/outbox', row)).status),
  );
  expect(posts).toEqual([401, 401, 403]);
  expect(await database.query('select id from fulfilment.outbox')).toEqual([]);
});

test('a row of another client is not there', async () => {
  const { call, as } = await api();
  await database.query(
    `insert into fulfilment.outbox (client, kind, reference) values ('other', 'order.cancel', 'A')`,
  );
  expect((await call('/v1/outbox/1')).status).toBe(404);
  expect((await as('other')('/v1/outbox/1')).json).toMatchObject({
    client: 'other',
    status: 'pending',
    payload: {},
  });
});

test('a token that sends too fast is told when to continue', async () => {
  const { as } = await api();
  const answers = await Promise.all(Array.from({ length: 40 }, () => as('slow')('/v1/changes')));
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.every(({ headers }) => headers.get('retry-after') === '1')).toBe(true);
  expect((await as('erp')('/v1/changes')).status).toBe(200);
});

test('before the worker has started, requests are refused for now', async () => {
  const { call } = await api({ isReady: false });
  const answer = await call('/v1/changes');
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '2']);
});

test('requests are logged with the name of the token, and without values and bodies', async () => {
  const { call, as, logged } = await api();
  await call('/v1/orders?number=SECRET-1');
  await call('/v1/outbox', {
    kind: 'order.create',
    reference: 'SECRET-2',
    payload: { email: 'SECRET-3' },
  });
  await as('SECRET-4')('/v1/changes');
  const lines = logged.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines).toMatchObject([
    {
      event: 'api_request',
      token: 'erp',
      client: 'default',
      method: 'GET',
      route: '/v1/orders',
      status: 200,
    },
    { event: 'api_request', token: 'erp', method: 'POST', route: '/v1/outbox', status: 422 },
    { event: 'api_request', status: 401 },
  ]);
  expect(logged.join('')).not.toContain('SECRET');
  expect(logged.join('')).not.toContain('leftOut');
});
