import { type AddressInfo, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { LeaseLostError } from '../../../src/core/errors.ts';
import { sendJson, useServices, withTokens } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const services = useServices();
const signal = new AbortController().signal;
const empty = { data: [], links: {} };
const list = (url: URL, env?: Record<string, string>) =>
  services.connect(url, env).list('v3.shipments.list', 'page[size]=100', { signal });

describe('the token', () => {
  test('is requested by form, once for many callers, and sent as bearer', async () => {
    let form = '';
    const service = await services.start(async (request, response) => {
      if (request.url !== '/base/token') return sendJson(response, 200, empty);
      form = `${request.headers['content-type']} ${await text(request)}`;
      sendJson(response, 200, { access_token: 'secret', expires_in: 1_200, extra: true });
    });
    const warehouse = services.connect(service.url);
    await Promise.all(
      Array.from({ length: 5 }, () => warehouse.list('v3.shipments.list', '', { signal })),
    );
    expect(form).toBe(
      'application/x-www-form-urlencoded grant_type=password&username=shop&password=pass+word%261',
    );
    expect(service.requests.filter(({ path }) => path === '/base/token')).toHaveLength(1);
    expect(new Set(service.requests.slice(1).map(({ authorization }) => authorization))).toEqual(
      new Set(['bearer secret']),
    );
  });

  test.each<[string, unknown]>([
    ['digits as text', { access_token: 'secret', expires_in: '3600' }],
    [
      'a part of a second, and any case of bearer',
      { access_token: 'secret', expires_in: 3599.5, token_type: 'Bearer' },
    ],
  ])('is taken with %s', async (_what, answer) => {
    const service = await services.start((request, response) =>
      sendJson(response, 200, request.url === '/base/token' ? answer : empty),
    );
    await list(service.url);
    expect(service.requests[1]?.authorization).toBe('bearer secret');
  });

  test.each<[unknown, string]>([
    [{ access_token: 'secret' }, 'expires_in must be a whole'],
    ['{"access_token": "secret", "expires_in": 1e400}', 'expires_in must be a whole'],
    [{ access_token: 'secret', expires_in: 'secret' }, 'expires_in must be a whole'],
    [{ access_token: '', expires_in: 3600 }, 'access_token is empty'],
    [{ access_token: 'se cret', expires_in: 3600 }, 'access_token holds a character'],
    [{ access_token: 'secret'.repeat(9_999), expires_in: 3600 }, 'access_token is too long'],
    [{ access_token: 'secret', expires_in: 3600, token_type: 'mac' }, 'token_type must be bearer'],
    ['secret', 'the answer is not readable JSON'],
  ])('of a wrong answer is refused without its text: %$', async (answer, words) => {
    const body = typeof answer === 'string' ? answer : JSON.stringify(answer);
    const service = await services.start(
      (_request, response) => void response.writeHead(200).end(body),
    );
    const error = await list(service.url).catch((caught: unknown) => caught as Error);
    expect(error).toMatchObject({ code: 'undecodable', message: expect.stringContaining(words) });
    expect(String(error)).not.toContain('secret');
  });

  test('is renewed before it expires', async () => {
    const service = await services.start(
      withTokens((_request, response) => sendJson(response, 200, empty), { expiresInSeconds: 1 }),
    );
    const warehouse = services.connect(service.url);
    await waitFor('a second token', async () => {
      await warehouse.list('v3.shipments.list', '', { signal });
      return service.requests.at(-1)?.authorization === 'bearer t2';
    });
  });

  test('that is refused is renewed once for all callers', async () => {
    const service = await services.start(
      withTokens((request, response) =>
        sendJson(response, request.headers.authorization === 'bearer t1' ? 401 : 200, empty),
      ),
    );
    const warehouse = services.connect(service.url);
    await Promise.all(
      Array.from({ length: 5 }, () => warehouse.list('v3.shipments.list', '', { signal })),
    );
    expect(service.requests.filter(({ path }) => path === '/base/token')).toHaveLength(2);
  });

  test('that is refused repeatedly is not renewed each time', async () => {
    const service = await services.start(
      withTokens((_request, response) => sendJson(response, 401, {})),
    );
    const warehouse = services.connect(service.url);
    const refused = { code: 'token_refused', outcome: 'not_executed', status: 401 };
    for (let times = 0; times < 5; times++)
      for (const operation of ['v3.shipments.list', 'v3.orders.list'] as const)
        await expect(warehouse.list(operation, '', { signal })).rejects.toMatchObject(refused);
    expect(service.requests.filter(({ path }) => path === '/base/token')).toHaveLength(2);
  });

  test('that other operations accept is kept, even if one operation refuses it', async () => {
    const service = await services.start(
      withTokens((request, response) =>
        request.url?.includes('/v3/orders')
          ? sendJson(response, 401, {})
          : sendJson(response, 200, empty),
      ),
    );
    const warehouse = services.connect(service.url);
    for (let times = 0; times < 5; times++) {
      await warehouse.list('v3.shipments.list', '', { signal });
      await expect(warehouse.list('v3.orders.list', '', { signal })).rejects.toMatchObject({
        code: 'token_refused',
      });
    }
    expect(service.requests.filter(({ path }) => path === '/base/token')).toHaveLength(2);
    const beforeSend = () => Promise.resolve();
    const write = () =>
      warehouse.write({ operation: 'v3.orders.create', body: {} }, { signal, beforeSend });
    // The first refusal of an operation may cost one new token. Then we know that the token is not
    // the reason.
    await expect(write()).rejects.toMatchObject({ status: 401 });
    await expect(write()).rejects.toMatchObject({ code: 'token_refused' });
    expect(service.requests.filter(({ path }) => path === '/base/token')).toHaveLength(3);
  });

  test('that the service denies is an error without the password', async () => {
    const service = await services.start((_request, response) =>
      sendJson(response, 400, { error: 'invalid_grant' }),
    );
    const error = await list(service.url).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'credentials_refused', outcome: 'refused' });
    expect(JSON.stringify(error) + String(error)).not.toContain('pass word');
  });
});

describe('a read', () => {
  test('keeps the path of the base URL and encodes what goes into the path', async () => {
    const service = await services.start(
      withTokens((_request, response) => sendJson(response, 200, { data: { id: 5 } })),
    );
    await services
      .connect(service.url)
      .get('v3.shipments.get', 5, 'include=shipmentItems', { signal });
    expect(service.requests[1]?.path).toBe('/base/v3/shipments/5?include=shipmentItems');
  });

  test('is repeated after a temporary failure, with a new read number each time', async () => {
    let failures = 2;
    const service = await services.start(
      withTokens((_request, response) =>
        sendJson(response, failures-- > 0 ? 503 : 200, empty, { 'retry-after': '0' }),
      ),
    );
    let draws = 0;
    await services
      .connect(service.url)
      .list('v3.shipments.list', '', { signal, beforeSend: async () => void draws++ });
    expect(draws).toBe(3);
  });

  test('is null only if the service itself answers 404', async () => {
    const service = await services.start(
      withTokens((_request, response) => sendJson(response, 404, { errors: [] })),
    );
    expect(
      await services.connect(service.url).get('v3.shipments.get', 5, '', { signal }),
    ).toBeNull();
    const proxy = await services.start(
      withTokens(
        (_request, response) =>
          void response.writeHead(404, { 'content-type': 'text/html' }).end('<html>'),
      ),
    );
    await expect(
      services.connect(proxy.url).get('v3.shipments.get', 5, '', { signal }),
    ).rejects.toMatchObject({
      outcome: 'not_executed',
    });
  });

  test.each<[string, Parameters<typeof services.start>[0], object]>([
    [
      'no JSON',
      (_request, response) => void response.writeHead(200).end('<html>'),
      { code: 'undecodable' },
    ],
    [
      'a list without data',
      (_request, response) => sendJson(response, 200, { data: {} }),
      { code: 'undecodable' },
    ],
    [
      'no UTF-8',
      (_request, response) => void response.writeHead(200).end(Buffer.from([0x7b, 0xff, 0xfe])),
      { code: 'undecodable' },
    ],
    [
      'a redirect',
      (_request, response) =>
        void response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
      { code: 'redirected', outcome: 'unknown' },
    ],
    [
      'a long wait',
      (_request, response) => sendJson(response, 429, {}, { 'retry-after': '3600' }),
      { status: 429, retryAfterMs: 900_000 },
    ],
  ])('ends with a clear error on %s', async (_what, handler, expected) => {
    const service = await services.start(withTokens(handler));
    await expect(list(service.url)).rejects.toMatchObject(expected);
  });

  test('ends in time if no bytes arrive, or if bytes arrive slowly without end', async () => {
    const silent = await services.start(withTokens(() => undefined));
    await expect(list(silent.url, { HTTP_TIMEOUT_MS: '200' })).rejects.toMatchObject({
      code: 'timeout',
      outcome: 'unknown',
    });
    const dripping = await services.start(
      withTokens((_request, response) => {
        const timer = setInterval(() => response.write(' '), 50);
        response.on('close', () => clearInterval(timer));
      }),
    );
    await expect(list(dripping.url, { HTTP_TIMEOUT_MS: '200' })).rejects.toMatchObject({
      code: 'timeout',
    });
  });

  test('ends at once with the reason of its abort signal', async () => {
    const service = await services.start(withTokens(() => undefined));
    const abort = new AbortController();
    const answer = services
      .connect(service.url)
      .list('v3.shipments.list', '', { signal: abort.signal });
    await waitFor('the request', () => service.requests.length === 2);
    abort.abort(new LeaseLostError('default', 'job'));
    await expect(answer).rejects.toBeInstanceOf(LeaseLostError);
  });
});

test('status/get needs no token and reads the envelope', async () => {
  const up = await services.start((_request, response) =>
    sendJson(response, 200, { messageCode: 'OK', message: 'fine', result: null }),
  );
  await services.connect(up.url).checkStatus(signal);
  expect(up.requests).toEqual([{ path: '/base/status/get', authorization: undefined }]);
  const down = await services.start((_request, response) =>
    sendJson(response, 200, { messageCode: 'NOK', message: 'closed', result: null }),
  );
  await expect(services.connect(down.url).checkStatus(signal)).rejects.toMatchObject({
    code: 'nok',
    outcome: 'refused',
    message: expect.stringContaining('closed'),
  });
  const odd = await services.start((_request, response) => sendJson(response, 200, { hello: 1 }));
  await expect(services.connect(odd.url).checkStatus(signal)).rejects.toMatchObject({
    code: 'undecodable',
  });
});

describe('a TLS handshake that fails', () => {
  const handshakes: readonly [string, (socket: Socket) => void][] = [
    // handshake_failure: the server accepts none of our ciphers
    [
      'is answered with an alert',
      (socket) => void socket.once('data', () => socket.end(Buffer.from('15030300020228', 'hex'))),
    ],
    [
      'is answered in another protocol',
      (socket) => void socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')),
    ],
  ];
  test.each(handshakes)('and %s: nothing was carried out', async (_how, answer) => {
    const server = createServer((socket) => {
      // Our side ends the connection as well.
      socket.on('error', () => undefined);
      answer(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    try {
      const service = services.connect(new URL(`https://127.0.0.1:${port}/`)).withoutRetries();
      await expect(service.list('v3.shipments.list', '', { signal })).rejects.toMatchObject({
        code: 'connect_failed',
        outcome: 'not_executed',
      });
    } finally {
      server.close();
    }
  });
});
