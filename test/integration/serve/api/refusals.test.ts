import { once } from 'node:events';
import { connect } from 'node:net';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';

const database = useDatabase();
const api = useApi(database);

/** Sends text as it is. Returns the status, the type and the body of the answer. */
async function send(port: number, text: string) {
  const socket = connect(port, '127.0.0.1');
  socket.write(text);
  let answer = '';
  socket.on('data', (data) => {
    answer += String(data);
  });
  await once(socket, 'close');
  const [head = '', body = ''] = answer.split('\r\n\r\n', 2);
  return {
    status: Number(head.split(' ', 2)[1]),
    type: /^content-type: (.*)$/im.exec(head)?.[1],
    body: JSON.parse(body) as { status: number; detail: string },
  };
}

const withToken = 'host: x\r\nauthorization: Bearer erp\r\nconnection: close';
const get = (path: string, headers = withToken) => `GET ${path} HTTP/1.1\r\n${headers}\r\n\r\n`;
const post = (headers: string, body = '', path = '/v1/outbox') =>
  `POST ${path} HTTP/1.1\r\n${withToken}\r\n${headers}\r\n\r\n${body}`;

const cases: readonly [string, string, number][] = [
  ['a wrong percent-encoding', get('/v1/orders/%zz'), 400],
  ['a wrong percent-encoding of a number', get('/v1/stock_levels/%E0%A4%A'), 400],
  ['a value that is too long', get(`/v1/stock_levels/${'x'.repeat(301)}`), 400],
  ['a value that is much too long', get(`/v1/stock_levels/${'x'.repeat(9_000)}`), 414],
  ['a number that is too long', get(`/v1/orders?number=${'x'.repeat(9_000)}`), 400],
  ['a number that is given twice', get('/v1/orders?number=1&number=2'), 400],
  ['an address that is too long', get(`/v1/orders?number=${'x'.repeat(20_000)}`), 431],
  [
    'headers that are too long',
    get('/v1/changes', `${withToken}\r\nx: ${'x'.repeat(20_000)}`),
    431,
  ],
  ['no HTTP', 'hello\r\n\r\n', 400],
  ['no host', get('/v1/changes', 'connection: close'), 401],
  ['an unknown address', get('/v2/orders'), 404],
  ['an unknown table', get('/v1/leases/1'), 404],
  ['a NUL character', get('/v1/stock_levels/%00'), 422],
  ['an unknown query member', get('/v1/changes?from=5'), 400],
  [
    'a method that the address does not take',
    `DELETE /v1/outbox/1 HTTP/1.1\r\n${withToken}\r\n\r\n`,
    404,
  ],
  ['a method that nobody knows', `BREW /v1/outbox HTTP/1.1\r\n${withToken}\r\n\r\n`, 400],
  ['a body of another type', post('content-type: text/plain\r\ncontent-length: 2', '{}'), 415],
  ['a body without a type', post('content-length: 2', '{}'), 415],
  ['no body', post('content-type: application/json\r\ncontent-length: 0'), 400],
  [
    'a body that is too large',
    post('content-type: application/json\r\ncontent-length: 99999999'),
    413,
  ],
  ['a length that is no number', post('content-type: application/json\r\ncontent-length: x'), 400],
];

test('what cannot be answered is refused with a problem document', async () => {
  const { server } = await api();
  for (const [what, request, status] of cases)
    expect([what, await send(server.port, request)]).toEqual([
      what,
      {
        status,
        type: 'application/problem+json',
        body: expect.objectContaining({ status, detail: expect.stringMatching(/.{11}/) }),
      },
    ]);
});

test('a value that cannot be stored, and a query member that is not known, are named', async () => {
  const { call } = await api();
  const readDetail = async (path: string) => (await call(path)).json.detail;
  for (const path of ['/v1/orders?number=%00', '/v1/stock_levels/%00'])
    expect(await readDetail(path)).toBe(
      'A value holds a NUL character, which Postgres cannot store',
    );
  expect(await readDetail('/v1/changes?from=5')).toBe(
    '«from» is not a known member of the query; known are after, limit',
  );
  expect(await readDetail('/v1/outbox/1?limit=5')).toBe(
    '«limit» is not a known member of the query; there are none here',
  );
});

test('a table that the ERP has locked: 503 with words, soon', async () => {
  const { call } = await api();
  await database.query(
    `insert into fulfilment.orders (client, id, raw, read_no) values ('default', 7, '{}', 1)`,
  );
  await database
    .open(1)
    .transaction()
    .execute(async (trx) => {
      await sql`lock table fulfilment.orders in access exclusive mode`.execute(trx);
      const read = await call('/v1/orders/7');
      expect([read.status, read.json.detail]).toEqual([503, expect.stringContaining('has locked')]);
      const inserted = await call('/v1/outbox', {
        kind: 'order.create',
        reference: 'A',
        payload: orderPayload('A'),
      });
      expect(inserted.status).toBe(202);
    });
  expect((await call('/v1/orders/7')).json).toMatchObject({ id: 7, items: [] });
});
