import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import { Webhook } from 'standardwebhooks';
import { afterEach, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const services = useServices();
const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

interface Attempt {
  readonly id: string;
  readonly taken: boolean;
  readonly type: string;
  readonly number: string | null;
}

test('every event arrives, in the order of its order, though the receiver is away and workers are killed', async () => {
  const sandbox = await processes.sandbox();
  const attempts: Attempt[] = [];
  let isAway = true;
  const { url } = await services.start(async (request, response) => {
    const raw = await text(request);
    const headers = request.headers as Record<string, string>;
    // Throws if the signature is wrong.
    const { type, data } = new Webhook(secret).verify(raw, headers) as {
      type: string;
      data: { number: string | null };
    };
    attempts.push({ id: String(headers['webhook-id']), taken: !isAway, type, number: data.number });
    response.writeHead(isAway ? 503 : 204).end();
  });
  const env = workerEnv(database.url, sandbox, {
    EVENT_WEBHOOK_URL: url.href,
    EVENT_WEBHOOK_SECRET: secret,
    SCHEDULE_PULL_SHIPMENTS: '1s',
    SCHEDULE_PULL_PARCELS: '2s',
    HTTP_TIMEOUT_MS: '2000',
  });
  const start = async () => {
    const worker = processes.cli(['worker'], env);
    await worker.line('worker_started');
    return worker;
  };
  let worker = await start();
  await waitFor(
    'the first loads',
    async () => (await database.query('select from sync.freshness')).length >= 5,
  );
  await insertOrders(database, 1, 20);
  const countEvents = async (where: string) =>
    (await database.query(`select from sync.deliveries where ${where}`)).length;
  await waitFor('all orders', async () => (await countEvents(`type = 'order.accepted'`)) === 20);
  await waitFor('an attempt', () => attempts.length > 0);
  const kill = async () => {
    worker.kill('SIGKILL');
    await worker.ended;
    worker = await start();
  };
  await kill();
  isAway = false;
  await waitFor('some events', () => attempts.filter(({ taken }) => taken).length >= 5);
  await kill();
  // The robot of the sandbox would leave some in ERROR for days.
  for (let n = 1; n <= 20; n++)
    await sandbox.call('POST', '/_sandbox/ship', {
      client: 'default',
      externalOrderNumber: `SO-${n}`,
    });
  const shipped = `select distinct number from sync.deliveries where type = 'shipment.shipped' and number like 'SO-%'`;
  await waitFor('all shipped', async () => (await database.query(shipped)).length === 20);
  await waitFor('all delivered', async () => (await countEvents(`status <> 'delivered'`)) === 0);
  const made = await database.query<{ id: string; type: string; number: string }>(
    `select message_id::text as id, type, number from sync.deliveries e order by e.id`,
  );
  const taken = attempts.filter(({ taken: isTaken }) => isTaken);
  expect(new Set(made.map(({ id }) => id))).toEqual(new Set(taken.map(({ id }) => id)));
  // What arrives again was taken before.
  const arrived = [...new Set(taken.map(({ id }) => id))];
  for (let n = 1; n <= 20; n++) {
    const ofOrder = made.filter(({ number }) => number === `SO-${n}`);
    expect(new Set(ofOrder.map(({ type }) => type)).size, `SO-${n}`).toBe(3);
    expect(arrived.filter((id) => ofOrder.some((event) => event.id === id))).toEqual(
      ofOrder.map(({ id }) => id),
    );
  }
});

const folder = fileURLToPath(new URL('../../../docs/receivers/', import.meta.url));
const receivers = {
  node: () => [process.execPath, `${folder}receiver.mjs`],
  python3: () => ['python3', `${folder}receiver.py`],
  php: (port: number) => ['php', '-S', `127.0.0.1:${port}`, `${folder}receiver.php`],
} as const;

/** Returns whether a program is installed. */
async function isInstalled(name: string): Promise<boolean> {
  const child = spawn(name, ['--version'], { stdio: 'ignore' });
  const ended = Promise.withResolvers<boolean>();
  child.on('error', () => ended.resolve(false));
  child.on('exit', (code) => ended.resolve(code === 0));
  return ended.promise;
}

for (const [name, command] of Object.entries(receivers))
  test(`the receiver for ${name} takes a signed event once, and refuses a wrong signature and an old one`, async ({
    skip,
  }) => {
    if (!(await isInstalled(name === 'node' ? process.execPath : name))) skip();
    const port = await getPort();
    const [program = '', ...args] = command(port);
    const child = spawn(program, args, {
      env: { ...process.env, SECRET: secret, PORT: String(port) },
    });
    closers.push(async () => {
      child.kill('SIGKILL');
      await once(child, 'exit');
    });
    const lines: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => lines.push(line));
    const post = async (id: string, at: Date, signed = secret) => {
      const body = JSON.stringify({
        type: 'order.accepted',
        timestamp: at.toISOString(),
        data: {},
      });
      const answer = await fetch(`http://127.0.0.1:${port}/`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
          'webhook-signature': new Webhook(signed).sign(id, at, body),
        },
        body,
      });
      return answer.status;
    };
    const now = new Date();
    await waitFor('the receiver', () => post('first', now).catch(() => 0));
    expect(await post('first', now)).toBe(204);
    expect(await post('wrong', now, `whsec_${Buffer.alloc(24, 8).toString('base64')}`)).toBe(401);
    expect(await post('old', new Date(now.getTime() - 3_600_000))).toBe(401);
    await waitFor('the line', () => lines.some((line) => line.includes('order.accepted first')));
    expect(lines.join()).not.toMatch(/wrong|old/);
  });
