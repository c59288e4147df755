import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { Browser } from 'playwright-core';
import { createSandbox } from '../src/sandbox/server/server.ts';
import { World } from '../src/sandbox/world.ts';
import { orderBody, ServiceClient } from '../test/helpers/client.ts';
import { orderPayload } from '../test/helpers/order-payload.ts';
import { launchBrowser } from '../test/helpers/processes/chromium.ts';
import { SandboxControl } from '../test/helpers/sandbox-control.ts';
import { waitFor } from '../test/helpers/wait.ts';

// `npm run screenshots` makes the pictures in docs/images: the overview of the demo, with a dead
// row in its outbox, and the page of a sandbox.

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = `${root}docs/images`;

const demo = spawn(process.execPath, ['src/cli/main.ts', 'demo'], {
  cwd: root,
  stdio: ['ignore', 'pipe', 'inherit'],
});
const lines: string[] = [];
createInterface({ input: demo.stdout }).on('line', (line) => lines.push(line));
const waitForLine = (pattern: RegExp) =>
  waitFor(`${pattern}`, () => lines.map((line) => pattern.exec(line)?.[1]).find(Boolean));

try {
  const base = await waitForLine(/Status page:\s+(\S+)\//);
  const client = new pg.Client(await waitForLine(/psql '([^']+)'/));
  await client.connect();
  const insertOrder = (reference: string, changes: object) =>
    client.query(
      `insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)`,
      [reference, JSON.stringify(orderPayload(reference, { ...changes }))],
    );
  await waitForLine(/rows changed: .*(pull-shipments)/);
  await insertOrder('SO-1001', {});
  await insertOrder('SO-1002', { orderType: 'BY-SHIP' });
  await client.query(
    `insert into fulfilment.outbox (kind, reference) values ('order.cancel', 'SO-1002')`,
  );
  await waitFor(
    'a dead row',
    async () =>
      (await client.query(`select from fulfilment.outbox where status = 'dead'`)).rowCount,
  );
  await client.end();
  const browser = await launchBrowser();
  mkdirSync(folder, { recursive: true });
  const page = await browser.newPage({
    viewport: { width: 1_600, height: 900 },
    colorScheme: 'light',
  });
  await page.goto(`${base}/`);
  await page.getByText('1 row is dead').waitFor();
  await page.screenshot({ path: `${folder}/overview.png`, fullPage: true });
  await drawSandbox(browser);
  await browser.close();
} finally {
  demo.kill('SIGTERM');
  await once(demo, 'exit');
}

/** Takes the picture of the sandbox's page, after three days of the robot and some requests. */
async function drawSandbox(browser: Browser): Promise<void> {
  const world = new World({
    clients: ['shop-a', 'shop-b'],
    seed: 1,
    speed: 0,
    startMs: Date.parse('2026-05-04T08:00:00Z'),
    zone: 'Europe/Amsterdam',
    ordersPerDay: 68,
  });
  const app = createSandbox(world);
  try {
    const sandbox = new SandboxControl(new URL(await app.listen({ host: '127.0.0.1', port: 0 })));
    await sandbox.advance(3 * 86_400);
    const client = new ServiceClient(sandbox, 'shop-a');
    await client.logIn();
    await client.ask('v3.orders.create', { body: orderBody('SO-1001') });
    await sandbox.faults({
      operation: 'v3.inbounds.list',
      count: 2,
      effect: { status: 503, retryAfter: '5' },
    });
    const paths = [
      '/v3/shipments?page[size]=50',
      '/v3/inbounds',
      '/v3/returnItems?old=1',
      '/v3/parcels',
    ];
    for (const path of paths) await client.fetch('GET', path);
    await client.ask('v2.order.search', { query: 'externalOrderNumber=SO-1001' });
    await sandbox.call('POST', '/_sandbox/ship', {
      client: 'shop-a',
      externalOrderNumber: 'SO-1001',
    });
    const page = await browser.newPage({ viewport: { width: 1_600, height: 1_000 } });
    await page.goto(new URL('/?client=shop-a', sandbox.url).href);
    await page.screenshot({ path: `${folder}/sandbox.png` });
    await page.close();
  } finally {
    await app.close();
  }
}
