import { connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { useAdmin, Visitor } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { waitFor } from '../../../helpers/wait.ts';

const database = useDatabase();
const admin = useAdmin(database);
const token = 'a-token-that-is-long-enough-to-be-taken';

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** Opens a connection, writes to it, and keeps what the server answers. */
function send(port: number, text: string): { socket: Socket; answer: () => string } {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (data) => {
    answer += String(data);
  });
  socket.on('error', () => undefined);
  socket.write(text);
  sockets.push(socket);
  return { socket, answer: () => answer };
}

const post = (path: string, length: number, headers = '') =>
  `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}content-type: application/x-www-form-urlencoded\r\ncontent-length: ${length}\r\n\r\n`;

test('the number of half-sent requests is bounded, and /livez still answers', async () => {
  const { visitor, port } = await admin({ ADMIN_TOKEN: token });
  const half = [`${post('/login', 4_000)}token=x`, post('/login', 4_000).slice(0, 40), ''];
  const sent = Array.from({ length: 400 }, (_, index) =>
    send(port, half[index % half.length] ?? ''),
  );
  await waitFor(
    'most of them to be closed',
    () => sockets.filter(({ closed }) => closed).length >= 400 - 128,
  );
  // They were closed in favour of newer ones, and not answered 408 after the time limit.
  expect(sent.filter(({ answer }) => answer() === '').length).toBeGreaterThan(200);
  expect((await visitor.get('/livez')).status).toBe(200);
  // The others end by the time limit of a request, and so does one that waits for another request.
  const { answer } = send(port, 'GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n');
  await waitFor('an answer', () => answer().startsWith('HTTP/1.1 200'));
  await waitFor('all of them to be closed', () => sockets.every(({ closed }) => closed));
});

test('a login form of more than 4 KB is refused by its length, before it is sent', async () => {
  const { port } = await admin({ ADMIN_TOKEN: token });
  const { answer } = send(port, post('/login', 1_000_000));
  await waitFor('an answer', () => answer().startsWith('HTTP/1.1 413'));
});

test.each([['sec-fetch-site: cross-site\r\n'], ['origin: https://evil.example\r\n']])(
  'a form that a page of another site sends is refused before its body is read: %j',
  async (headers) => {
    const { port } = await admin();
    const { answer } = send(port, post('/outbox/1/replace', 32_000_000, headers));
    await waitFor('an answer', () => answer().startsWith('HTTP/1.1 403'));
  },
);

test('sessions hold at every worker, until a logout or another token ends them', async () => {
  const { visitor } = await admin({ ADMIN_TOKEN: token });
  const logIn = async () => {
    await visitor.post('/login', { token });
    return `fulfilment_session=${visitor.cookie('fulfilment_session')}`;
  };
  const isOpen = async (cookie: string, at: Visitor) =>
    (await new Visitor(at.base).get('/', { cookie })).status === 200;
  const second = (await admin({ ADMIN_TOKEN: token })).visitor;
  const first = await logIn();
  expect(await isOpen(first, second)).toBe(true);
  // Also a copy of the cookie ends with the session.
  expect((await visitor.post('/logout', {}, '/')).status).toBe(303);
  expect(await isOpen(first, second)).toBe(false);

  const other = await logIn();
  const withOtherToken = (await admin({ ADMIN_TOKEN: `another-${token}` })).visitor;
  expect(await isOpen(other, withOtherToken)).toBe(false);
  expect(JSON.stringify(await database.query('select * from sync.admin_sessions'))).not.toContain(
    other.split('.')[1],
  );
});

test('a session ends after an hour without a request, and those of an open page do not count', async () => {
  const { visitor } = await admin({ ADMIN_TOKEN: token });
  await visitor.post('/login', { token }, '/login');
  const letPass = (minutes: number) =>
    database.query(
      `update sync.admin_sessions set used_at = used_at - interval '${minutes} minutes'`,
    );
  await letPass(59);
  expect((await visitor.get('/')).status).toBe(200);
  await letPass(59);
  expect((await visitor.get('/', { 'x-refresh': '1' })).status).toBe(200);
  await letPass(2);
  expect((await visitor.get('/')).status).toBe(303);
});

test('the token of a form is refused in another session of the same browser', async () => {
  const { visitor } = await admin({ ADMIN_TOKEN: token });
  await visitor.post('/login', { token }, '/login');
  const form =
    /name="_csrf" value="([^"]+)"/.exec(await (await visitor.get('/schedules')).text())?.[1] ?? '';
  await visitor.post('/login', { token }, '/login');
  const fields = { client: 'default', job: 'pull-orders' };
  for (const token of [{}, { _csrf: form }])
    expect((await visitor.post('/schedules/pause', { ...fields, ...token })).status).toBe(403);
  expect(await database.query('select * from sync.pauses')).toEqual([]);
});

test('behind TLS the session cookie is bound to this host', async () => {
  const { visitor } = await admin({ ADMIN_TOKEN: token });
  const answer = await fetch(`${visitor.base}/login`, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ token }),
    headers: { 'x-forwarded-proto': 'https' },
  });
  const [cookie] = answer.headers.getSetCookie().filter((line) => line.includes('session'));
  expect(cookie).toMatch(/^__Host-fulfilment_session=.*; Path=\/; HttpOnly; Secure/);
});

test('an address with a NUL is a bad request', async () => {
  const { visitor } = await admin();
  for (const path of ['/outbox?reference=%00', '/quarantine?client=%00', '/outbox/%00'])
    expect([path, (await visitor.get(path)).status]).toEqual([path, 400]);
  expect(await (await visitor.get('/%zz')).text()).toContain('<p class="why">');
});
