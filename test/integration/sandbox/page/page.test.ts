import { describe, expect, test } from 'vitest';
import { address, line, orderBody, useClient } from '../../../helpers/client.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], { ...quiet, strict: false, unknownProducts: 'accept' });
const client = useClient(sandbox);

const load = async (path = '/') => {
  const answer = await fetch(new URL(path, sandbox.url));
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
};
/** Reads the rows of the log on the page, newest first. */
const readLog = async (query: string) =>
  [...(await load(`/?${query}`)).text.matchAll(/<a class="exchange" href="[^"]+"><code>([^<]+)<\/code>/g)].map(
    ([, request]) => request,
  );
const hostile = `"'><script>alert(1)</script>&amp;`;

describe('the log on the page', () => {
  test('shows a request with its bodies and as a command, without token and password', async () => {
    await client.ask('v3.orders.create', { body: orderBody("WEB-1'x") });
    const [token, order] = await sandbox.requests();
    const { text } = await load(`/_sandbox/page/requests/${order?.place}`);
    expect(text).toContain(`curl -g -X POST &#39;${sandbox.url.origin}/v3/orders&#39;`);
    expect(text).toContain('-H &quot;authorization: bearer $TOKEN&quot;');
    expect(text).toContain(String.raw`&quot;WEB-1&#39;\&#39;&#39;x&quot;`);
    const login = await load(`/_sandbox/page/requests/${token?.place}`);
    expect(login.text).toContain('username=default&amp;password=&#39;&quot;$SECRET&quot;&#39;');
    expect(login.text).toContain('&quot;access_token&quot;: &quot;***&quot;');
    const exchange = await sandbox.call('GET', `/_sandbox/requests/${token?.place}`);
    expect(exchange).toMatchObject({
      requestBody: 'grant_type=password&username=default&password=***',
      status: 200,
      kept: true,
    });
    const everything = [text, login.text, JSON.stringify(exchange), (await load()).text].join();
    expect(everything).not.toContain(client.token);
    expect(everything).not.toContain('password=default');
  });

  test('hides secrets in addresses and bodies of unknown routes', async () => {
    const body = { user: { Password: 'hunter2', apiKey: 'hunter3' }, note: 'Bearer hunter4' };
    await client.fetch('POST', `/v9/login?access_token=hunter5`, { body });
    const [place] = (await sandbox.requests()).slice(-1).map((row) => row.place);
    const { text } = await load(`/_sandbox/page/requests/${place}`);
    expect(text).toContain('/v9/login?access_token=***');
    expect(text).not.toContain('hunter');
    expect(JSON.stringify(await sandbox.requests())).not.toContain('hunter');
  });

  test('is filtered by text, operation and status', async () => {
    await client.ask('v3.orders.create', { body: orderBody('WEB-1') });
    await client.ask('v3.orders.list');
    await client.fetch('GET', '/v3/nothing');
    expect(await readLog('')).toEqual(['GET /v3/nothing', 'GET /v3/orders', 'POST /v3/orders', 'POST /token']);
    expect(await readLog('text=NOTHING')).toEqual(['GET /v3/nothing']);
    expect(await readLog('text=web-1')).toEqual(['GET /v3/orders', 'POST /v3/orders']);
    expect(await readLog('operation=v3.orders.list')).toEqual(['GET /v3/orders']);
    expect(await readLog('status=4xx')).toEqual(['GET /v3/nothing']);
    expect(await readLog('status=5xx')).toEqual([]);
  });

  test('shows requests without an answer, and what a fault has sent instead of one', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { reset: true } });
    await sandbox.faults({ operation: 'v3.orders.list', effect: { status: 503, html: true } });
    await expect(client.fetch('POST', '/v3/orders', { body: orderBody('WEB-1') })).rejects.toThrow();
    await fetch(new URL('/v3/orders', sandbox.url), { headers: { authorization: `bearer ${client.token}` } });
    expect(await readLog('status=no+answer')).toEqual(['POST /v3/orders']);
    expect(await readLog('status=fault')).toEqual(['GET /v3/orders', 'POST /v3/orders']);
    const place = await sandbox.lastPlace();
    expect((await load(`/_sandbox/page/requests/${place}`)).text).toContain('&lt;body&gt;Bad gateway');
  });

  test('keeps the bodies of the latest requests only, and only the beginning of long ones', async () => {
    const first = await sandbox.lastPlace();
    const long = orderBody('WEB-1', { attributes: { metadata: { extra1: 'x'.repeat(100_000) } } });
    for (let count = 0; count < 199; count++) await client.fetch('GET', '/v3/nothing');
    expect((await load(`/_sandbox/page/requests/${first}`)).text).toContain('grant_type');
    await client.fetch('POST', '/v3/orders', { body: long });
    expect((await load(`/_sandbox/page/requests/${first}`)).text).toContain('The bodies are gone');
    const { text } = await load(`/_sandbox/page/requests/${await sandbox.lastPlace()}`);
    expect(text).toContain('Only the beginning of a body is kept.');
    expect(text).toContain('--data-binary &#39;@body&#39;');
    expect(text.length).toBeLessThan(60_000);
    expect((await load('/_sandbox/page/requests/999999')).status).toBe(404);
  });
});

describe('a search on the page', () => {
  const build = async () => {
    const included = [line('MUG-BLUE', 2), address('d'), address('b')];
    await client.ask('v3.orders.create', { body: orderBody('WEB-1', { attributes: { reference: 'PO 7' }, included }) });
    const at = { client: 'default' };
    type Ids = { shipmentIds: number[]; authorizationId: number; returnItemIds: number[] };
    const call = (path: string, body: object) => sandbox.call<Ids>('POST', `/_sandbox/${path}`, { ...at, ...body });
    const [shipmentId = 0] = (await call('ship', { externalOrderNumber: 'WEB-1' })).shipmentIds;
    const { authorizationId } = await call('return', { shipmentId, externalReference: 'RET-1' });
    const [returnItemId = 0] = (await call('return/process', { authorizationId })).returnItemIds;
    const slip = {
      type: 'inboundPackingSlip',
      attributes: { expectedIn: 'AMS', expectedOn: '2026-05-05', reference: 'INB-1' },
      included: [{ type: 'inboundPackingSlipItem', attributes: { sku: 'MUG-BLUE', quantity: 7 } }],
    };
    expect((await client.ask('v3.inboundPackingSlips.create', { body: { data: slip } })).status).toBe(200);
    await sandbox.advance(3 * 86_400);
    return { shipmentId, authorizationId, returnItemId };
  };
  const readResults = async (q: string | number, name = 'default') => {
    const { text } = await load(`/?client=${name}&q=${encodeURIComponent(q)}`);
    return text.slice(text.indexOf('<div id="results"'), text.indexOf('<div class="columns"'));
  };

  test('shows an order with its shipments, packages and returns, by any of their numbers', async () => {
    const { shipmentId, authorizationId, returnItemId } = await build();
    for (const q of ['WEB-1', 'PO 7', shipmentId, authorizationId, 'RET-1', returnItemId, 'eb-1']) {
      const found = await readResults(q);
      expect(found, String(q)).toContain('<h3>Order WEB-1</h3>');
      for (const part of ['Items', 'Shipments', 'Packages', 'Announced returns', 'Returned items'])
        expect(found, `${part} by ${q}`).toContain(`<h4>${part}</h4>`);
      expect(found).toContain(`id="found-shipment-${shipmentId}"`);
    }
    expect(await readResults('WEB-1', 'other')).toContain('Client other has nothing like <b>WEB-1</b>');
  });

  test('shows a product with its stock and orders, and an inbound packing slip with its inbounds', async () => {
    await build();
    const product = await readResults('MUG-BLUE');
    expect(product).toContain('<h3>Product MUG-BLUE</h3>');
    expect(product).toContain('>WEB-1</a>');
    expect(product).toContain('>stock AMS</dt>');
    const slip = await readResults('INB-1');
    expect(slip).toContain('<h3>Inbound packing slip INB-1</h3>');
    const [, inboundId = ''] = /<h3>Inbound (\d+)<\/h3>/.exec(slip) ?? [];
    expect(await readResults(inboundId)).toContain('<h3>Inbound packing slip INB-1</h3>');
  });
});

test('the page escapes what clients send and what the address says', async () => {
  const included = [line(hostile), address('d', { city: hostile }), address('b')];
  const attributes = { reference: hostile, [hostile]: 1 };
  const place = async () => (await load(`/_sandbox/page/requests/${await sandbox.lastPlace()}`)).text;
  expect((await client.ask('v3.orders.create', { body: orderBody(hostile, { attributes, included }) })).status).toBe(
    200,
  );
  const pages = [await place()];
  await client.fetch('GET', `/v3/${hostile}?${hostile}`);
  pages.push(await place());
  await sandbox.faults({ operation: 'v3.*', effect: { contentType: hostile } });
  const q = encodeURIComponent(hostile);
  for (const path of [
    '/',
    `/?q=${q}`,
    `/?client=${q}&text=${q}&operation=${q}&status=${q}&said=${q}`,
    '/?said=__proto__',
  ])
    pages.push((await load(path)).text);
  expect(pages[3]).toContain('<h3>Order &quot;&#39;&gt;&lt;script&gt;');
  for (const page of pages) expect(page).not.toContain('<script>');
  const refused = await fetch(new URL('/_sandbox/ship', sandbox.url), {
    method: 'POST',
    headers: { accept: 'text/html', referer: `${sandbox.url.origin}/?q=${hostile}` },
    body: new URLSearchParams({ [hostile]: hostile }),
  });
  expect([refused.status, await refused.text()]).toEqual([400, expect.not.stringContaining('<script>')]);
});

test('the page loads nothing from elsewhere, and no other page may frame it', async () => {
  const { text, headers } = await load();
  const policy = headers.get('content-security-policy') ?? '';
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toContain('unsafe');
  for (const [, path = ''] of text.matchAll(/(?:src|href)="([^"]*)"/g)) expect(path).toMatch(/^(\/(?!\/)|data:,$|#)/);
  for (const path of ['/_sandbox/page.css', '/_sandbox/page.js']) expect((await load(path)).status).toBe(200);
});
