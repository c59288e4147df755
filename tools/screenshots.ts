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

// `npm run screenshots` makes the pictures in docs/images: from the demo, with a dead row in its outbox, and from
// a sandbox.

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = `${root}docs/images`;
const widths = [360, 1_600];
const schemes = ['light', 'dark'] as const;

const demo = spawn(process.execPath, ['src/app/main.ts', 'demo'], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
const lines: string[] = [];
createInterface({ input: demo.stdout }).on('line', (line) => lines.push(line));
const waitForLine = (pattern: RegExp) =>
  waitFor(`${pattern}`, () => lines.map((line) => pattern.exec(line)?.[1]).find(Boolean));

try {
  const base = await waitForLine(/status page is (\S+)\//);
  const client = new pg.Client(await waitForLine(/psql '([^']+)'/));
  await client.connect();
  const insertOrder = (reference: string, changes: object) =>
    client.query(`insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)`, [
      reference,
      JSON.stringify(orderPayload(reference, { ...changes })),
    ]);
  await waitForLine(/(pull-shipments) done/);
  await insertOrder('SO-1001', {});
  await insertOrder('SO-1002', { orderType: 'BY-SHIP' });
  await client.query(`insert into fulfilment.outbox (kind, reference) values ('order.cancel', 'SO-1002')`);
  await waitFor(
    'a dead row',
    async () => (await client.query(`select from fulfilment.outbox where status = 'dead'`)).rowCount,
  );
  const browser = await launchBrowser();
  mkdirSync(folder, { recursive: true });
  const draw = async (name: string, path: string, width: number, colorScheme: 'light' | 'dark') => {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    await page.goto(base + path);
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
    await page.close();
  };
  const drawAll = async (name: string, path: string) => {
    for (const width of widths)
      for (const scheme of schemes) await draw(`${name}-${width}-${scheme}`, path, width, scheme);
  };
  await drawAll('overview', '/');
  await draw('dead-letter', '/outbox/2', 1_600, 'light');
  await client.end();
  await drawAll('order', '/order?client=default&number=SO-1001');
  await drawSandbox(browser, folder);
  await browser.close();
} finally {
  demo.kill('SIGTERM');
  await once(demo, 'exit');
}
