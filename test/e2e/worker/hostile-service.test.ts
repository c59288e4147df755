import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { gzipSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { schedulesOff, useProcesses } from '../../helpers/processes/processes.ts';
import { sendJson, useServices } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const services = useServices();
const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const token = 'the-token-of-this-client';
const megabyte = 1024 * 1024;

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const shipment = (id: unknown, changes: Record<string, unknown> = {}) => ({
  id,
  type: 'shipment',
  attributes: { status: 'SHIPPED', warehouseCode: 'AMS', ...changes },
  relationships: {
    order: { data: null },
    orderType: { data: null },
    shippingMethod: { data: null },
    shipmentItems: { data: [] },
  },
  included: [],
});
const list = (...data: unknown[]) => ({ data, links: { next: null } });
const json =
  (body: unknown): Answer =>
  (response) =>
    sendJson(response, 200, body);
const text =
  (body: string | Buffer, headers: Record<string, string> = {}, status = 200): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
/** Sends this many megabytes of a text without an end, without holding them in memory. */
const flood =
  (megabytes: number, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...headers });
    response.write('{"data": [{"id": 1, "type": "');
    const chunk = Buffer.alloc(megabyte, 'a');
    let left = megabytes;
    const pump = () => {
      while (left-- > 0) if (!response.write(chunk)) return;
      response.end();
    };
    response.on('drain', pump);
    pump();
  };
/** Starts a service whose whole list of shipments a test answers. Its other lists are empty. */
const startService = (readAnswer: () => Answer) =>
  services.start((request, response) => {
    const path = (request.url ?? '').split('?')[0];
    if (path === '/base/token')
      return sendJson(response, 200, { access_token: token, expires_in: 1_200 });
    if (path === '/base/v3/shipments' && !request.url?.includes('filter'))
      return readAnswer()(response, request);
    if (path?.startsWith('/base/v3/') && path.split('/').length > 4)
      return sendJson(response, 404, { errors: [] });
    return sendJson(response, 200, list());
  });
/** Answers to GET /v3/shipments that make the run fail, each with its error. */
const refused: Readonly<Record<string, { answer: (other: URL) => Answer; error: RegExp }>> = {
  'a body of 200 MB': { answer: () => flood(200), error: /the answer is too large/ },
  'a bomb of gzip': {
    answer: () => text(gzipSync(Buffer.alloc(100 * megabyte)), { 'content-encoding': 'gzip' }),
    error: /the answer is encoded as «gzip», which was not asked for/,
  },
  'a list of 400,000 resources': {
    answer: () => text(`{"data": [1.10${',{}'.repeat(399_999)}]}`),
    error: /holds more than 20000 resources/,
  },
  'a redirect to another host': {
    answer: (other) => text('', { location: `${other.href}/stolen` }, 302),
    error: /redirected \(302\); redirects are not followed/,
  },
  'a next link to another host': {
    answer: (other) =>
      json({
        data: [shipment(1)],
        links: { next: { href: `http://localhost:${other.port}/v3/shipments?stolen=1` } },
      }),
    error: /links\.next leads to .* the link was not followed/,
  },
};

/**
 * Starts a worker for clients whose lists of shipments are given. A worker that needs a larger heap
 * for any answer dies. Its resident memory would tell less: without a limit it grows with the
 * garbage, whose collection depends on the machine.
 */
async function start(lists: Readonly<Record<string, () => Answer>>, heapMb: number) {
  const folder = mkdtempSync(`${tmpdir()}/clients-`);
  closers.push(() => rmSync(folder, { recursive: true }));
  const started = await Promise.all(
    Object.entries(lists).map(async ([key, readAnswer]) => ({
      key,
      service: await startService(readAnswer),
    })),
  );
  const clients = started.map(({ key, service }) => ({
    key,
    baseUrl: service.url.href,
    username: key,
    password: 'the-password',
  }));
  writeFileSync(`${folder}/clients.json`, JSON.stringify(clients), { mode: 0o600 });
  const worker = processes.cli(['worker'], {
    ...schedulesOff,
    SCHEDULE_PULL_SHIPMENTS: '1s',
    DATABASE_URL: database.url,
    WAREHOUSE_CLIENTS_FILE: `${folder}/clients.json`,
    ADMIN_PORT: '0',
    NODE_OPTIONS: `--max-old-space-size=${heapMb}`,
  });
  await worker.line('worker_started');
  const readJob = async (client: string) =>
    (
      await database.query<{
        last_error: string | null;
        last_outcome: string;
        last_success_at: Date | null;
      }>(`select * from sync.jobs where job = 'pull-shipments' and client = '${client}'`)
    )[0];
  return { worker, readJob, requests: started.flatMap(({ service }) => service.requests) };
}

test('a worker holds only as much of large answers as its memory allows, and keeps the others going', async () => {
  const rows = 18_600;
  const pad = Array.from({ length: 22 }, (_, n) => ({ [`member${n}`]: 'x'.repeat(96) }));
  // Four pages in a row: while one is written, the next ones could be read.
  const largePage: Answer = (response, request) => {
    const page = Number(/cursor(?:\]|%5D)=(\d+)/.exec(request.url ?? '')?.[1] ?? 0) + 1;
    const next = page < 4 ? `"?page[cursor]=${page}"` : null;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{"data":[');
    let row = 0;
    const pump = () => {
      while (row < rows) {
        const comma = row > 0 ? ',' : '';
        const text = JSON.stringify(shipment(page * rows + ++row, { pad }));
        if (!response.write(comma + text)) return;
      }
      response.end(`],"links":{"next":${next}}}`);
    };
    response.on('drain', pump);
    pump();
  };
  const good = json(list(shipment(1)));
  const lists = { one: () => largePage, two: () => largePage, good: () => good };
  const { worker, readJob } = await start(lists, 600);
  const assertAlive = () => {
    if (worker.child.exitCode !== null || worker.child.signalCode !== null)
      throw new Error(`the worker has died: ${worker.output.slice(-2_000)}`);
  };
  // On a slow machine the page takes longer than a lease lasts: then the run ends without rows.
  for (const client of ['one', 'two'])
    await waitFor(
      `the end of a run of ${client}`,
      async () => {
        assertAlive();
        const ended = `sync.leases where client = '${client}' and name = 'pull-shipments'
          and (key > 1 or expires_at is null)`;
        return (await database.count(ended)) === 1;
      },
      240_000,
    );
  const before = (await readJob('good'))?.last_success_at;
  await waitFor('another run of the good client', async () => {
    assertAlive();
    return (await readJob('good'))?.last_success_at?.getTime() !== before?.getTime();
  });
  expect(await readJob('good')).toMatchObject({ last_error: null });
}, 600_000);

test('reports each hostile answer, limits its memory, keeps its token to itself, and continues', async () => {
  let answer: Answer = json(list());
  const answerWith = (next: Answer) => {
    answer = next;
  };
  const other = await services.start((_request, response) => sendJson(response, 200, list()));
  const { worker, readJob, requests } = await start({ shop: () => answer }, 512);
  const job = () => readJob('shop');
  const recover = async () => {
    answerWith(json(list()));
    await waitFor('a good run', async () => (await job())?.last_outcome === 'done');
  };
  for (const [what, { answer: makeAnswer, error }] of Object.entries(refused)) {
    await recover();
    answerWith(makeAnswer(other.url));
    const said = await waitFor(what, async () => (await job())?.last_error);
    expect([what, said]).toEqual([what, expect.stringMatching(error)]);
  }
  await recover();
  answerWith(
    text(
      JSON.stringify(list(shipment(21))).replace(
        '"status"',
        '"__proto__": {"polluted": true}, "status"',
      ),
    ),
  );
  const stored = await waitFor('the good shipment', async () => {
    const rows = await database.query<{ raw: unknown }>(
      `select raw::text from fulfilment.shipments where id = 21`,
    );
    return rows[0];
  });
  expect(stored.raw).toContain('"__proto__": {"polluted": true}');
  // The largest answer that is decoded: 20,000 resources, one of them with 900,000 values.
  answerWith(
    text(
      `{"data": [${'{},'.repeat(19_998)}{"id": 22, "type": "shipment", "x": [${'1.10,'.repeat(900_000)}1]},{}]}`,
    ),
  );
  const readError = async () => (await job())?.last_error;
  const said = await waitFor('the largest answer', readError, 400_000);
  expect(said).toMatch(/^20000 of 20000 resources could not be decoded/);
  await recover();
  expect(worker.child.exitCode).toBeNull();
  expect(other.requests).toEqual([]);
  expect(
    requests.every(({ authorization }) => [undefined, `bearer ${token}`].includes(authorization)),
  ).toBe(true);
  expect(worker.output).not.toContain(token);
  expect(worker.output).not.toContain('the-password');
}, 900_000);

test('sends no password to a service whose certificate it cannot trust', async () => {
  const fixture = (name: string) =>
    readFileSync(new URL(`../../fixtures/${name}`, import.meta.url));
  const requests: string[] = [];
  const server = createTlsServer(
    { key: fixture('self-signed-key.pem'), cert: fixture('self-signed-cert.pem') },
    (request, response) => {
      requests.push(request.url ?? '');
      response.end('{}');
    },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  const cli = processes.cli(['run', 'pull-shipments'], {
    DATABASE_URL: database.url,
    WAREHOUSE_BASE_URL: `https://localhost:${(server.address() as AddressInfo).port}`,
    WAREHOUSE_USERNAME: 'shop',
    WAREHOUSE_PASSWORD: 'the-password',
    HTTP_TIMEOUT_MS: '2000',
  });
  expect((await cli.ended).code).toBe(1);
  expect(cli.output).toMatch(
    /no connection to the service: TLS: the certificate .*SELF_SIGNED\w*\); .*NODE_EXTRA_CA_CERTS/,
  );
  expect(requests).toEqual([]);
});
