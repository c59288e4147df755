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

// `npm run screenshots` makes the pictures in docs/images: from the demo, with an outbox that has a dead row, and from a
// sandbox.

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = `${root}docs/images`;
const shots = [
  ['overview', '/'],
  ['dead-letter', '/outbox/2'],
  ['schedules', '/schedules'],
] as const;

const demo = spawn(process.execPath, ['src/app/main.ts', 'demo'], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
const lines: string[] = [];
createInterface({ input: demo.stdout }).on('line', (line) => lines.push(line));
const waitForLine = (pattern: RegExp) =>
  waitFor(`${pattern}`, () => lines.map((line) => pattern.exec(line)?.[1]).find(Boolean), 60_000);

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
  const recent = `select from sync.runs where job = 'pull-shipments' having count(*) > 20`;
  await waitFor('some runs', async () => (await client.query(recent)).rowCount, 120_000);
  await client.end();
  const browser = await launchBrowser();
  mkdirSync(folder, { recursive: true });
  for (const [name, path] of shots)
    for (const width of [360, 900, 1_600]) {
      const page = await browser.newPage({
        viewport: { width, height: 800 },
        colorScheme: width === 900 ? 'dark' : 'light',
      });
      await page.goto(base + path);
      await page.screenshot({ path: `${folder}/${name}-${width}.png`, fullPage: true });
      await page.close();
    }
  await drawSandbox(browser, folder);
  await browser.close();
} finally {
  demo.kill('SIGTERM');
  await once(demo, 'exit');
}
