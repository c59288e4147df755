import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { waitFor } from '../../../helpers/wait.ts';

const database = useDatabase();
const api = useApi(database);
const megabyte = 1024 * 1024;

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Begins to send a body of 16 MB, and keeps the connection open. */
async function sendHalf(port: number, token: string, bytes: number, route = 'POST /v1/outbox') {
  const socket = await open(port);
  const seen = { text: '', isClosed: false };
  socket.on('close', () => {
    seen.isClosed = true;
  });
  socket.on('data', (data) => {
    seen.text += String(data);
  });
  socket.write(
    `${route} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: ${16 * megabyte + 65_000}\r\n\r\n`,
  );
  // A server that refuses the body may close the connection while it is being sent.
  for (let sent = 0; sent < bytes && socket.writable; sent += megabyte)
    if (!socket.write(' '.repeat(Math.min(megabyte, bytes - sent))))
      await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve));
  return seen;
}

const makeRow = (reference: string) => ({
  kind: 'order.create',
  reference,
  payload: orderPayload(reference),
});

test('half-sent bodies of a token count as what was received, and others insert', async () => {
  const { server, as } = await api();
  for (let count = 0; count < 4; count++) await sendHalf(server.port, 'slow', 1_000);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) => as('other')('/v1/outbox', makeRow(`A${n}`))),
  );
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
});

test.each(['POST /v1/outbox', 'PUT /v1/stock_watch/A'])(
  'a token that sends too much at once by %s is refused, and others are not',
  async (route) => {
    const { server, as } = await api();
    const bodies = await Promise.all(
      [1, 2, 3].map(() => sendHalf(server.port, 'slow', 15 * megabyte, route)),
    );
    await waitFor('a refusal', () => bodies.some(({ isClosed }) => isClosed), 60_000);
    const refused = bodies.filter(({ isClosed }) => isClosed);
    expect(refused).toHaveLength(1);
    // The answer is lost if the connection breaks while the client still sends.
    for (const { text } of refused.filter((one) => one.text !== ''))
      expect(text).toMatch(/^HTTP\/1.1 503 .*retry-after: 1.*application\/problem\+json/is);
    const large = { ...makeRow('L'), payload: { content: 'x'.repeat(15 * megabyte) } };
    expect((await as('other')('/v1/outbox', large)).status).toBe(422);
    expect((await as('other')('/v1/outbox', makeRow('S'))).status).toBe(202);
  },
);

test('more idle connections without a token than are kept open refuse nobody', async () => {
  const { server, call } = await api();
  const sockets = await Promise.all(Array.from({ length: 600 }, () => open(server.port)));
  for (let count = 0; count < 5; count++) {
    expect((await call('/v1/changes', undefined, { connection: 'close' })).status).toBe(200);
  }
  await waitFor(
    'the oldest to be closed',
    () => sockets[0]?.destroyed === true || sockets[0]?.readableEnded === true,
  );
  expect(sockets.at(-1)?.destroyed).toBe(false);
});

test('a token whose requests wait in the database leaves turns to the others', async () => {
  const { as } = await api();
  const waiting = await database
    .open(1)
    .transaction()
    .execute(async (trx) => {
      await sql`lock table fulfilment.stock_levels in access exclusive mode`.execute(trx);
      const read = async () => (await as('erp')('/v1/stock_levels/A')).status;
      const blocked = Array.from({ length: 30 }, read);
      const first = Promise.race(blocked);
      const others = Promise.all([1, 2, 3, 4, 5].map(() => as('other')('/v1/changes')));
      const answers = await Promise.race([others, first]);
      expect(answers).toMatchObject([1, 2, 3, 4, 5].map(() => ({ status: 200 })));
      return blocked;
    });
  const statuses = await Promise.all(waiting);
  expect(statuses.filter((status) => status !== 404 && status !== 503)).toEqual([]);
});
