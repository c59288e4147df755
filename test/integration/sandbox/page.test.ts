import { describe, expect, test } from 'vitest';
import { address, line, orderBody, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], {
  ...quiet,
  strict: false,
  unknownProducts: 'accept',
});
const client = useClient(sandbox);

const load = async (path = '/') => {
  const answer = await fetch(new URL(path, sandbox.url));
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
};
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
    expect(login.text).toContain('username=default&amp;password=***');
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
});

test('the page shows orders first, and addresses of requests as people read them', async () => {
  await client.ask('v3.orders.create', { body: orderBody('WEB-1') });
  await client.fetch('GET', `/v3/orders?${encodeURIComponent('filter[reference][in]')}=PO%207`);
  const { text } = await load();
  expect(text).toMatch(/Orders.*WEB-1.*Requests.*Findings.*Faults/s);
  expect(text).toContain('GET /v3/orders?filter[reference][in]=PO 7<');
  const found = (await load('/?q=web-1')).text;
  expect(found).toMatch(/Orders.*WEB-1.*POST \/v3\/orders</s);
  expect(found).not.toContain('filter[reference]');
});

test('the page escapes what clients send and what the address says', async () => {
  const included = [line(hostile), address('d', { city: hostile }), address('b')];
  const attributes = { reference: hostile, [hostile]: 1 };
  const place = async () =>
    (await load(`/_sandbox/page/requests/${await sandbox.lastPlace()}`)).text;
  expect(
    (await client.ask('v3.orders.create', { body: orderBody(hostile, { attributes, included }) }))
      .status,
  ).toBe(200);
  const pages = [await place()];
  await client.fetch('GET', `/v3/${hostile}?${hostile}`);
  pages.push(await place());
  await sandbox.faults({ operation: 'v3.*', effect: { contentType: hostile } });
  const q = encodeURIComponent(hostile);
  for (const path of ['/', `/?q=${q}`, `/?client=${q}`, '/?q=1&q=2'])
    pages.push((await load(path)).text);
  expect(pages[3]).toContain('>&quot;&#39;&gt;&lt;script&gt;');
  for (const page of pages) expect(page).not.toContain('<script>');
});

test('the page shows findings and faults; a fault that is used up is gone', async () => {
  const faults = async () => (await load()).text.split('id="faults"')[1];
  await sandbox.faults({ operation: 'v3.orders.list', count: 1, effect: { status: 503 } });
  expect(await faults()).toContain('v3.orders.list');

  expect((await client.fetch('GET', '/v3/orders?colour=red')).status).toBe(503);
  expect(await faults()).toContain('None.');
  expect((await client.fetch('GET', '/v3/orders?colour=red')).status).toBe(200);
  expect((await load()).text).toContain('unknown_parameter colour');
});

test('the page loads nothing from elsewhere, and no other page may frame it', async () => {
  const { text, headers } = await load();
  const policy = headers.get('content-security-policy') ?? '';
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toContain('unsafe');
  for (const [, path = ''] of text.matchAll(/(?:src|href)="([^"]*)"/g))
    expect(path).toMatch(/^(\/(?!\/)|data:,$|#)/);
  for (const path of ['/_sandbox/page.css', '/_sandbox/page.js'])
    expect((await load(path)).status).toBe(200);
});
