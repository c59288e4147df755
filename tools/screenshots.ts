import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { orderPayload } from '../test/helpers/order-payload.ts';
import { launchBrowser } from '../test/helpers/processes/chromium.ts';
import { waitFor } from '../test/helpers/wait.ts';
import { drawSandbox } from './sandbox-picture.ts';

// `npm run screenshots` makes the pictures in docs/images: the overview of the demo, with a dead row in its outbox, and
// the page of a sandbox.

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = `${root}docs/images`;

const demo = spawn(process.execPath, ['src/app/main.ts', 'demo'], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
const lines: string[] = [];
createInterface({ input: demo.stdout }).on('line', (line) => lines.push(line));
const waitForLine = (pattern: RegExp) =>
  waitFor(`${pattern}`, () => lines.map((line) => pattern.exec(line)?.[1]).find(Boolean));

try {
  const base = await waitForLine(/Status page:\s+(\S+)\//);
  const client = new pg.Client(await waitForLine(/psql '([^']+)'/));
  await client.connect();
  const insertOrder = (reference: string, changes: object) =>
    client.query(`insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)`, [
      reference,
      JSON.stringify(orderPayload(reference, { ...changes })),
    ]);
  await waitForLine(/rows changed: .*(pull-shipments)/);
  await insertOrder('SO-1001', {});
  await insertOrder('SO-1002', { orderType: 'BY-SHIP' });
  await client.query(`insert into fulfilment.outbox (kind, reference) values ('order.cancel', 'SO-1002')`);
  await waitFor(
    'a dead row',
    async () => (await client.query(`select from fulfilment.outbox where status = 'dead'`)).rowCount,
  );
  await client.end();
  const browser = await launchBrowser();
  mkdirSync(folder, { recursive: true });
  const page = await browser.newPage({ viewport: { width: 1_600, height: 900 }, colorScheme: 'light' });
  await page.goto(`${base}/`);
  await page.screenshot({ path: `${folder}/overview.png`, fullPage: true });
  await drawSandbox(browser, folder);
  await browser.close();
} finally {
  demo.kill('SIGTERM');
  await once(demo, 'exit');
}
