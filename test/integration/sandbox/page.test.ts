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

describe('the log', () => {
  const readExchange = (place = 0) =>
    sandbox.call<{ command: string }>('GET', `/_sandbox/requests/${place}`);

  test('shows a request with its bodies and as a command, without token and password', async () => {
    await client.ask('v3.orders.create', { body: orderBody("WEB-1'x") });
    const [token, order] = await sandbox.requests();
    const { command } = await readExchange(order?.place);
    expect(command).toContain(`curl -g -X POST '${sandbox.url.origin}/v3/orders'`);
    expect(command).toContain('-H "authorization: bearer $TOKEN"');
    expect(command).toContain(String.raw`"WEB-1'\''x"`);
    const login = await readExchange(token?.place);
    expect(login).toMatchObject({
      requestBody: 'grant_type=password&username=default&password=***',
      answerBody: expect.stringContaining('"access_token":"***"'),
      status: 200,
      kept: true,
    });
    const everything = [command, JSON.stringify(login), (await load()).text].join();
    expect(everything).not.toContain(client.token);
    expect(everything).not.toContain('password=default');
  });

  test('hides secrets in addresses and bodies of unknown routes', async () => {
    const body = { user: { Password: 'hunter2', apiKey: 'hunter3' }, note: 'Bearer hunter4' };
    await client.fetch('POST', `/v9/login?access_token=hunter5`, { body });
    const text = JSON.stringify(await readExchange(await sandbox.lastPlace()));
    expect(text).toContain('/v9/login?access_token=***');
    expect(text).not.toContain('hunter');
    expect((await load()).text).not.toContain('hunter');
  });
});

test('the page escapes what clients send and what the address says', async () => {
  const included = [line(hostile), address('d', { city: hostile }), address('b')];
  const attributes = { reference: hostile, [hostile]: 1 };
  const body = orderBody(hostile, { attributes, included });
  expect((await client.ask('v3.orders.create', { body })).status).toBe(200);
  await client.fetch('GET', `/v3/${hostile}?${hostile}`);
  await sandbox.faults({ operation: 'v3.*', effect: { contentType: hostile } });
  const { text } = await load(`/?client=${encodeURIComponent(hostile)}`);
  expect(text).toContain('>&quot;&#39;&gt;&lt;script&gt;');
  expect(text).not.toContain('<script>');
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
