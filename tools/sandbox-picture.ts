import type { Browser } from 'playwright-core';
import { createSandbox } from '../src/sandbox/server/server.ts';
import { World } from '../src/sandbox/world.ts';
import { orderBody, ServiceClient } from '../test/helpers/client.ts';
import { SandboxControl } from '../test/helpers/sandbox-control.ts';

/** Takes the picture of the sandbox's page, after three days of the robot and some requests. */
export async function drawSandbox(browser: Browser, folder: string): Promise<void> {
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
    await sandbox.faults({ operation: 'v3.inbounds.list', count: 2, effect: { status: 503, retryAfter: '5' } });
    const paths = ['/v3/shipments?page[size]=50', '/v3/inbounds', '/v3/returnItems?old=1', '/v3/parcels'];
    for (const path of paths) await client.fetch('GET', path);
    await client.ask('v2.order.search', { query: 'externalOrderNumber=SO-1001' });
    await sandbox.call('POST', '/_sandbox/ship', { client: 'shop-a', externalOrderNumber: 'SO-1001' });
    const page = await browser.newPage({ viewport: { width: 1_600, height: 1_000 } });
    await page.goto(new URL('/?client=shop-a&q=SO-1001', sandbox.url).href);
    await page.screenshot({ path: `${folder}/sandbox.png` });
    await page.close();
  } finally {
    await app.close();
  }
}
