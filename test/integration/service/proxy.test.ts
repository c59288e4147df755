import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { checkTransport } from '../../../src/operate/doctor/checks.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, makeConfig, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

/** Starts a forward proxy that records its requests. */
async function startProxy(): Promise<{ url: string; requests: string[] }> {
  const requests: string[] = [];
  const server = createServer((incoming, outgoing) => {
    requests.push(`${incoming.method} ${incoming.url}`);
    const { method = 'GET', headers, url = '' } = incoming;
    const onward = request(url, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.writeHead(502).end());
    incoming.pipe(onward);
  });
  server.on('connect', ({ url = '' }, socket) => {
    requests.push(`CONNECT ${url}`);
    if (url.startsWith('refused.test')) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    const [host, port] = url.split(':');
    const onward = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.destroy());
    return undefined;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  servers.push(server);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

test('requests use the proxy of the environment, except for hosts in NO_PROXY', async () => {
  await sandbox.seed(3);
  const { url, requests } = await startProxy();
  done(await pull('pull-shipments', { env: { HTTP_PROXY: url } }));
  expect(requests.some((one) => one.includes('/v3/shipments'))).toBe(true);
  expect(await database.query('select 1 from fulfilment.shipments')).toHaveLength(3);
  requests.splice(0);
  done(await pull('pull-shipments', { env: { http_proxy: url, NO_PROXY: '127.0.0.1' } }));
  expect(requests).toEqual([]);
});

test('a proxy that refuses a tunnel is named, and nothing counts as sent', async () => {
  const { url, requests } = await startProxy();
  const env = { HTTPS_PROXY: url, WAREHOUSE_BASE_URL: 'https://refused.test/' };
  expect(await pull('pull-shipments', { env })).toMatchObject({
    status: 'failed',
    error: {
      code: 'connect_failed',
      outcome: 'not_executed',
      message: expect.stringContaining('HTTPS_PROXY'),
    },
  });
  expect(requests).toContain('CONNECT refused.test:443');
});

test('doctor names proxies without their password, and remote connections without TLS', () => {
  const env = {
    HTTPS_PROXY: 'http://user:secret@proxy.test:3128',
    WAREHOUSE_BASE_URL: 'http://warehouse.test/',
  };
  const config = makeConfig(database, sandbox, { ...env, DATABASE_URL: 'postgres://erp.test/erp' });
  expect(checkTransport(config)).toEqual([
    expect.objectContaining({
      state: 'warn',
      found: expect.stringMatching(/service of default .*Postgres/),
    }),
    expect.objectContaining({ state: 'ok', found: 'requests go by proxy.test:3128 (HTTPS_PROXY)' }),
  ]);
});

test('doctor warns if the certificate of Postgres is not checked', () => {
  const config = makeConfig(database, sandbox, {
    DATABASE_URL: 'postgres://erp.test/erp?sslmode=no-verify',
  });
  expect(checkTransport(config)).toEqual([
    expect.objectContaining({ check: 'encryption', state: 'ok' }),
    expect.objectContaining({
      check: 'certificates',
      state: 'warn',
      found: expect.stringMatching(/^TLS: .*no-verify/),
    }),
  ]);
});

test.each(['127.0.0.0/8', '*test', 'http://a.test', '0:0:0:0:0:0:0:1'])(
  'NO_PROXY=%s, which would be ignored, is refused in any spelling if there is a proxy',
  (entry) => {
    const refuse = (env: Record<string, string>) => () => makeConfig(database, sandbox, env);
    for (const [proxy, name] of [
      ['HTTP_PROXY', 'NO_PROXY'],
      ['https_proxy', 'no_proxy'],
    ] as const)
      expect(refuse({ [proxy]: 'http://proxy.test', [name]: `a.test,${entry}` })).toThrow(
        `NO_PROXY: ${entry} is not supported`,
      );
    expect(refuse({ NO_PROXY: entry })).not.toThrow();
  },
);
