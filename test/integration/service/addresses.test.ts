import { spawn } from 'node:child_process';
import dns from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { sql } from 'kysely';
import { afterEach, expect, inject, test, vi } from 'vitest';
import { readConfig } from '../../../config/env.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase } from '../../../src/db/connect.ts';
import { readRedisInfo } from '../../../src/schedule/open-redis.ts';
import { openDispatcher } from '../../../src/service/transport/dispatcher.ts';
import { useDatabase } from '../../helpers/database.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { useRedis } from '../../helpers/redis.ts';

const database = useDatabase();
const redis = useRedis();
const services = useServices();
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** Makes one name have these addresses. Other names are looked up as usual. */
function giveAddresses(name: string, addresses: readonly string[]): void {
  const original = dns.lookup;
  const spy = vi.spyOn(dns, 'lookup').mockImplementation(((
    host: string,
    options: object,
    callback: never,
  ) => {
    if (host !== name) return original(host, options, callback);
    const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    return (callback as (error: null, found: object) => void)(null, found);
  }) as never);
  closers.unshift(() => spy.mockRestore());
}

/**
 * Starts a process whose port answers no hand-shake: it is stopped, and its queue of connections is
 * full. `resume` lets it answer, and pass connections on to the port `target`.
 */
async function startMute(address: string, target = 9) {
  const code = `const net = require('node:net');
    net.createServer((s) => {
      const t = net.connect(${target}, '127.0.0.1', () => s.pipe(t).pipe(s));
      for (const one of [s, t]) one.on('error', () => { s.destroy(); t.destroy(); });
    }).listen({ port: 0, host: '${address}', backlog: 1 }, function () { console.log(this.address().port) })`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(String(line));
  child.kill('SIGSTOP');
  const waiting: Socket[] = [];
  closers.push(() => {
    for (const socket of waiting) socket.destroy();
    child.kill('SIGKILL');
  });
  // Connects until a hand-shake is no longer answered.
  for (let isAnswered = true; isAnswered; ) {
    const socket = connect(port, address);
    socket.on('error', () => undefined);
    waiting.push(socket);
    isAnswered = await Promise.race([
      once(socket, 'connect').then(() => true),
      new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 700)),
    ]);
  }
  const resume = () => {
    for (const socket of waiting.splice(0)) socket.destroy();
    child.kill('SIGCONT');
  };
  return { port, resume };
}

/** Requests an address as the service and receivers are requested. */
async function ask(address: string): Promise<string> {
  const config = readConfig({ database: false, clients: false }, {});
  const dispatcher = openDispatcher(config, 1_000_000);
  closers.unshift(() => dispatcher.destroy());
  const { body } = await dispatcher.request({ origin: address, path: '/x', method: 'GET' });
  return text(body);
}

async function askDatabase(port: number): Promise<string> {
  const url = Object.assign(new URL(database.url), { hostname: 'slow.test', port });
  const { db, close } = connectDatabase(url.href, silentLogger, { name: 'test', max: 1 });
  closers.unshift(close);
  return (await sql<{ said: string }>`select 'postgres' as said`.execute(db)).rows[0]?.said ?? '';
}

const askRedis = async (port: number) =>
  (
    await readRedisInfo(Object.assign(new URL(redis.url), { hostname: 'slow.test', port }).href)
  ).slice(0, 8);

test.each<[string, string, (port: number) => Promise<string>]>([
  ['the service or a receiver', 'slow.test /x', (port) => ask(`http://slow.test:${port}`)],
  ['Postgres', 'postgres', askDatabase],
  ['Redis', '# Server', askRedis],
])(
  'a slow address of %s is waited for, although the other one refuses',
  async (what, said, connectTo) => {
    const { url } = await services.start((request, response) =>
      response.end(`${request.headers.host?.replace(/:.*/, '')} ${request.url}`),
    );
    const target = { Postgres: database.url, Redis: redis.url }[what] ?? url.href;
    if (what === 'Redis' && !inject('redisAvailable')) return;
    const mute = await startMute('127.0.0.1', Number(new URL(target).port));
    giveAddresses('slow.test', ['127.0.0.1', '127.0.0.2']);
    setTimeout(mute.resume, 600);
    expect(await connectTo(mute.port)).toBe(said);
  },
);

test('an address that never answers delays the one behind it by a moment', async () => {
  const mute = await startMute('127.0.0.2');
  const server = createServer((_request, response) => response.end('ok'));
  closers.unshift(() => server.close());
  await once(server.listen(mute.port, '127.0.0.1'), 'listening');
  giveAddresses('half.test', ['127.0.0.2', '127.0.0.1']);

  expect(await ask(`http://half.test:${mute.port}`)).toBe('ok');
});
