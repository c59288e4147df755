import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { jobNames, toScheduleVariable } from '../../../config/jobs.ts';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { sendJson, useServices } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const services = useServices();
const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/**
 * The heap of the worker, in MB. A worker that needs more for any answer dies. Its resident memory
 * would tell less: without a limit it grows with the garbage, whose collection depends on the
 * machine.
 */
const heapMb = 512;
const token = 'the-token-of-this-client';
const megabyte = 1024 * 1024;

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const shipment = (id: unknown, changes: Record<string, unknown> = {}) => ({
  id,
  type: 'shipment',
  attributes: {
    status: 'SHIPPED',
    readyToPickOn: '2026-05-04T08:00:00',
    readyToShipOn: '2026-05-04T09:00:00',
    shippedOn: '2026-05-04T10:00:00',
    warehouseCode: 'AMS',
    returnLabel: null,
    ...changes,
  },
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

describe('a worker with the services of several clients', () => {
  /** Starts a worker for clients whose lists of shipments are given, and for the client `good`. */
  async function start(lists: Readonly<Record<string, Answer>>) {
    const folder = mkdtempSync(`${tmpdir()}/clients-`);
    closers.push(() => rmSync(folder, { recursive: true }));
    const clients = await Promise.all(
      Object.entries({ ...lists, good: json(list(shipment(1))) }).map(async ([key, answer]) => {
        const service = await startService(() => answer);
        return { key, baseUrl: service.url.href, username: key, password: 'the-password' };
      }),
    );
    writeFileSync(`${folder}/clients.json`, JSON.stringify(clients), { mode: 0o600 });
    const worker = processes.cli(['worker'], {
      ...Object.fromEntries(jobNames.map((job) => [toScheduleVariable(job), 'off'])),
      SCHEDULE_PULL_SHIPMENTS: '1s',
      DATABASE_URL: database.url,
      WAREHOUSE_CLIENTS_FILE: `${folder}/clients.json`,
      ADMIN_PORT: '0',
      NODE_OPTIONS: '--max-old-space-size=600',
    });
    await worker.line('worker_started');
    return worker;
  }
  const readRuns = async (client: string) =>
    (
      await database.query<{ last_error: string | null; last_success_at: Date | null }>(
        `select last_error, last_success_at from sync.jobs where job = 'pull-shipments' and client = '${client}'`,
      )
    )[0];
  test('holds only as much of their answers as its memory allows, and keeps the others going', async () => {
    const rows = 18_600;
    const pad = Array.from({ length: 22 }, (_, n) => ({
      [`member${n}`]: `value ${'x'.repeat(90)}`,
    }));
    // Four pages in a row: while one is written, the next ones could be read.
    const largePage: Answer = (response, request) => {
      const page = Number(/cursor(?:\]|%5D)=(\d+)/.exec(request.url ?? '')?.[1] ?? 0) + 1;
      const next = page < 4 ? `"?page[cursor]=${page}"` : null;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"data":[');
      let row = 0;
      const pump = () => {
        while (row < rows)
          if (
            !response.write(
              `${row > 0 ? ',' : ''}${JSON.stringify(shipment(page * rows + ++row, { pad }))}`,
            )
          )
            return;
        response.end(`],"links":{"next":${next}}}`);
      };
      response.on('drain', pump);
      pump();
    };
    const worker = await start({ one: largePage, two: largePage });
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
          const [ended] = await database.query<{ ended: boolean }>(
            `select key > 1 or expires_at is null as ended from sync.leases where client = '${client}' and name = 'pull-shipments'`,
          );
          return ended?.ended === true;
        },
        240_000,
      );
    const before = (await readRuns('good'))?.last_success_at;
    await waitFor('another run of the good client', async () => {
      assertAlive();
      return (await readRuns('good'))?.last_success_at?.getTime() !== before?.getTime();
    });
    expect(await readRuns('good')).toMatchObject({ last_error: null });
  }, 600_000);
});

describe('a worker whose service is hostile', () => {
  /**
   * Starts a worker, a service whose list of shipments a test sets, and another service that must
   * get no request.
   */
  async function start() {
    let answer: Answer = json(list());
    const service = await startService(() => answer);
    const other = await services.start((_request, response) => sendJson(response, 200, list()));
    const off = jobNames.map((job) => [toScheduleVariable(job), 'off']);
    const env = {
      ...Object.fromEntries(off),
      SCHEDULE_PULL_SHIPMENTS: '1s',
      SCHEDULE_PUSH_OUTBOX: 'off',
      DATABASE_URL: database.url,
      WAREHOUSE_BASE_URL: service.url.href,
      WAREHOUSE_USERNAME: 'shop',
      WAREHOUSE_PASSWORD: 'the-password',
      HTTP_TIMEOUT_MS: '5000',
      ADMIN_PORT: '0',
      NODE_OPTIONS: `--max-old-space-size=${heapMb}`,
    };
    const worker = processes.cli(['worker'], env);
    await worker.line('worker_started');
    return { service, other, worker, env, answerWith: (next: Answer) => (answer = next) };
  }
  const job = async () =>
    (
      await database.query<{
        last_error: string | null;
        last_outcome: string;
        last_fetched: number;
      }>(
        `select last_error, last_outcome, last_fetched from sync.jobs where job = 'pull-shipments'`,
      )
    )[0];

  test('reports each hostile answer, limits its memory, keeps its token to itself, and continues', async () => {
    const { service, other, worker, answerWith } = await start();
    const recover = async () => {
      answerWith(json(list()));
      await waitFor('a good run', async () => (await job())?.last_outcome === 'done');
    };
    for (const [what, { answer, error }] of Object.entries(refused)) {
      await recover();
      answerWith(answer(other.url));
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
    const said = await waitFor('the largest answer', async () => (await job())?.last_error);
    expect(said).toMatch(/^20000 of 20000 resources could not be decoded/);
    await recover();
    expect(worker.child.exitCode).toBeNull();
    expect(other.requests).toEqual([]);
    expect(
      service.requests.every(({ authorization }) =>
        [undefined, `bearer ${token}`].includes(authorization),
      ),
    ).toBe(true);
    expect(worker.output).not.toContain(token);
    expect(worker.output).not.toContain('the-password');
  }, 300_000);

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
});
