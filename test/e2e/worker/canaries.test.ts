import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import { removeQuotes } from '../../../src/core/quote.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import {
  readAdminPort,
  startSandbox,
  tracingOptions,
  useProcesses,
} from '../../helpers/processes/processes.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const services = useServices();
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const adminToken = 'kanarie-admin-token-that-is-long-enough';
/** Matches every name, address, password and token of this test. */
const canary = /kanarie/i;
const address = {
  firstName: 'Kanarie-first',
  lastName: 'Kanarie-last',
  street1: 'Kanariestraat',
  houseNumber: '12',
  postcode: '1015CJ',
  city: 'Kanariestad',
  countryCode: 'NL',
};
const personal = {
  email: 'kanarie@example.com',
  phoneNumber: '06-kanarie',
  vatNumber: 'NLkanarie',
  deliveryAddress: address,
  billingAddress: address,
};

type Answer = { readonly status: number; readonly type: string; readonly body: string };

/**
 * Starts a proxy between worker and sandbox. It records every request, and gives the answers that
 * were prepared.
 */
async function startProxy(target: URL) {
  const seen: { url: string; authorization: string; answer: string }[] = [];
  const prepared: { path: RegExp; answer: Answer }[] = [];
  const server = createServer((asked: IncomingMessage, reply: ServerResponse) => {
    const { url = '', method = 'GET', headers } = asked;
    const entry = { url, authorization: headers.authorization ?? '', answer: '' };
    seen.push(entry);
    const index = prepared.findIndex(({ path }) => path.test(`${method} ${url}`));
    const [replaced] = index < 0 ? [] : prepared.splice(index, 1);
    if (replaced !== undefined) {
      asked.resume();
      reply
        .writeHead(replaced.answer.status, { 'content-type': replaced.answer.type })
        .end(replaced.answer.body);
      return;
    }
    const onward = request(new URL(url, target), { method, headers }, (answer) => {
      reply.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.on('data', (piece: Buffer) => {
        if (url.startsWith('/token')) entry.answer += piece.toString();
      });
      answer.pipe(reply);
    });
    onward.on('error', () => reply.destroy());
    asked.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return {
    url,
    seen,
    answerOnce: (path: RegExp, answer: Answer) => prepared.push({ path, answer }),
    countPrepared: () => prepared.length,
  };
}

/** Starts a collector that keeps what it receives. */
async function startCollector() {
  const received: string[] = [];
  const { url } = await services.start(async (asked, reply) => {
    received.push(`${asked.url} ${await text(asked)}`);
    reply.end('{}');
  });
  return { url: url.href, received };
}

const json = (status: number, body: unknown): Answer => ({
  status,
  type: 'application/json',
  body: JSON.stringify(body),
});
const title = [{ title: 'Kanarie-last of Kanariestraat is not known' }];

test('no personal data or secret gets into a log, an error, a metric, a trace or a URL', async () => {
  const options = ['--clients', 'kanarie-user', '--orders-per-day', '20'];
  const { control: sandbox } = await startSandbox(processes.cli, ...options);
  const proxy = await startProxy(sandbox.url);
  const collector = await startCollector();
  const receiver = await startCollector();
  const role = `canaries_${process.pid}`;
  await database.query(`create role ${role} login superuser password 'kanarie-database'`);
  closers.push(() => database.query(`drop owned by ${role} cascade; drop role ${role}`));
  const databaseUrl = Object.assign(new URL(database.url), {
    username: role,
    password: 'kanarie-database',
  }).href;
  const worker = processes.cli(['worker'], {
    DATABASE_URL: databaseUrl,
    WAREHOUSE_BASE_URL: proxy.url.href,
    WAREHOUSE_USERNAME: 'kanarie-user',
    WAREHOUSE_PASSWORD: 'kanarie-user',
    ADMIN_PORT: '0',
    ADMIN_TOKEN: adminToken,
    LOG_LEVEL: 'trace',
    HTTP_TIMEOUT_MS: '2000',
    NODE_OPTIONS: tracingOptions,
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20kanarie-collector',
    ALERT_WEBHOOK_URL: `${receiver.url}/kanarie-path`,
    ALERT_WEBHOOK_SECRET: `whsec_kanarie+${'A'.repeat(24)}`,
    ...Object.fromEntries(
      ['SHIPMENTS', 'ORDERS', 'RETURN_ITEMS', 'INBOUNDS', 'INBOUND_PACKING_SLIPS'].map((name) => [
        `SCHEDULE_PULL_${name}`,
        '1s',
      ]),
    ),
    SCHEDULE_RECONCILE: '3s',
    SCHEDULE_REFRESH_SETTINGS: '1s',
  });
  const port = await readAdminPort(worker);
  const admin = (path: string, token = adminToken) =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${token}` } });

  const insertRow = (kind: string, reference: string, payload: unknown) =>
    database.query('insert into fulfilment.outbox (kind, reference, payload) values ($1, $2, $3)', [
      kind,
      reference,
      JSON.stringify(payload),
    ]);
  const statuses = async () =>
    (
      await database.query<{ reference: string; status: string }>(
        'select reference, status from fulfilment.outbox order by id',
      )
    ).map(({ reference, status }) => `${reference} ${status}`);
  const wrongs = [{}, { email: 7, items: [] }, { nickname: 'Kanarie' }];
  for (const [index, wrong] of wrongs.entries()) {
    const reference = `SO-${index + 1}`;
    const payload = orderPayload(reference, { ...personal, ...wrong });
    await insertRow('order.create', reference, payload);
  }
  await insertRow('kanarie.kind', 'SO-4', personal);
  await waitFor('the orders', async () => (await statuses()).every((one) => /done|dead/.test(one)));
  expect(await statuses()).toEqual(['SO-1 done', 'SO-2 dead', 'SO-3 dead', 'SO-4 dead']);
  await database.query(`
    insert into sync.receivers (name, kind) values ('ALERT_WEBHOOK_URL', 'alert') on conflict do nothing;
    insert into sync.deliveries (receiver, type, client, turn, lane, body, happened_at, next_at)
    values ('ALERT_WEBHOOK_URL', 'problem.began', '', '', 'a', '{}', now(), now())`);
  await sandbox.advance(86_400);
  const named = `fulfilment.order_addresses where last_name ~* 'kanarie'`;
  await waitFor('a day of the warehouse', async () => (await database.count(named)) > 0);

  // The service repeats personal data in each kind of answer.
  proxy.answerOnce(/GET \/v3\/orders/, json(422, { errors: title }));
  proxy.answerOnce(/GET \/v3\/shipments/, { ...json(200, {}), body: '{"data": [Kanarie-last' });
  proxy.answerOnce(
    /GET \/v3\/returnItems/,
    json(200, {
      data: [{ type: 'Kanarie', id: 'Kanarie', attributes: { sku: ['Kanarie'] } }],
      links: {},
    }),
  );
  proxy.answerOnce(
    /GET \/v3\/inbounds/,
    json(200, { data: [], links: { next: 'https://kanarie.example/?token=kanarie' } }),
  );
  proxy.answerOnce(
    /GET \/settings\/get/,
    json(200, { messageCode: 'NOK', message: title[0]?.title }),
  );
  proxy.answerOnce(/POST \/v3\/orders/, json(400, { errors: title }));
  await insertRow('order.create', 'SO-5', orderPayload('SO-5', personal));
  await waitFor('every prepared answer to be given', () => proxy.countPrepared() === 0);
  await waitFor('the refused order', async () =>
    (await statuses()).some((one) => /SO-5 (dead|unknown)/.test(one)),
  );
  const badToken = {
    status: 400,
    type: 'application/json',
    body: '{"error": "invalid_grant", "error_description": "Kanarie-last"}',
  };
  proxy.answerOnce(/POST \/token/, badToken);
  await sandbox.faults({ operation: 'v3.*', count: 1, effect: { expireTokens: true } });
  await waitFor('the refused credentials', () => proxy.countPrepared() === 0);

  expect((await admin('/metrics', 'kanarie-wrong-token')).status).toBe(401);
  const paths = [
    ...['/', '/outbox', '/outbox/1', '/outbox/3', '/outbox/5'],
    ...['/runs', '/schedules', '/quarantine', '/audit', '/queues'],
  ];
  for (const path of paths) {
    // Quotations are removed from each text separately: one that was cut off must not hide the
    // texts after it.
    const answer = await admin(path);
    expect(answer.status).toBe(200);
    const texts = (await answer.text()).split(/<[^>]*>/).map(removeQuotes);
    expect([
      path,
      texts.filter((text) => canary.test(text) && !text.includes('kanarie.kind')),
    ]).toEqual([path, []]);
  }
  const metrics = await (await admin('/metrics')).text();
  await waitFor('the alert', () => receiver.received.includes('/base/kanarie-path {}'));
  worker.kill('SIGTERM');
  await worker.ended;

  const tokens = proxy.seen.flatMap(
    ({ answer }) => /"access_token":"([^"]+)"/.exec(answer)?.[1] ?? [],
  );
  expect(tokens.length).toBeGreaterThan(0);
  const written = {
    log: worker.output,
    metrics,
    traces: collector.received.join('\n'),
    urls: proxy.seen.map(({ url }) => url).join('\n'),
  };
  for (const [where, text] of Object.entries(written)) {
    expect([where, text.length > 1_000]).toEqual([where, true]);
    expect([where, text.split('\n').filter((one) => canary.test(one))]).toEqual([where, []]);
    expect([where, tokens.filter((token) => text.includes(token))]).toEqual([where, []]);
  }
  // Logs and traces still say what happened.
  for (const event of ['push_done', 'push_dead', 'run_done', 'run_failed', 'admin_refused'])
    expect(worker.output).toContain(`"event":"${event}"`);
  expect(written.traces).toMatch(/\/v1\/traces/);
  expect(written.traces).toContain('run pull-orders');
  const pushed = worker.lines.find((line) => line.includes('"event":"push_done"')) ?? '{}';
  const { trace_id: trace, span_id: span } = JSON.parse(pushed) as Record<string, string>;
  const spans = new RegExp(
    `"traceId":"${trace}","spanId":"${span}"[^{]*"name":"push order.create"`,
  );
  expect(written.traces).toMatch(spans);
  expect(written.traces).toContain('v3/orders');
  expect(written.traces).not.toMatch(/page%5B|page\[|filter/);

  // Errors in the tables quote the words of the service for operators. Outside quotations they hold
  // no personal data.
  const errors = await database.query<{ error: string }>(`
    select last_error as error from fulfilment.outbox union all select error from sync.outbox_attempts
    union all select error from sync.runs union all select unnest(warnings) from sync.runs
    union all select last_error from sync.jobs union all select unnest(warnings) from sync.jobs
    union all select reason from sync.quarantine union all select reason from sync.service_health
    union all select words from sync.waiting_reads union all select error from sync.rescans`);
  const words = errors.flatMap(({ error }) => error ?? []);
  expect(words.some((text) => canary.test(text))).toBe(true);
  expect(
    words.filter((text) => canary.test(removeQuotes(text)) && !text.includes('kanarie.kind')),
  ).toEqual([]);

  // A secret is only in memory. No table holds one, neither those of the queue nor our own.
  const ours = ['kanarie-database', adminToken, 'kanarie-wrong-token', 'kanarie-path', 'whsec_'];
  const secrets = [...tokens, ...ours];
  const tables = await database.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('fulfilment', 'sync', 'bullmq')`,
  );
  expect(tables.length).toBeGreaterThan(40);
  for (const { name } of tables) {
    const found = await database.query(
      `select from ${name} t, unnest($1::text[]) as hidden (word) where position(hidden.word in t::text) > 0 limit 1`,
      [secrets],
    );
    expect([name, found.length]).toEqual([name, 0]);
  }
});
